// Varve: a key-value storage engine. MIT licence, see LICENSE.

package bench

import (
	"fmt"
	"math"
	"math/bits"
	"runtime"
	"syscall"
	"time"
)

const (
	subBits    = 6
	subBuckets = 1 << subBits
	second     = uint64(time.Second)
	// spin is how long before an operation is due a thread stops to sleep: the
	// kernel wakes threads up to 0.1 ms late, which would be part of the latency.
	spin = 200 * uint64(time.Microsecond)
)

// histogram counts nanoseconds in the buckets of db_bench's: each power of two
// has 64 of equal width, and values below 128 have buckets of their own. A
// percentile is the middle of its bucket, so it is off by 1/128 at most.
type histogram struct {
	buckets [subBuckets * (64 - subBits + 1)]uint64
	count   uint64
	least   uint64
	most    uint64
}

func bucketOf(value uint64) int {
	if value < subBuckets {
		return int(value)
	}
	shift := 63 - subBits - bits.LeadingZeros64(value)
	return shift*subBuckets + int(value>>shift)
}

// middleOf returns the middle of the values of a bucket.
func middleOf(bucket int) uint64 {
	if bucket < 2*subBuckets {
		return uint64(bucket)
	}
	shift := bucket/subBuckets - 1
	return uint64(bucket-shift*subBuckets)<<shift + uint64(1)<<shift/2
}

func (h *histogram) add(value uint64) {
	if h.count == 0 || value < h.least {
		h.least = value
	}
	h.buckets[bucketOf(value)]++
	h.count++
	h.most = max(h.most, value)
}

func (h *histogram) merge(other *histogram) {
	if other.count == 0 {
		return
	}
	if h.count == 0 || other.least < h.least {
		h.least = other.least
	}
	for bucket, count := range other.buckets {
		h.buckets[bucket] += count
	}
	h.count += other.count
	h.most = max(h.most, other.most)
}

func (h *histogram) percentile(percent float64) uint64 {
	rank := uint64(math.Ceil(percent / 100 * float64(h.count)))
	if rank >= h.count {
		return h.most
	}
	var seen uint64
	for bucket, count := range h.buckets {
		seen += count
		if seen >= max(rank, 1) {
			return min(max(middleOf(bucket), h.least), h.most)
		}
	}
	return h.most
}

// line returns the line of db_bench's openloop, without its name.
func (h *histogram) line(seconds float64) string {
	micros := func(value uint64) float64 { return float64(value) / 1000 }
	return fmt.Sprintf("%d operations; %d ops/sec; P50: %.3f P99: %.3f "+
		"P99.9: %.3f P99.99: %.3f Max: %.3f micros", h.count,
		uint64(float64(h.count)/seconds), micros(h.percentile(50)),
		micros(h.percentile(99)), micros(h.percentile(99.9)),
		micros(h.percentile(99.99)), micros(h.most))
}

// schedule has the times when the operations of a thread are due: those of all
// threads at equal distances, and the threads in turn. All times are
// nanoseconds from the start of the thread.
type schedule struct{ rate, threads, index uint64 }

func (s schedule) dueAt(i uint64) uint64 {
	number := i*s.threads + s.index
	// In two parts, so that the product does not overflow.
	return number/s.rate*second + number%s.rate*second/s.rate
}

// countWithin returns how many operations are due before the seconds end.
func (s schedule) countWithin(seconds uint64) uint64 {
	all := seconds * s.rate
	if all <= s.index {
		return 0
	}
	return (all-s.index-1)/s.threads + 1
}

// clock is the time of a thread.
type clock interface {
	now() uint64
	sleep(nanoseconds uint64)
	// pause takes an instant.
	pause()
}

type steadyClock struct{ start time.Time }

func (c *steadyClock) now() uint64 { return uint64(time.Since(c.start)) }

// sleep sleeps as the other programs do. time.Sleep wakes up later.
func (c *steadyClock) sleep(nanoseconds uint64) {
	left := syscall.NsecToTimespec(int64(nanoseconds))
	_ = syscall.Nanosleep(&left, nil) // It may end early.
}

func (c *steadyClock) pause() { pause() }

func waitUntilDue[C clock](due uint64, time C) {
	for {
		now := time.now()
		if now >= due {
			return
		}
		if due-now > 2*spin {
			time.sleep(due - now - spin)
		} else {
			time.pause()
		}
	}
}

// runOpenLoop does operations of a schedule. prepare is called before an
// operation is due, and operation then. It returns the histogram to count the
// latency in, or nil to end. The latency counts from when the operation was
// due, so that it has the delay that those before it caused.
func runOpenLoop[C clock](s schedule, operations uint64, time C,
	prepare func(), operation func() *histogram) uint64 {
	for i := range operations {
		prepare()
		due := s.dueAt(i)
		waitUntilDue(due, time)
		latency := operation()
		if latency == nil {
			return i
		}
		latency.add(time.now() - due)
	}
	return operations
}

// addProcessors lets Go run the measured threads beside those of the engine, so
// that the kernel shares out the processors, as for the other programs. With
// fewer, Go itself would stop a thread that waits in a loop, for 10 ms or more,
// to run a compaction. It returns what undoes it.
func addProcessors(threads int) func() {
	before := runtime.GOMAXPROCS(0)
	runtime.GOMAXPROCS(before + threads)
	return func() { runtime.GOMAXPROCS(before) }
}

func openLoop(c *context, t *thread) {
	s := schedule{c.options.rate, uint64(c.threads), uint64(t.index)}
	operations := c.operations
	if c.timed() {
		operations = s.countWithin(uint64(c.options.duration / time.Second))
	}
	found := func(value []byte) {
		t.found++
		t.bytes += uint64(len(t.key) + len(value))
	}
	put := false
	prepare := func() {
		setKey(t.number(c), t.key)
		put = t.random.uniform(100) < c.options.putPercent
	}
	operation := func() *histogram {
		if c.stop.Load() {
			return nil
		}
		latency := &t.gets
		if put {
			latency = &t.puts
			t.err = t.session.PutOne(t.key, t.values.next())
			t.bytes += uint64(len(t.key) + c.options.valueBytes)
		} else {
			t.lookups++
			t.err = t.session.Get(t.key, found)
		}
		if t.err != nil {
			return nil
		}
		return latency
	}
	t.start = time.Now()
	t.operations = runOpenLoop(s, operations, &steadyClock{t.start}, prepare,
		operation)
	t.end = time.Now()
}
