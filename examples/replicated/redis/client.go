// Varve: a key-value storage engine. MIT licence, see LICENSE.
package redis

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"time"

	"varve.example/replicated/resp"
)

const (
	maxRunBytes = 4 << 20  // Of commands that are taken together.
	freeMemory  = 16 << 10 // Of a connection, outside of the budget.
	writeChunk  = 1 << 20
	keptTasks   = 64 // Commands that a connection has memory for between pipelines.
	freeTasks   = 1024
	taskBytes   = 256 // Of a command, besides its bytes.
)

// client is a connection. One goroutine serves it.
type client struct {
	server  *Server
	conn    net.Conn
	arrived *arrivals // What conn is, or what its TLS reads from.
	input   io.Reader // conn, through arrived.
	parser  *resp.Parser
	out     *resp.Writer
	id      int64
	began   time.Time
	strange time.Time // Since when it has to log in.
	user    *User     // nil before it has logged in.
	version uint64    // Of the users when this was looked up.
	stale   bool      // Whether it reads what this node has.
	partial time.Time // When the unfinished request began; zero if there is none.
	held    int64     // Of the budget, for the request.
	answers int64     // Of the budget, for answers.
	tasks   int64     // Of the budget, for the commands that are taken.
	failed  int       // Attempts to log in.
	// How old the last answers of reads may be; below 0 if that is not known.
	age     time.Duration
	closing bool
	refused bool              // The answer since beginAnswer is an error.
	queued  *transaction      // After MULTI.
	watched map[string][]byte // Fingerprints of keys.
	watches int64             // Of the budget, for what is watched.
	skip    int               // 2: the next command's answer is dropped, 1: this one's.
	off     bool

	mutex sync.Mutex // Over what other connections read.
	shown shown

	clustered bool // Whether it has come to the cluster port.
}

// shown is what CLIENT LIST shows.
type shown struct {
	name, library, libraryVersion, user, last string
	active                                    time.Time
	noEvict, noTouch                          bool
	protocol, commands                        int
	buffered, requests                        int // Bytes.
}

func newClient(s *Server, conn net.Conn, clustered bool) *client {
	c := &client{server: s, conn: conn, clustered: clustered, id: s.lastID.Add(1), began: time.Now(), stale: s.options.Stale}
	c.arrived = newArrivals(conn)
	c.input = c.arrived
	if s.options.TLS != nil {
		secure := tls.Server(c.arrived, s.options.TLS)
		c.conn, c.input = secure, secure
	}
	c.parser = resp.NewParser(strangerLimits)
	c.out = resp.NewWriter((*deadlineWriter)(c))
	c.shown.active, c.shown.protocol = c.began, 2
	c.reset()
	return c
}

// reset makes the connection as a new one.
func (c *client) reset() {
	// RESET without a login gives no more time.
	if c.user != nil || c.strange.IsZero() {
		c.strange = time.Now()
	}
	c.user = nil
	c.endTransaction()
	if c.server.options.Users == nil {
		c.login(everyone, 0)
	} else {
		c.parser.SetLimits(strangerLimits)
		c.change(func(s *shown) { s.user = "" })
	}
	c.stale = c.server.options.Stale
	c.skip, c.off = 0, false
	c.out.Mute(false)
	c.out.SetVersion(2)
	c.change(func(s *shown) { s.name, s.protocol, s.noEvict, s.noTouch = "", 2, false, false })
}

// login takes the version that the users had before the user was looked up.
func (c *client) login(user *User, version uint64) {
	c.user, c.version = user, version
	c.parser.SetLimits(resp.Limits{Words: c.server.options.MaxWords, Bytes: c.server.options.MaxRequest})
	c.change(func(s *shown) { s.user = user.Name })
}

func (c *client) change(do func(*shown)) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	do(&c.shown)
}

// deadlineWriter is the client as a destination of answers. A client that does
// not read is closed.
type deadlineWriter client

func (w *deadlineWriter) Write(bytes []byte) (int, error) {
	written := 0
	for written < len(bytes) {
		chunk := bytes[written:min(len(bytes), written+writeChunk)]
		w.conn.SetWriteDeadline(time.Now().Add(w.server.options.WriteTimeout))
		count, err := w.conn.Write(chunk)
		written += count
		w.server.stats.sent.Add(uint64(count))
		if err != nil {
			if errors.Is(err, os.ErrDeadlineExceeded) {
				w.server.stats.limited.Add(1)
			}
			w.conn.Close()
			w.closing = true // What is left of its pipeline is for nobody.
			return written, err
		}
	}
	return written, nil
}

// fail answers with an error.
func (c *client) fail(text string) {
	c.server.stats.errors.Add(1)
	c.refused = true
	c.out.Error(text)
}

// Values of answers, besides those of Go: names with what they stand for, and statuses
// in no order.
type (
	pairs    []any
	statuses []string
)

// answer is for values of which not many are asked for in a second.
func (c *client) answer(value any) {
	switch v := value.(type) {
	case string:
		c.out.BulkString(v)
	case []byte:
		c.out.Bulk(v)
	case int:
		c.out.Int(int64(v))
	case int64:
		c.out.Int(v)
	case pairs:
		c.out.Map(len(v) / 2)
		eachAnswer(c, v)
	case statuses:
		c.out.Set(len(v))
		for _, one := range v {
			c.out.Status(one)
		}
	case []any:
		answerList(c, v)
	case []string:
		answerList(c, v)
	case [][]byte: // These may be many keys.
		c.out.Array(len(v))
		for _, one := range v {
			c.out.Bulk(one)
		}
	case nil:
		c.out.Null()
	}
}

func answerList[Value any](c *client, list []Value) {
	c.out.Array(len(list))
	eachAnswer(c, list)
}

func eachAnswer[Value any](c *client, list []Value) {
	for _, one := range list {
		c.answer(one)
	}
}

func (c *client) serve() {
	defer func() {
		c.conn.Close()
		c.endTransaction()
		c.server.memory.give(c.held + c.answers + c.tasks)
	}()
	if secure, ok := c.conn.(*tls.Conn); ok {
		c.conn.SetDeadline(time.Now().Add(c.server.options.AuthTimeout))
		if err := secure.Handshake(); err != nil {
			c.server.stats.handshakes.Add(1)
			c.server.guard.log(c.conn.RemoteAddr(), time.Now(), "a TLS handshake has failed", "error", err)
			return
		}
		c.conn.SetDeadline(time.Time{})
	}
	var tasks []task
	for {
		var err error
		tasks, err = c.take(tasks[:0])
		taken := len(tasks)
		if taken > 0 {
			c.partial = time.Time{}
			c.note(tasks)
			c.execute(tasks)
			if clear(tasks); cap(tasks) > keptTasks {
				tasks = nil
			}
			c.releaseTasks()
		}
		switch {
		case err != nil:
			c.out.Mute(false)
			c.fail(err.Error())
			c.server.stats.limited.Add(1)
			c.leave()
			return
		case c.closing || taken == 0 && c.server.isClosed():
			c.leave()
			return
		case taken == 0:
			if c.out.Flush() != nil || !c.receive() {
				return
			}
		}
	}
}

// leave sends what is answered. The client's end of the connection is awaited
// for a moment, because the system drops answers if it closes a connection with
// unread requests.
func (c *client) leave() {
	if c.out.Flush() != nil {
		return
	}
	if half, ok := c.conn.(interface{ CloseWrite() error }); ok && half.CloseWrite() == nil {
		c.conn.SetReadDeadline(time.Now().Add(200 * time.Millisecond))
		io.CopyN(io.Discard, c.conn, 1<<20)
	}
}

// take parses commands that have arrived. Before the login it is one at a time,
// because the limits change then.
func (c *client) take(tasks []task) ([]task, error) {
	most := c.server.options.MaxPipeline
	if c.user == nil {
		most = 1
	}
	for bytes := 0; len(tasks) < most && bytes < maxRunBytes; {
		if len(tasks) == freeTasks && !c.holdTasks(int64(taskBytes*(most-freeTasks))) {
			break
		}
		words, size, err := c.parser.Next()
		if err != nil || words == nil {
			return tasks, err
		}
		bytes += size
		tasks = append(tasks, task{args: words, size: size})
	}
	return tasks, nil
}

// holdTasks takes memory for many commands, until they are done.
func (c *client) holdTasks(bytes int64) bool {
	if !c.server.memory.take(bytes) {
		return false
	}
	c.tasks = bytes
	return true
}

func (c *client) releaseTasks() {
	c.server.memory.give(c.tasks)
	c.tasks = 0
}

// receive waits for bytes, and reads what has come with them. It returns false if
// the connection is to be closed.
func (c *client) receive() bool {
	options := &c.server.options
	space := c.parser.Space()
	if held := max(0, int64(c.parser.Memory())-freeMemory); held != c.held {
		if !c.server.memory.takeSoon(held - c.held) {
			c.server.stats.limited.Add(1)
			c.failWith(errNoRequests)
			c.leave()
			return false
		}
		c.held = held
	}
	var deadline time.Time
	switch {
	case c.parser.Partial():
		if c.partial.IsZero() {
			c.partial = time.Now()
		}
		deadline = c.partial.Add(options.RequestTimeout)
	case options.IdleTimeout > 0:
		deadline = time.Now().Add(options.IdleTimeout)
	}
	if c.user == nil {
		if first := c.strange.Add(options.AuthTimeout); deadline.IsZero() || first.Before(deadline) {
			deadline = first
		}
	}
	c.conn.SetReadDeadline(deadline)
	if c.server.isClosed() { // Or the deadline that says so was replaced.
		return false
	}
	count, err := c.input.Read(space)
	if err != nil && errors.Is(err, os.ErrDeadlineExceeded) && !c.server.isClosed() {
		c.server.stats.limited.Add(1)
	}
	c.server.stats.received.Add(uint64(count))
	c.parser.Filled(count)
	if err == nil && c.user != nil {
		c.receiveMore()
	}
	return count > 0 || err == nil
}

// receiveMore reads on while the buffer gets full, so that the commands of a
// pipeline are taken together. With TLS a read returns one record at most, so that it
// reads on until nothing has come. Memory for that is taken only if there is some left.
// An error comes again when the connection is read next.
func (c *client) receiveMore() {
	c.arrived.now = true
	defer func() { c.arrived.now = false }()
	_, secure := c.conn.(*tls.Conn)
	for {
		var space []byte
		if growth := int64(c.parser.Growth()); growth > 0 {
			if !c.server.memory.take(growth) {
				return
			}
			c.held += growth
			space = c.parser.Grow()
		} else if space = c.parser.Left(); !secure || len(space) == 0 {
			return
		}
		count, _ := c.input.Read(space)
		if count == 0 {
			return
		}
		c.server.stats.received.Add(uint64(count))
		c.parser.Filled(count)
	}
}

// note records what CLIENT LIST shows of the commands.
func (c *client) note(tasks []task) {
	c.server.stats.commands.Add(uint64(len(tasks)))
	last := shownName(tasks[len(tasks)-1].args)
	memory, requests := c.parser.Memory(), 0
	for i := range tasks {
		requests += tasks[i].size
	}
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.shown.active = time.Now()
	c.shown.commands += len(tasks)
	c.shown.buffered, c.shown.requests = memory, requests
	if c.shown.last != string(last) {
		c.shown.last = string(last[:min(len(last), 64)])
	}
}

// shownName is a command's first word, with the second one if that is a part of the
// name.
func shownName(words [][]byte) []byte {
	known := find(words[0])
	if known == nil || known.parts == nil || len(words) < 2 {
		return words[0]
	}
	return append(append([]byte(known.name), '|'), words[1]...)
}

// holdAnswers accounts for answers until they are sent.
func (c *client) holdAnswers(bytes int64) {
	c.server.memory.used.Add(bytes)
	c.answers += bytes
}

func (c *client) releaseAnswers() {
	if c.answers > 0 {
		c.out.Flush()
		c.server.memory.give(c.answers)
		c.answers = 0
	}
}
