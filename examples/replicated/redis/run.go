// Varve: a key-value storage engine. MIT licence, see LICENSE.
package redis

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"varve.example/replicated/machine"
	"varve.example/replicated/storage"
)

// task is a command that a client has sent.
type task struct {
	args    [][]byte
	size    int
	command *command
	// An error that is known before anything is done.
	complaint string
	rejected  bool // The command was not begun: there is none, or not for this client.
	failed    bool // Its answer is an error.
	places    []place
	now       int64 // Milliseconds.
	looked    bool  // A read in a transaction, whose values are replies.
}

// place is where the answer for a key is: the shard's answer, at an index.
// Operations without an answer have the index -1.
type place struct {
	part  *part
	index int
}

// part is what goes to one shard, and what comes back.
type part struct {
	shard    uint64
	proposal []byte
	answers  int
	valued   bool          // Answers may have values.
	whole    machine.Reply // Whether all was done, if it was done together.
	keys     [][]byte
	replies  []machine.Reply
	values   [][]byte
	err      error
}

// plan is what a run of tasks sends to the shards.
type plan struct {
	store Store
	now   int64
	parts map[uint64]*part
	// Whether reads are operations, too.
	transaction bool
}

func (p *plan) part(key []byte) *part {
	shard := p.store.ShardOf(key)
	found := p.parts[shard]
	if found == nil {
		found = &part{shard: shard}
		p.parts[shard] = found
	}
	return found
}

func (p *plan) writing(key []byte) *part { return p.begun(p.part(key)) }

func (p *plan) begun(to *part) *part {
	if to.proposal == nil {
		to.proposal = machine.NewProposal(nil, p.now)
	}
	return to
}

// together has so many operations that follow done all or not at all.
func (p *plan) together(t *task, to *part, count int64) {
	p.begun(to).proposal = machine.AppendOperation(to.proposal, machine.Together, nil,
		machine.TogetherArgument(count, 0))
	t.places = append(t.places, place{to, to.answers})
	to.answers++
}

// put sets a key whatever there was.
func (p *plan) put(t *task, key, value []byte, expires int64) {
	to := p.writing(key)
	to.proposal = machine.AppendPut(to.proposal, key, value, expires)
	t.places = append(t.places, place{to, -1})
}

// operate adds an operation that has an answer.
func (p *plan) operate(t *task, code machine.Code, key, argument []byte) {
	to := p.writing(key)
	if code == machine.Delete {
		to.proposal = machine.AppendDelete(to.proposal, key)
	} else {
		to.proposal = machine.AppendOperation(to.proposal, code, key, argument)
	}
	switch code {
	case machine.Take, machine.Read, machine.Look:
		to.valued = true
	case machine.Set:
		to.valued = to.valued || machine.ReturnsValue(argument)
	}
	t.places = append(t.places, place{to, to.answers})
	to.answers++
}

func (p *plan) read(t *task, key []byte) {
	if p.transaction {
		t.looked = true
		p.operate(t, machine.Look, key, nil)
		return
	}
	to := p.part(key)
	t.places = append(t.places, place{to, len(to.keys)})
	to.keys = append(to.keys, machine.StoredKey(key))
}

// each does it for all parts at the same time.
func (p *plan) each(do func(*part)) {
	var group sync.WaitGroup
	left := len(p.parts)
	for _, one := range p.parts {
		if left--; left == 0 {
			do(one) // The last one here.
			break
		}
		group.Add(1)
		go func() {
			defer group.Done()
			do(one)
		}()
	}
	group.Wait()
}

func (t *task) failure() error {
	for _, at := range t.places {
		if at.part.err != nil {
			return at.part.err
		}
	}
	return nil
}

// reply is the answer of the task's operation at an index.
func (t *task) reply(index int) machine.Reply {
	at := t.places[index]
	if at.index < 0 {
		return machine.Reply{Kind: machine.ReplyOK}
	}
	return at.part.replies[at.index]
}

// value is of the task's key at an index, if it exists.
func (t *task) value(index int) (value []byte, expires int64, exists bool) {
	if t.looked {
		return machine.Value(t.reply(index).Bytes, t.now)
	}
	at := t.places[index]
	return machine.Value(at.part.values[at.index], t.now)
}

// execute does commands in order, and those together that can be.
func (c *client) execute(tasks []task) {
	c.refreshUser()
	for len(tasks) > 0 && !c.closing {
		tasks[0].prepare(c)
		if first := &tasks[0]; c.queued != nil && (first.complaint != "" || !first.command.immediate) {
			c.beginAnswer()
			c.queue(first)
			c.endAnswer()
			tasks = tasks[1:]
			continue
		}
		count := 1
		if kind := tasks[0].kind(); kind != local {
			bytes := tasks[0].size
			for ; count < len(tasks); count++ {
				t := &tasks[count]
				t.prepare(c)
				if bytes += t.size; t.kind() != kind || bytes > maxRunBytes {
					break
				}
			}
		}
		run := tasks[:count]
		tasks = tasks[count:]
		begin := time.Now()
		switch run[0].kind() {
		case reads:
			c.read(run)
		case writes:
			c.write(run)
		default:
			c.single(&run[0])
		}
		took := time.Since(begin)
		c.server.count(run, took)
		c.server.slow.note(c, run, begin, took)
		clear(run) // They hold what was read, which is not counted any more.
	}
}

// kind is local if there is nothing to do but complain.
func (t *task) kind() kind {
	if t.complaint != "" {
		return local
	}
	return t.command.kind
}

// forget keeps what is counted of a task that is done.
func (t *task) forget() { *t = task{command: t.command, rejected: t.rejected, failed: t.failed} }

// prepare finds the command, and what is wrong with the task.
func (t *task) prepare(c *client) {
	if t.command != nil || t.complaint != "" {
		return
	}
	t.command = find(t.args[0])
	t.complaint = c.complaint(t)
	t.rejected = t.complaint != ""
}

func (c *client) complaint(t *task) string {
	known := t.command
	if known == nil {
		if c.user == nil {
			return noAuth
		}
		return fmt.Sprintf("ERR unknown command '%.64s'", lower(t.args[0]))
	}
	switch words := len(t.args); {
	case c.user == nil && known.right != rightNone:
		return noAuth
	case words < known.minimum || known.maximum > 0 && words > known.maximum ||
		known.keyStep > 1 && (words-known.firstKey)%known.keyStep != 0:
		return wrongNumber(known.name)
	case c.user != nil && c.user.Right < known.right:
		return c.notPermitted(known.name)
	case known.refused && !c.server.allowed[known.name]:
		return fmt.Sprintf("ERR '%s' is refused, because it is expensive or destroys data. Node option: --allow-commands", known.name)
	}
	text := ""
	known.eachKey(t.args, func(key []byte) {
		if len(key) > machine.MaxKeyBytes {
			text = fmt.Sprintf("ERR a key has more than %d bytes", machine.MaxKeyBytes)
		}
	})
	if text == "" && c.clustered {
		text = c.redirect(t)
	}
	return text
}

const noAuth = "NOAUTH Authentication required."

func wrongNumber(name string) string {
	return fmt.Sprintf("ERR wrong number of arguments for '%s' command", name)
}

// single does a command that is not for the shards.
func (c *client) single(t *task) {
	c.beginAnswer()
	if t.complaint != "" {
		c.fail(t.complaint)
	} else {
		t.command.do(c, t)
	}
	t.failed = c.endAnswer()
}

// beginAnswer and endAnswer are for CLIENT REPLY, and to tell errors from other answers.
func (c *client) beginAnswer() {
	c.refused = false
	if c.skip > 0 {
		c.skip--
		c.out.Mute(true)
	}
}

func (c *client) endAnswer() (refused bool) {
	if c.skip == 0 {
		c.out.Mute(c.off)
	}
	return c.refused
}

// planned has each task say what to send.
func (c *client) planned(run []task) *plan {
	p := &plan{c.server.store, c.server.store.Now(), map[uint64]*part{}, false}
	for i := range run {
		run[i].now = p.now
		run[i].complaint = run[i].command.prepare(p, &run[i])
	}
	return p
}

// finish answers the tasks of a run.
func (c *client) finish(run []task) {
	for i := range run {
		t := &run[i]
		c.beginAnswer()
		if t.complaint != "" {
			c.fail(t.complaint)
		} else if err := t.failure(); err != nil {
			c.failWith(err)
		} else {
			t.command.finish(c, t)
		}
		t.failed = c.endAnswer()
	}
}

// write does a run in pieces if there is no memory for all of it at once.
func (c *client) write(run []task) {
	held := int64(0)
	for i := range run {
		held += int64(bytesPerWord*len(run[i].args) + run[i].size)
	}
	if held <= smallPlans || len(run) == 1 {
		held = 0
	} else if !c.server.memory.take(held) {
		half := len(run) / 2
		c.write(run[:half])
		for i := range run[:half] {
			run[i].forget()
		}
		if !c.closing {
			c.write(run[half:])
		}
		return
	}
	p := c.planned(run)
	c.propose(p)
	c.finish(run)
	c.releaseAnswers()
	c.server.memory.give(held)
}

const (
	smallAnswers  = 128 << 10 // Of each shard, without asking for memory.
	mediumAnswers = 4 << 20
	smallPlans    = 256 << 10 // As smallAnswers, of what is asked.
	bytesPerWord  = 130       // Of a plan and of its answers, besides keys and values.
)

// coded is an error with a code for clients.
type coded struct{ code, text string }

func (e *coded) Error() string { return e.text }
func (e *coded) Code() string  { return e.code }

var (
	errNoMemory   error = &coded{"OOM", "there is no memory left for answers"}
	errNoRequests error = &coded{"OOM", "there is no memory left for requests"}
)

// errorText begins with the error's code.
func errorText(err error) string {
	var known interface{ Code() string }
	if errors.As(err, &known) {
		return known.Code() + " " + err.Error()
	}
	return "ERR " + err.Error()
}

func (c *client) failWith(err error) { c.fail(errorText(err)) }

// ask reads from a shard, and notes how old the answer may be.
func (c *client) ask(shard uint64, query interface{}, stale bool) (interface{}, error) {
	answer, age, err := c.server.store.Read(shard, query, stale)
	if age != 0 && err == nil {
		c.mutex.Lock()
		if c.age >= 0 && (age < 0 || age > c.age) {
			c.age = age
		}
		c.mutex.Unlock()
	}
	return answer, err
}

// reserve takes memory for a plan of many keys, before it is made. The caller
// gives it back.
func (c *client) reserve(run []task) (held int64, enough bool) {
	for i := range run {
		// The keys are copied twice.
		held += int64(bytesPerWord*len(run[i].args) + 2*run[i].size)
	}
	if held <= smallPlans {
		return 0, true
	}
	if !c.server.memory.takeSoon(held) {
		c.server.stats.limited.Add(1)
		return 0, false
	}
	return held, true
}

func (c *client) read(run []task) {
	c.age = 0
	held, enough := c.reserve(run)
	var err error = errNoMemory
	if enough {
		p := c.planned(run)
		if err = c.gather(p, c.stale); err == storage.ErrTooLarge && len(run) == 1 && run[0].command.headsOnly {
			err = c.readHeads(p)
		}
	}
	switch {
	case err == storage.ErrTooLarge && len(run) > 1:
		// Together they are too large. Each may be small enough.
		c.server.memory.give(held)
		for i := range run {
			run[i].places = nil
		}
		for i := 0; i < len(run) && !c.closing; i++ {
			c.read(run[i : i+1])
			run[i].forget()
		}
		return
	case err == storage.ErrTooLarge:
		err = fmt.Errorf("the answer is larger than %d bytes", c.server.options.MaxAnswer)
	}
	if err != nil {
		for i := range run {
			run[i].complaint = errorText(err)
		}
	}
	c.finish(run)
	c.releaseAnswers()
	c.server.memory.give(held)
}

// gather reads what a plan asks for. For large values memory is reserved before
// they are read, and held as answers.
func (c *client) gather(p *plan, stale bool) error {
	if c.readParts(p, smallAnswers, stale) {
		return nil
	}
	most := c.server.options.MaxAnswer
	for _, limit := range []int{min(mediumAnswers, most), most} {
		if !c.server.memory.takeSoon(int64(limit)) {
			c.server.stats.limited.Add(1)
			return errNoMemory
		}
		size, complete := c.readInTurn(p, limit, stale)
		c.server.memory.give(int64(limit - size))
		c.answers += int64(size)
		if complete {
			return nil
		}
	}
	return storage.ErrTooLarge
}

// readInTurn reads shard after shard, up to a number of bytes, and returns the
// bytes that it holds. It holds none if there are more.
func (c *client) readInTurn(p *plan, limit int, stale bool) (size int, complete bool) {
	for _, to := range p.parts {
		var answer interface{}
		answer, to.err = c.ask(to.shard,
			machine.Get{Keys: to.keys, Limit: max(1, limit-size)}, stale)
		if to.err == nil {
			to.values = answer.([][]byte)
			for _, value := range to.values {
				size += len(value)
			}
		}
		if to.err == storage.ErrTooLarge || size > limit {
			for _, one := range p.parts {
				one.values = nil
			}
			return 0, false
		}
	}
	return size, true
}

// readParts returns false if values are larger than the limit.
func (c *client) readParts(p *plan, limit int, stale bool) bool {
	p.each(func(to *part) {
		var answer interface{}
		answer, to.err = c.ask(to.shard, machine.Get{Keys: to.keys, Limit: limit}, stale)
		if to.err == nil {
			to.values = answer.([][]byte)
		}
	})
	for _, to := range p.parts {
		if to.err == storage.ErrTooLarge {
			return false
		}
	}
	return true
}

const maxStored = machine.MaxValueBytes + machine.HeadBytes

// readHeads is for commands that need no values. It keeps the first bytes only.
func (c *client) readHeads(p *plan) error {
	if !c.server.memory.takeSoon(maxStored) {
		c.server.stats.limited.Add(1)
		return errNoMemory
	}
	defer c.server.memory.give(maxStored)
	until := time.Now().Add(c.server.options.RequestTimeout)
	for _, to := range p.parts {
		to.values, to.err = c.headsOnce(to.shard, to.keys, until)
	}
	return nil
}

// headsOnce reads a key once, however often it is asked for.
func (c *client) headsOnce(shard uint64, keys [][]byte, until time.Time) ([][]byte, error) {
	order := make([]int, len(keys))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return bytes.Compare(keys[a], keys[b]) })
	var distinct [][]byte
	for i, at := range order {
		if i == 0 || !bytes.Equal(keys[at], keys[order[i-1]]) {
			distinct = append(distinct, keys[at])
		}
	}
	heads, err := c.heads(shard, distinct, until)
	if err != nil {
		return nil, err
	}
	values, next := make([][]byte, len(keys)), -1
	for i, at := range order {
		if i == 0 || !bytes.Equal(keys[at], keys[order[i-1]]) {
			next++
		}
		values[at] = heads[next]
	}
	return values, nil
}

// errSlowKeys is for keys whose values take too long to read.
var errSlowKeys = errors.New("the values of these keys are too large together; name fewer keys")

// heads reads so few values at a time that they are not too large together.
func (c *client) heads(shard uint64, keys [][]byte, until time.Time) ([][]byte, error) {
	if time.Now().After(until) {
		return nil, errSlowKeys
	}
	answer, err := c.ask(shard, machine.Get{Keys: keys, Limit: maxStored}, c.stale)
	if err == storage.ErrTooLarge && len(keys) > 1 {
		half := len(keys) / 2
		first, err := c.heads(shard, keys[:half], until)
		if err != nil {
			return nil, err
		}
		second, err := c.heads(shard, keys[half:], until)
		return append(first, second...), err
	}
	if err != nil {
		return nil, err
	}
	values := answer.([][]byte)
	for i, value := range values {
		values[i] = bytes.Clone(value[:min(len(value), machine.HeadBytes)])
	}
	return values, nil
}
