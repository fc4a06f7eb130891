// Varve: a key-value storage engine. MIT licence, see LICENSE.
package redis

import (
	"fmt"
	"strconv"
	"strings"
	"sync"

	"github.com/tidwall/match"
	"github.com/tidwall/redcon"

	"varve.example/replicated/machine"
)

// cursors gives numbers, which clients of Redis want, to where scans are. The
// oldest are forgotten.
type cursors struct {
	mutex sync.Mutex
	last  uint64
	at    map[uint64]position
}

// position is behind a key of a shard; nil is before the first one.
type position struct {
	shard uint64
	after []byte
}

const maxCursors = 4096

func (c *cursors) put(at position) uint64 {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if c.at == nil {
		c.at = map[uint64]position{}
	}
	c.last++
	c.at[c.last] = at
	if c.last > maxCursors {
		delete(c.at, c.last-maxCursors)
	}
	return c.last
}

func (c *cursors) get(number uint64) (position, bool) {
	if number == 0 {
		return position{shard: 1}, true
	}
	c.mutex.Lock()
	defer c.mutex.Unlock()
	at, ok := c.at[number]
	return at, ok
}

// answer does a command of the others; true if the connection was closed.
func (s *Server) answer(conn redcon.Conn, r *request) bool {
	stale := conn.Context().(*connection)
	switch r.name {
	case "ping":
		if len(r.Args) > 1 {
			conn.WriteBulk(r.Args[1])
		} else {
			conn.WriteString("PONG")
		}
	case "echo":
		conn.WriteBulk(r.Args[1])
	case "quit":
		conn.WriteString("OK")
		conn.Close()
		return true
	case "select":
		if string(r.Args[1]) == "0" {
			conn.WriteString("OK")
		} else {
			conn.WriteError("ERR there is only database 0")
		}
	case "config", "command":
		conn.WriteArray(0)
	case "readonly", "readwrite":
		stale.stale = r.name == "readonly"
		conn.WriteString("OK")
	case "info":
		conn.WriteBulkString(s.store.Info())
	case "dbsize":
		s.size(conn, stale.stale)
	case "scan":
		s.scan(conn, r, stale.stale)
	case "node.digest":
		s.digest(conn)
	case "node.replace":
		s.replace(conn, r)
	}
	return false
}

func (s *Server) size(conn redcon.Conn, stale bool) {
	var entries uint64
	for shard := uint64(1); shard <= s.store.Shards(); shard++ {
		answer, err := s.store.Read(shard, machine.Digest{}, stale)
		if err != nil {
			conn.WriteError("ERR " + err.Error())
			return
		}
		entries += answer.(machine.Summary).Entries
	}
	conn.WriteUint64(entries)
}

// scan answers with keys of one shard, and with a cursor that goes on to the
// next shard behind its last key.
func (s *Server) scan(conn redcon.Conn, r *request, stale bool) {
	number, err := strconv.ParseUint(string(r.Args[1]), 10, 64)
	at, known := s.cursors.get(number)
	if err != nil || !known {
		conn.WriteError("ERR invalid cursor")
		return
	}
	count, pattern := 10, "*"
	for words := r.Args[2:]; len(words) > 0; words = words[2:] {
		option := strings.ToLower(string(words[0]))
		if len(words) == 1 || (option != "count" && option != "match") {
			conn.WriteError("ERR syntax error")
			return
		}
		if option == "match" {
			pattern = string(words[1])
		} else if count, err = strconv.Atoi(string(words[1])); err != nil || count < 1 {
			conn.WriteError("ERR value is not an integer or out of range")
			return
		}
	}
	answer, err := s.store.Read(at.shard,
		machine.Scan{After: at.after, Count: min(count, 10000)}, stale)
	if err != nil {
		conn.WriteError("ERR " + err.Error())
		return
	}
	found := answer.(machine.Keys)
	next := position{shard: at.shard + 1}
	if found.More {
		next = position{at.shard, found.Keys[len(found.Keys)-1]}
	}
	number = 0
	if next.shard <= s.store.Shards() {
		number = s.cursors.put(next)
	}
	conn.WriteArray(2)
	conn.WriteBulkString(strconv.FormatUint(number, 10))
	keys := found.Keys[:0]
	for _, key := range found.Keys {
		if pattern == "*" || match.Match(string(key), pattern) {
			keys = append(keys, key)
		}
	}
	conn.WriteArray(len(keys))
	for _, key := range keys {
		conn.WriteBulk(key)
	}
}

// digest says of each shard what this node itself has.
func (s *Server) digest(conn redcon.Conn) {
	var lines []string
	for shard := uint64(1); shard <= s.store.Shards(); shard++ {
		answer, err := s.store.Read(shard, machine.Digest{}, true)
		if err != nil {
			conn.WriteError("ERR " + err.Error())
			return
		}
		summary := answer.(machine.Summary)
		lines = append(lines, fmt.Sprintf("shard=%d applied=%d entries=%d sum=%016x",
			shard, summary.Applied, summary.Entries, summary.Sum))
	}
	conn.WriteArray(len(lines))
	for _, line := range lines {
		conn.WriteBulkString(line)
	}
}

func (s *Server) replace(conn redcon.Conn, r *request) {
	oldID, oldErr := strconv.ParseUint(string(r.Args[1]), 10, 64)
	newID, newErr := strconv.ParseUint(string(r.Args[2]), 10, 64)
	if oldErr != nil || newErr != nil || newID == 0 {
		conn.WriteError("ERR ids are numbers from 1 on")
		return
	}
	if err := s.store.Replace(oldID, newID, string(r.Args[3])); err != nil {
		conn.WriteError("ERR " + err.Error())
		return
	}
	conn.WriteString("OK")
}
