// Varve: a key-value storage engine. MIT licence, see LICENSE.

package bench

import (
	"fmt"
	"hash/fnv"
)

// recorded is how many operations of each session are printed.
const recorded = 4

// recorder is an engine that stores nothing and prints the operations it is
// asked for, to be compared with those of db_bench.
type recorder struct{ sessions []*recording }

type recording struct{ lines []string }

func (r *recorder) Version() string    { return "" }
func (r *recorder) Remarks() string    { return "" }
func (r *recorder) Open(*Config) error { return nil }
func (r *recorder) Close() error       { return nil }
func (r *recorder) Compact() error     { return nil }
func (r *recorder) NewSession() Session {
	session := &recording{}
	r.sessions = append(r.sessions, session)
	return session
}

func (r *recording) note(operation string, key, value []byte) {
	if len(r.lines) == recorded {
		return
	}
	line := fmt.Sprintf("%s %x", operation, key)
	if value != nil {
		hash := fnv.New64a()
		hash.Write(value)
		line += fmt.Sprintf(" %016x", hash.Sum64())
	}
	r.lines = append(r.lines, line)
}

func (r *recording) PutOne(key, value []byte) error {
	r.note("put", key, value)
	return nil
}
func (r *recording) Put(key, value []byte) error {
	r.note("put", key, value)
	return nil
}
func (r *recording) Commit() error { return nil }
func (r *recording) Get(key []byte, _ func([]byte)) error {
	r.note("get", key, nil)
	return nil
}
func (r *recording) GetEach(keys [][]byte, _ func([]byte)) error {
	for _, key := range keys {
		r.note("get", key, nil)
	}
	return nil
}
func (r *recording) Seek(key []byte, _ func(key, value []byte) bool) error {
	r.note("seek", key, nil)
	return nil
}
func (r *recording) Close() error { return nil }

// print writes the operations since the last call.
func (r *recorder) print(benchmark string) {
	for number, session := range r.sessions {
		for _, line := range session.lines {
			fmt.Printf("%s %d %s\n", benchmark, number, line)
		}
	}
	r.sessions = nil
}
