// Varve: a key-value storage engine. MIT licence, see LICENSE.
package redis

import (
	"errors"
	"math"
	"strconv"
	"time"

	"varve.example/replicated/machine"
)

func init() {
	addLocal("scan", 2, 0, RightRead, (*client).scan, "generic", "Returns some keys, and a cursor for the next ones.")
	addLocal("keys", 2, 2, RightRead, (*client).keys, "generic", "Returns all keys that match a pattern.")
	addLocal("dbsize", 1, 1, RightRead, (*client).size, "server", "Counts all keys. It reads them.")
	addLocal("flushdb", 1, 2, RightAdmin, (*client).flush, "server", "Deletes all keys.")
	addLocal("flushall", 1, 2, RightAdmin, (*client).flush, "server", "Deletes all keys.")
	for _, name := range []string{"keys", "flushdb", "flushall"} {
		refuse(name)
	}
	for _, name := range []string{"scan", "keys", "dbsize", "flushdb", "flushall"} {
		commands[name].notInTransaction = true
	}
}

// A cursor is a number, in its lower 32 bits a bucket, above them its shard. 0
// begins a scan and ends it. Any node can continue from a cursor, since the
// bucket of a key and the order of buckets are the same on all.

func cursorOf(shard uint64, bucket uint32) uint64 { return shard<<32 | uint64(bucket) }

const maxScanCount = 10000

func (c *client) scan(t *task) {
	cursor, err := strconv.ParseUint(string(t.args[1]), 10, 64)
	shard, bucket := cursor>>32, uint32(cursor)
	if err != nil || cursor != 0 && shard == 0 || shard > c.server.store.Shards() {
		c.fail("ERR invalid cursor")
		return
	}
	count, pattern, ofType := 10, []byte("*"), "string"
	for words := t.args[2:]; len(words) > 0; words = words[2:] {
		if len(words) == 1 {
			c.fail(syntaxError)
			return
		}
		switch lower(words[0]) {
		case "match":
			pattern = words[1]
		case "type":
			ofType = lower(words[1])
		case "count":
			number, ok := machine.ParseInt(words[1])
			if !ok {
				c.fail(notInteger)
				return
			}
			if number < 1 {
				c.fail(syntaxError)
				return
			}
			count = int(min(number, maxScanCount))
		default:
			c.fail(syntaxError)
			return
		}
	}
	c.age = 0
	keys, next, err := c.scanFrom(shard, bucket, count, pattern)
	if err != nil {
		c.failWith(err)
		return
	}
	if ofType != "string" {
		keys = nil
	}
	c.holdAnswers(memoryOf(keys))
	c.answer([]any{strconv.FormatUint(next, 10), keys})
	c.releaseAnswers()
}

const bytesPerKey = 40 // Of memory besides the key's own bytes.

func memoryOf(keys [][]byte) int64 {
	sum := int64(bytesPerKey * len(keys))
	for _, key := range keys {
		sum += int64(len(key))
	}
	return sum
}

const maxScanned = 8 << 20 // Bytes of keys, after which no further shard is asked.

// scanFrom looks at keys of a shard, and of the next ones if it has too few. Shard 0
// is for the begin.
func (c *client) scanFrom(shard uint64, bucket uint32, count int, pattern []byte) (keys [][]byte, next uint64, err error) {
	shards, err := c.shards()
	if err != nil {
		return nil, 0, err
	}
	if shard == 0 {
		if shard = after(shards, 0); shard == 0 {
			return nil, 0, nil
		}
	}
	for {
		answer, err := c.ask(shard, machine.Scan{Bucket: bucket, Count: count, Now: c.server.store.Now()}, c.stale)
		if err != nil {
			return nil, 0, err
		}
		found := answer.(machine.Keys)
		for _, key := range found.Keys {
			if matches(pattern, key) {
				keys = append(keys, key)
			}
		}
		if found.More {
			return keys, cursorOf(shard, found.Next), nil
		}
		if shard = after(shards, shard); shard == 0 {
			return keys, 0, nil
		}
		if count -= found.Looked; count <= 0 || memoryOf(keys) > maxScanned {
			return keys, cursorOf(shard, 0), nil
		}
		bucket = 0
	}
}

// eachPage reads shards in pieces, each of which is answered soon however
// large the shard is.
func (c *client) eachPage(scan machine.Scan, each func(machine.Keys) error) error {
	c.age = 0
	shards, err := c.shards()
	if err != nil {
		return err
	}
	for _, shard := range shards {
		scan.Bucket, scan.Now = 0, c.server.store.Now()
		for more := true; more; {
			answer, err := c.ask(shard, scan, c.stale)
			if err != nil {
				return err
			}
			page := answer.(machine.Keys)
			if err := each(page); err != nil {
				return err
			}
			scan.Bucket, more = page.Next, page.More
		}
	}
	return nil
}

// keys gathers all keys, up to the bytes that an answer may have.
func (c *client) keys(t *task) {
	var all [][]byte
	size := 0
	err := c.eachPage(machine.Scan{Count: maxScanCount}, func(page machine.Keys) error {
		for _, key := range page.Keys {
			if matches(t.args[1], key) {
				all = append(all, key)
				size += len(key) + bytesPerKey
			}
		}
		if size > c.server.options.MaxAnswer {
			return errors.New("the answer is too large")
		}
		return nil
	})
	if err != nil {
		c.failWith(err)
		return
	}
	c.holdAnswers(memoryOf(all))
	c.answer(all)
	c.releaseAnswers()
}

func (c *client) size(*task) {
	total := 0
	err := c.eachPage(machine.Scan{Count: math.MaxInt32, Only: true}, func(page machine.Keys) error {
		total += page.Count + len(page.Keys) // An older node sends the keys.
		return nil
	})
	if err != nil {
		c.failWith(err)
		return
	}
	c.out.Int(int64(total))
}

func (c *client) flush(t *task) {
	if len(t.args) > 1 {
		if mode := lower(t.args[1]); mode != "sync" && mode != "async" {
			c.fail(syntaxError)
			return
		}
	}
	for shard := uint64(1); shard <= c.server.store.Shards(); shard++ {
		proposal := machine.NewProposal(nil, c.server.store.Now())
		_, err := c.server.store.Propose(shard, machine.AppendOperation(proposal, machine.FlushAll, nil, nil))
		if err != nil {
			c.failWith(err)
			return
		}
	}
	c.out.Status("OK")
}

// matches says whether text matches a pattern of Redis: * and ? and [a-z] and
// [^a-z] and \ before a character. The time is at most the product of the
// lengths.
func matches(pattern, text []byte) bool {
	star, retry := -1, 0 // Where the last star was, and what it takes next.
	p, at := 0, 0
	for at < len(text) {
		if p < len(pattern) && pattern[p] == '*' {
			star, retry = p, at
			p++
			continue
		}
		if size, ok := matchOne(pattern[p:], text[at]); ok {
			p += size
			at++
			continue
		}
		if star < 0 {
			return false
		}
		retry++
		p, at = star+1, retry
	}
	for p < len(pattern) && pattern[p] == '*' {
		p++
	}
	return p == len(pattern)
}

// matchOne matches a byte, and returns how much of the pattern did.
func matchOne(pattern []byte, c byte) (size int, ok bool) {
	if len(pattern) == 0 {
		return 0, false
	}
	switch pattern[0] {
	case '?':
		return 1, true
	case '\\':
		if len(pattern) > 1 {
			return 2, pattern[1] == c
		}
	case '[':
		return matchClass(pattern, c)
	}
	return 1, pattern[0] == c
}

func matchClass(pattern []byte, c byte) (size int, ok bool) {
	i, not := 1, false
	if len(pattern) > 1 && pattern[1] == '^' {
		i, not = 2, true
	}
	for i < len(pattern) && pattern[i] != ']' {
		low := pattern[i]
		high := low
		if low == '\\' && i+1 < len(pattern) {
			i++
			low, high = pattern[i], pattern[i]
		} else if i+2 < len(pattern) && pattern[i+1] == '-' { // In Redis, ] may end a range.
			high = pattern[i+2]
			i += 2
		}
		ok = ok || min(low, high) <= c && c <= max(low, high)
		i++
	}
	return min(i+1, len(pattern)), ok != not
}

const (
	sweepPause = time.Second
	sweepKeys  = 1000 // Of a proposal.
)

// expire has keys removed whose time has come, in the shards that this node
// leads. Reads do not see these keys in any case.
func (s *Server) expire() {
	defer s.expirer.Done()
	for {
		select {
		case <-s.stop:
			return
		case <-time.After(sweepPause):
		}
		for shard := uint64(1); shard <= s.store.Shards() && !s.isClosed(); shard++ {
			for s.store.Leads(shard) && s.sweep(shard) && !s.isClosed() {
			}
		}
	}
}

// sweep returns true if there is more to do.
func (s *Server) sweep(shard uint64) bool {
	now := s.store.Now()
	due, _, err := s.store.Read(shard, machine.Due{Now: now}, true)
	if err != nil || !due.(bool) {
		return false
	}
	proposal := machine.AppendOperation(machine.NewProposal(nil, now), machine.Sweep, nil,
		machine.NumberArgument(sweepKeys, nil))
	data, err := s.store.Propose(shard, proposal)
	if err != nil {
		return false
	}
	replies, err := machine.ParseReplies(data)
	if err != nil || len(replies) != 1 {
		return false
	}
	s.stats.expired.Add(uint64(replies[0].Int))
	return replies[0].Int == sweepKeys
}
