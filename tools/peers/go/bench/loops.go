// Varve: a key-value storage engine. MIT licence, see LICENSE.

package bench

import (
	"sync/atomic"
	"time"
)

// callsPerCheck is the number of calls between looks at the clock.
const callsPerCheck = 64

type keyOrder int

const (
	sequential keyOrder = iota
	uniform
	uniqueRandom
	missing // One byte longer than any stored key.
)

// benchmark is one row. Its loop runs in each thread.
type benchmark struct {
	name       string
	loop       func(*context, *thread)
	order      keyOrder
	fresh      bool // Starts with an empty database.
	needsData  bool
	writes     bool
	sync       bool
	part       uint64 // In place of num, 1 / part of it, if not zero.
	batch      uint64 // In place of batch_size, if not zero.
	background bool   // One more thread writes.
	compact    bool
	openLoop   bool
	absent     string // The engines have no such operation: why.
}

var benchmarks = []benchmark{
	{name: "fillseq", loop: writeLoop, fresh: true, writes: true},
	{name: "fillrandom", loop: writeLoop, order: uniform, fresh: true,
		writes: true},
	{name: "filluniquerandom", loop: writeLoop, order: uniqueRandom,
		fresh: true, writes: true},
	{name: "fillsync", loop: writeLoop, order: uniform, fresh: true,
		writes: true, sync: true, part: 1000},
	{name: "fillbatch", loop: writeLoop, fresh: true, writes: true,
		batch: 1000},
	{name: "overwrite", loop: writeLoop, order: uniform, needsData: true,
		writes: true},
	{name: "readseq", loop: scanLoop, needsData: true},
	{name: "readrandom", loop: readLoop, order: uniform, needsData: true},
	{name: "readmissing", loop: readLoop, order: missing, needsData: true},
	{name: "multireadrandom", loop: multiReadLoop, order: uniform,
		needsData: true},
	{name: "seekrandom", loop: seekLoop, order: uniform, needsData: true},
	{name: "readwhilewriting", loop: readLoop, order: uniform,
		needsData: true, background: true},
	{name: "openloop", loop: openLoop, order: uniform, needsData: true,
		writes: true, openLoop: true},
	{name: "compact", compact: true},
	{name: "waitforcompaction", absent: "the engine has no such call"},
}

// context is what the threads of a benchmark share.
type context struct {
	options    *options
	order      keyOrder
	operations uint64 // Of each thread, if no duration ends it.
	batch      uint64
	threads    int
	stop       atomic.Bool
	foreground atomic.Int32
}

func (c *context) timed() bool {
	return c.options.duration > 0 && c.order != sequential &&
		c.order != uniqueRandom
}

// thread is the state of one thread, and its results.
type thread struct {
	index    int
	random   random
	values   valueSource
	key      []byte
	session  Session
	permuted *permutation
	next     uint64

	err        error
	start, end time.Time
	operations uint64
	bytes      uint64
	found      uint64
	lookups    uint64
	puts, gets histogram // Latencies of openloop.
}

func newThread(c *context, seed uint64, values []byte,
	session Session) *thread {
	keyBytes := c.options.keyBytes
	if c.order == missing {
		keyBytes++
	}
	t := &thread{
		random:  random{seed},
		values:  valueSource{bytes: values, size: c.options.valueBytes},
		key:     newKey(keyBytes),
		session: session,
	}
	t.permuted = newPermutation(c.options.num, t.random.next())
	return t
}

func (t *thread) number(c *context) uint64 {
	switch c.order {
	case sequential:
		t.next++
		return (t.next - 1) % c.options.num
	case uniqueRandom:
		t.next++
		return t.permuted.at((t.next - 1) % c.options.num)
	default:
		return t.random.uniform(c.options.num)
	}
}

// repeat calls operation until the thread's share is done. The operation
// returns how many operations it did, or 0 to end.
func repeat(c *context, t *thread, operation func() uint64) {
	timed := c.timed()
	limit := c.operations
	if timed {
		limit = 1 << 63
	}
	t.start = time.Now()
	deadline := t.start.Add(c.options.duration)
	more := true
	for more && t.operations < limit && !c.stop.Load() {
		for i := 0; i < callsPerCheck && t.operations < limit; i++ {
			count := operation()
			if count == 0 {
				more = false
				break
			}
			t.operations += count
		}
		if timed && !time.Now().Before(deadline) {
			break
		}
	}
	t.end = time.Now()
}

func writeLoop(c *context, t *thread) {
	left := c.operations
	timed := c.timed()
	entryBytes := uint64(c.options.keyBytes + c.options.valueBytes)
	begin := time.Now()
	wanted := func() bool { return !c.stop.Load() }
	repeat(c, t, func() uint64 {
		batch := c.batch
		if !timed {
			batch = min(batch, left)
			left -= batch
		}
		if batch == 1 {
			setKey(t.number(c), t.key)
			t.err = t.session.PutOne(t.key, t.values.next())
		} else {
			for i := uint64(0); i < batch && t.err == nil; i++ {
				setKey(t.number(c), t.key)
				t.err = t.session.Put(t.key, t.values.next())
			}
			if t.err == nil {
				t.err = t.session.Commit()
			}
		}
		if t.err != nil {
			return 0
		}
		t.bytes += batch * entryBytes
		pace(c.options.writeRate/float64(c.threads), begin, t.bytes, wanted)
		return batch
	})
}

// pace waits until so many bytes are due at a rate, if there is one.
func pace(rate float64, begin time.Time, bytes uint64, wanted func() bool) {
	if rate <= 0 {
		return
	}
	due := time.Duration(float64(bytes) / rate * float64(time.Second))
	for wanted() {
		left := due - time.Since(begin)
		if left < time.Millisecond {
			return
		}
		time.Sleep(min(left, 20*time.Millisecond))
	}
}

// backgroundWriteLoop writes while other threads read.
func backgroundWriteLoop(c *context, t *thread) {
	wanted := func() bool { return c.foreground.Load() > 0 }
	t.start = time.Now()
	for wanted() {
		setKey(t.random.uniform(c.options.num), t.key)
		if t.err = t.session.PutOne(t.key, t.values.next()); t.err != nil {
			break
		}
		t.operations++
		t.bytes += uint64(c.options.keyBytes + c.options.valueBytes)
		pace(c.options.writeRate, t.start, t.bytes, wanted)
	}
	t.end = time.Now()
}

func scanLoop(c *context, t *thread) {
	limit := c.operations
	t.start = time.Now()
	t.err = t.session.Seek(nil, func(key, value []byte) bool {
		t.operations++
		t.bytes += uint64(len(key) + len(value))
		return t.operations < limit
	})
	t.end = time.Now()
}

func readLoop(c *context, t *thread) {
	found := func(value []byte) {
		t.found++
		t.bytes += uint64(len(t.key) + len(value))
	}
	repeat(c, t, func() uint64 {
		setKey(t.number(c), t.key)
		if t.err = t.session.Get(t.key, found); t.err != nil {
			return 0
		}
		return 1
	})
	t.lookups = t.operations
}

func multiReadLoop(c *context, t *thread) {
	keys := make([][]byte, c.options.readBatch)
	for i := range keys {
		keys[i] = newKey(c.options.keyBytes)
	}
	found := func(value []byte) {
		t.found++
		t.bytes += uint64(len(t.key) + len(value))
	}
	repeat(c, t, func() uint64 {
		for i := range keys {
			setKey(t.number(c), keys[i])
		}
		if t.err = t.session.GetEach(keys, found); t.err != nil {
			return 0
		}
		return uint64(len(keys))
	})
	t.lookups = t.operations
}

func seekLoop(c *context, t *thread) {
	// Values are copied so that reading them is paid for.
	var buffer [256]byte
	repeat(c, t, func() uint64 {
		setKey(t.number(c), t.key)
		steps := c.options.seekNexts
		first := true
		t.err = t.session.Seek(t.key, func(key, value []byte) bool {
			if first {
				first = false
				if string(key) == string(t.key) {
					t.found++
				}
			}
			if steps == 0 {
				return false
			}
			steps--
			copy(buffer[:], value)
			t.bytes += uint64(len(key) + len(value))
			return true
		})
		if t.err != nil {
			return 0
		}
		return 1
	})
	t.lookups = t.operations
}
