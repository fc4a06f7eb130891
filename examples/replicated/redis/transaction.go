// Varve: a key-value storage engine. MIT licence, see LICENSE.
package redis

import (
	"fmt"
	"strings"
	"time"

	"varve.example/replicated/machine"
	"varve.example/replicated/storage"
)

// transaction is what a client has queued since MULTI.
type transaction struct {
	tasks  []task
	bytes  int64 // Of the budget.
	failed bool  // A command could not be queued.
}

const crossShard = "CROSSSLOT the keys of a transaction must be in one shard. Keys with the same text in {braces} are"

func init() {
	for _, one := range []struct {
		name             string
		minimum, maximum int
		do               func(*client, *task)
		summary          string
	}{
		{"multi", 1, 1, (*client).multi, "Begins a transaction on keys of one shard."},
		{"exec", 1, 1, (*client).exec, "Does the commands of a transaction at once."},
		{"discard", 1, 1, (*client).discard, "Drops a transaction."},
		{"watch", 2, 0, (*client).watch, "Has the next transaction done only if keys are as they are."},
		{"unwatch", 1, 1, (*client).unwatch, "Undoes WATCH."},
	} {
		addLocal(one.name, one.minimum, one.maximum, RightRead, one.do, "transactions", one.summary)
	}
	for _, name := range []string{"multi", "exec", "discard", "watch", "quit", "reset"} {
		commands[name].immediate = true
	}
	watch := commands["watch"]
	watch.firstKey, watch.lastKey, watch.keyStep = 1, -1, 1
}

func (c *client) multi(*task) {
	if c.queued != nil {
		c.fail("ERR MULTI calls can not be nested")
		return
	}
	c.queued = &transaction{}
	c.out.Status("OK")
}

// queue keeps a command for EXEC.
func (c *client) queue(t *task) {
	q := c.queued
	bytes := int64(t.size + 64*len(t.args))
	switch {
	case t.complaint != "" && t.command == commands["exec"]:
		c.endTransaction()
		c.fail("EXECABORT Transaction discarded because of: " + strings.TrimPrefix(t.complaint, "ERR "))
		return
	case t.complaint != "": // This fails the transaction.
		q.failed = true
		c.fail(t.complaint)
		return
	case t.command.notInTransaction:
		q.failed = true
		c.fail("ERR Command not allowed inside a transaction")
		return
	case q.bytes+bytes > int64(c.server.options.MaxRequest):
		q.failed = true
		c.fail("ERR the transaction is too large")
		return
	case !c.server.memory.take(bytes):
		q.failed = true
		c.failWith(errNoRequests)
		return
	}
	q.bytes += bytes
	kept := *t
	kept.args = make([][]byte, len(t.args))
	for i, word := range t.args {
		kept.args[i] = append([]byte{}, word...) // The parser uses its memory again.
	}
	q.tasks = append(q.tasks, kept)
	c.out.Status("QUEUED")
}

// endTransaction forgets what was queued and watched.
func (c *client) endTransaction() {
	if c.queued != nil {
		c.server.memory.give(c.queued.bytes)
		c.queued = nil
	}
	c.endWatch()
}

func (c *client) endWatch() {
	c.server.memory.give(c.watches)
	c.watched, c.watches = nil, 0
}

func (c *client) discard(*task) {
	if c.queued == nil {
		c.fail("ERR DISCARD without MULTI")
		return
	}
	c.endTransaction()
	c.out.Status("OK")
}

const (
	maxWatched    = 1024
	bytesPerWatch = 100 // Of memory besides the key's own bytes.
)

// watch remembers how keys are.
func (c *client) watch(t *task) {
	if c.queued != nil {
		c.fail("ERR WATCH inside MULTI is not allowed")
		return
	}
	if len(c.watched)+len(t.args)-1 > maxWatched {
		c.fail(fmt.Sprintf("ERR more than %d keys are watched", maxWatched))
		return
	}
	bytes := int64(0)
	for _, key := range t.args[1:] {
		if _, known := c.watched[string(key)]; !known {
			bytes += int64(len(key) + bytesPerWatch)
		}
	}
	if !c.server.memory.takeSoon(bytes) {
		c.failWith(errNoRequests)
		return
	}
	c.watches += bytes
	if err := c.addWatches(t); err != nil {
		c.watches -= bytes
		c.server.memory.give(bytes)
		c.failWith(err)
		return
	}
	c.out.Status("OK")
}

// addWatches remembers all of the keys or none.
func (c *client) addWatches(t *task) error {
	held, enough := c.reserve([]task{*t})
	if !enough {
		return errNoMemory
	}
	defer c.server.memory.give(held)
	p := &plan{c.server.store, c.server.store.Now(), map[uint64]*part{}, false}
	for _, key := range t.args[1:] {
		p.read(t, key)
	}
	defer c.releaseAnswers()
	if err := c.gather(p, false); err != nil {
		return err
	}
	if err := t.failure(); err != nil {
		return err
	}
	if c.watched == nil {
		c.watched = map[string][]byte{}
	}
	for i, key := range t.args[1:] {
		if _, known := c.watched[string(key)]; !known {
			at := t.places[i]
			c.watched[string(key)] = machine.Fingerprint(at.part.values[at.index], p.now)
		}
	}
	return nil
}

func (c *client) unwatch(*task) {
	c.endWatch()
	c.out.Status("OK")
}

// exec does the commands in one proposal, so that the shard does all of them
// with nothing in between, or none.
func (c *client) exec(*task) {
	q, watched := c.queued, c.watched
	if q == nil {
		c.fail("ERR EXEC without MULTI")
		return
	}
	defer c.endTransaction()
	begin := time.Now()
	if q.failed {
		c.fail("EXECABORT Transaction discarded because of previous errors.")
		return
	}
	if c.clustered { // Again: a leader may have moved since.
		if complaint := c.redirectAll(q.tasks); complaint != "" {
			c.fail(complaint)
			return
		}
	}
	p := &plan{c.server.store, c.server.store.Now(), map[uint64]*part{}, true}
	checks := task{}
	for key, fingerprint := range watched {
		p.operate(&checks, machine.Check, []byte(key), fingerprint)
	}
	for i := range q.tasks {
		t := &q.tasks[i]
		if t.now = p.now; t.command.kind != local {
			t.complaint = t.command.prepare(p, t)
		}
	}
	if len(p.parts) > 1 {
		c.fail(crossShard)
		return
	}
	c.age = 0
	c.propose(p)
	defer c.releaseAnswers()
	for _, to := range p.parts {
		if to.err != nil {
			c.failWith(to.err)
			return
		}
		if to.whole.Kind == machine.ReplyError {
			c.fail(string(to.whole.Bytes))
			return
		}
	}
	for i := range checks.places {
		if checks.reply(i).Int == 0 {
			c.out.NullArray()
			return
		}
	}
	c.server.count(q.tasks, time.Since(begin))
	c.out.Array(len(q.tasks))
	for i := range q.tasks {
		t := &q.tasks[i]
		switch {
		case c.closing: // CLIENT KILL was among them.
			return
		case t.complaint != "":
			c.fail(t.complaint)
		case t.command.kind == local:
			t.command.do(c, t)
		case t.refused() != "":
			c.fail(t.refused())
		default:
			t.command.finish(c, t)
		}
	}
}

// refused is the error with which a read of a transaction was answered.
func (t *task) refused() string {
	if !t.looked {
		return "" // Writes answer with it themselves.
	}
	for i := range t.places {
		if reply := t.reply(i); reply.Kind == machine.ReplyError {
			return strings.TrimSpace(string(reply.Bytes))
		}
	}
	return ""
}

// mostWritten is what the answers of one proposal may have. The machine stops at
// two values' worth, and so may exceed that by one value.
const mostWritten = 3 * maxStored

// propose has the shards apply what is to be written. Answers that may have
// values are first allowed few bytes. If they have more, the shard does nothing
// and is asked again, once memory has been reserved for more.
func (c *client) propose(p *plan) {
	p.each(func(to *part) {
		limit := int64(0)
		if to.valued {
			limit = smallAnswers
		}
		c.attempt(to, p.transaction || to.valued, limit)
	})
	for _, to := range p.parts {
		if !p.refused(to) {
			c.holdAnswers(to.size())
			continue
		}
		for _, limit := range []int64{mediumAnswers, mostWritten} {
			if !c.server.memory.takeSoon(limit) {
				c.server.stats.limited.Add(1)
				to.err = errNoMemory
				break
			}
			if limit < mostWritten {
				c.attempt(to, true, limit)
			} else { // Only the commands are refused that are too much, unless it is a transaction.
				c.attempt(to, p.transaction, 0)
			}
			size := to.size()
			c.server.memory.give(limit - size)
			if c.answers += size; !p.refused(to) {
				break
			}
		}
	}
}

// refused says whether more memory may help.
func (p *plan) refused(to *part) bool {
	return to.err == nil && (to.whole.Kind == machine.ReplyNil || to.whole.Kind == machine.ReplyError && !p.transaction)
}

func (to *part) size() int64 {
	bytes := int64(0)
	for _, reply := range to.replies {
		bytes += int64(len(reply.Bytes))
	}
	return bytes
}

// attempt proposes once. If whole is set, all is done or nothing.
func (c *client) attempt(to *part, whole bool, limit int64) {
	// A copy, since the log may still refer to an attempt before.
	proposal, answers := to.proposal, to.answers
	if whole {
		proposal = machine.AllTogether(proposal, limit)
		answers++
	}
	to.whole, to.replies = machine.Reply{Kind: machine.ReplyOK}, nil
	var data []byte
	if data, to.err = c.server.store.Propose(to.shard, proposal); to.err != nil {
		return
	}
	replies, err := machine.ParseReplies(data)
	if err != nil || len(replies) != answers {
		to.err = storage.ErrMalformed
		return
	}
	if whole {
		to.whole, replies = replies[0], replies[1:]
	}
	to.replies = replies
}
