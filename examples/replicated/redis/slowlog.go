// Varve: a key-value storage engine. MIT licence, see LICENSE.
package redis

import (
	"fmt"
	"math"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// slowLog has the newest commands that took long. Commands that are done together are
// one entry, with the words of the first one: each of them took as long.
type slowLog struct {
	threshold atomic.Int64 // Microseconds; below 0 for none.
	most      atomic.Int64 // Entries.

	mutex   sync.Mutex // Over these.
	entries []slowEntry
	nextID  int64
}

type slowEntry struct {
	id, at, micros int64
	words          []string
	address, name  string
}

// As in Redis.
const (
	slowWords     = 32
	slowWordBytes = 128
)

func init() {
	addParts("slowlog", RightAdmin, "server", "Returns the commands that took long.", map[string]subcommand{
		"get": {2, 3, RightAdmin, (*client).slowest},
		"len": {2, 2, RightAdmin, func(c *client, _ *task) { c.out.Int(int64(len(c.server.slow.newest(math.MaxInt)))) }},
		"reset": {2, 2, RightAdmin, func(c *client, _ *task) {
			c.server.slow.reset()
			c.out.Status("OK")
		}},
	})
}

// settings are those of CONFIG.
func (l *slowLog) settings() map[string]*atomic.Int64 {
	return map[string]*atomic.Int64{"slowlog-log-slower-than": &l.threshold, "slowlog-max-len": &l.most}
}

// note records a run of commands if it took long.
func (l *slowLog) note(c *client, run []task, begin time.Time, took time.Duration) {
	threshold, most := l.threshold.Load(), int(l.most.Load())
	if threshold < 0 || took.Microseconds() < threshold || most == 0 {
		return
	}
	first := run[0]
	if first.args == nil || first.command == nil || first.command.right == rightNone {
		return // One with a password, or none.
	}
	entry := slowEntry{at: begin.Unix(), micros: took.Microseconds(), address: c.conn.RemoteAddr().String()}
	for i, word := range first.args {
		if left := len(first.args) - i; i == slowWords-1 && left > 1 {
			entry.words = append(entry.words, fmt.Sprintf("... (%d more arguments)", left))
			break
		}
		text := string(word[:min(len(word), slowWordBytes)])
		if more := len(word) - len(text); more > 0 {
			text += fmt.Sprintf("... (%d more bytes)", more)
		}
		entry.words = append(entry.words, text)
	}
	if len(run) > 1 {
		entry.words = append(entry.words, fmt.Sprintf("... (%d more commands)", len(run)-1))
	}
	c.change(func(s *shown) { entry.name = s.name })
	l.mutex.Lock()
	defer l.mutex.Unlock()
	entry.id = l.nextID
	l.nextID++
	l.entries = append(l.entries, entry)
	l.trim(most)
}

func (l *slowLog) trim(most int) {
	if over := len(l.entries) - most; over > 0 {
		l.entries = append([]slowEntry(nil), l.entries[over:]...)
	}
}

// newest returns up to a number of entries, the newest first.
func (l *slowLog) newest(count int) []slowEntry {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.trim(int(l.most.Load()))
	var found []slowEntry
	for i := len(l.entries) - 1; i >= 0 && len(found) < count; i-- {
		found = append(found, l.entries[i])
	}
	return found
}

func (l *slowLog) reset() {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.entries = nil
}

func (c *client) slowest(t *task) {
	count := int64(10)
	if len(t.args) == 3 {
		var err error
		if count, err = strconv.ParseInt(string(t.args[2]), 10, 32); err != nil || count < -1 {
			c.fail("ERR count should be greater than or equal to -1")
			return
		}
		if count < 0 {
			count = math.MaxInt
		}
	}
	var list []any
	for _, one := range c.server.slow.newest(int(count)) {
		list = append(list, []any{one.id, one.at, one.micros, one.words, one.address, one.name})
	}
	c.answer(list)
}

// configSet sets all that is given or nothing.
func (c *client) configSet(t *task) {
	if len(t.args)%2 != 0 {
		c.fail(wrongNumber("config|set"))
		return
	}
	settings, all := c.server.slow.settings(), c.settings()
	values := map[string]int64{}
	given := map[string]bool{}
	for words := t.args[2:]; len(words) > 0; words = words[2:] {
		name := lower(words[0])
		if given[name] {
			c.refuseSetting(name, "duplicate parameter")
			return
		}
		given[name] = true
	}
	for words := t.args[2:]; len(words) > 0; words = words[2:] {
		name := lower(words[0])
		value, err := strconv.ParseInt(string(words[1]), 10, 64)
		_, known := all[name]
		switch {
		case !known:
			c.fail(fmt.Sprintf("ERR Unknown option or number of arguments for CONFIG SET - '%.64s'", name))
			return
		case settings[name] == nil:
			c.refuseSetting(name, "can't set immutable config, which is an option of the program varve-node")
			return
		case err != nil:
			c.refuseSetting(name, "argument couldn't be parsed into an integer")
			return
		case value < -1 || value < 0 && name == "slowlog-max-len" || value > 1<<40:
			c.refuseSetting(name, "argument is out of range")
			return
		}
		values[name] = value
	}
	for name, value := range values {
		settings[name].Store(value)
	}
	c.out.Status("OK")
}

func (c *client) refuseSetting(name, why string) {
	c.fail(fmt.Sprintf("ERR CONFIG SET failed (possibly related to argument '%.64s') - %s", name, why))
}
