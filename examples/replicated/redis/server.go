// Varve: a key-value storage engine. MIT licence, see LICENSE.

// Package redis answers clients of Redis. The commands that a client has sent
// without waiting are taken together: neighbours that write become one proposal
// for each shard, neighbours that read one read for each shard.
package redis

import (
	"fmt"
	"strings"

	"github.com/tidwall/redcon"
)

// Store is the replicated shards, 1 to Shards. All is safe for concurrent use.
type Store interface {
	Shards() uint64
	// Propose returns the machine's Result.Data.
	Propose(shard uint64, updates []byte) ([]byte, error)
	// Read asks a machine; it sees all that was acknowledged before unless
	// stale is set.
	Read(shard uint64, query interface{}, stale bool) (interface{}, error)
	// Info is the text for INFO.
	Info() string
	// Replace has the shards served by a new replica in place of an old one.
	Replace(oldID, newID uint64, address string) error
}

// Server answers connections.
type Server struct {
	store   Store
	cursors cursors
	stale   bool // Whether reads are stale unless a connection says otherwise.
	server  *redcon.Server
}

// NewServer makes one for an address, such as ":6379".
func NewServer(address string, store Store, stale bool) *Server {
	s := &Server{store: store, stale: stale}
	s.server = redcon.NewServer(address, s.handle,
		func(conn redcon.Conn) bool {
			conn.SetContext(&connection{stale: stale})
			return true
		}, nil)
	return s
}

// Serve returns when the server is closed.
func (s *Server) Serve() error { return s.server.ListenAndServe() }

// Close stops it.
func (s *Server) Close() error { return s.server.Close() }

type connection struct{ stale bool }

type kind int

const (
	other kind = iota
	reads
	writes
)

// commands says what is done how, and how many words it takes at least, and at
// most if that is not 0.
var commands = map[string]struct {
	kind             kind
	minimum, maximum int
}{
	"get": {reads, 2, 2}, "mget": {reads, 2, 0}, "exists": {reads, 2, 0},
	"set": {writes, 3, 3}, "mset": {writes, 3, 0}, "del": {writes, 2, 0},
	"ping": {other, 1, 2}, "echo": {other, 2, 2}, "quit": {other, 1, 1},
	"scan": {other, 2, 0}, "dbsize": {other, 1, 1}, "info": {other, 1, 0},
	"config": {other, 2, 0}, "command": {other, 1, 0}, "select": {other, 2, 2},
	"readonly": {other, 1, 1}, "readwrite": {other, 1, 1},
	"node.digest": {other, 1, 1}, "node.replace": {other, 4, 4},
}

type request struct {
	redcon.Command
	name string
	kind kind
}

func parse(command redcon.Command) request {
	r := request{Command: command, name: strings.ToLower(string(command.Args[0]))}
	r.kind = commands[r.name].kind
	return r
}

// complaint says what is wrong with the words of a command, if anything.
func (r *request) complaint() string {
	known, ok := commands[r.name]
	words := len(r.Args)
	if !ok {
		return fmt.Sprintf("ERR unknown command '%s'", r.name)
	}
	if words < known.minimum || (known.maximum > 0 && words > known.maximum) ||
		(r.name == "mset" && words%2 == 0) {
		return fmt.Sprintf("ERR wrong number of arguments for '%s' command", r.name)
	}
	return ""
}

const maxRunBytes = 4 << 20 // Of commands taken together.

func (s *Server) handle(conn redcon.Conn, first redcon.Command) {
	pipeline := []request{parse(first)}
	for _, command := range conn.ReadPipeline() {
		pipeline = append(pipeline, parse(command))
	}
	for len(pipeline) > 0 {
		run := cutRun(pipeline)
		pipeline = pipeline[len(run):]
		if complaint := run[0].complaint(); complaint != "" {
			conn.WriteError(complaint)
			continue
		}
		switch run[0].kind {
		case reads:
			s.read(conn, run)
		case writes:
			s.write(conn, run)
		default:
			if s.answer(conn, &run[0]) {
				return
			}
		}
	}
}

// cutRun is the commands at the beginning that are done together.
func cutRun(pipeline []request) []request {
	bytes := len(pipeline[0].Raw)
	if pipeline[0].kind == other || pipeline[0].complaint() != "" {
		return pipeline[:1]
	}
	for i := 1; i < len(pipeline); i++ {
		r := &pipeline[i]
		bytes += len(r.Raw)
		if r.kind != pipeline[0].kind || bytes > maxRunBytes || r.complaint() != "" {
			return pipeline[:i]
		}
	}
	return pipeline
}

// ShardOf is the shard of a key, by FNV-1a.
func ShardOf(key []byte, shards uint64) uint64 {
	hash := uint64(14695981039346656037)
	for _, b := range key {
		hash = (hash ^ uint64(b)) * 1099511628211
	}
	return (hash^hash>>32)%shards + 1
}
