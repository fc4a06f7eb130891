// Varve: a key-value storage engine. MIT licence, see LICENSE.

// Goal: commands do what Redis' do, alone and many at a time. Method: a store
// in memory that counts what it is asked; the words as a client sends them.
package redis

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"sort"
	"strings"
	"sync"
	"testing"
	"time"

	"varve.example/replicated/machine"
	"varve.example/replicated/storage"
)

type fakeStore struct {
	mutex     sync.Mutex
	values    map[string]string
	proposals int
	reads     int
	stale     int
	down      uint64 // A shard that does not answer.
}

func (f *fakeStore) Shards() uint64                       { return 4 }
func (f *fakeStore) Info() string                         { return "fake" }
func (f *fakeStore) Replace(uint64, uint64, string) error { return nil }

func (f *fakeStore) Propose(shard uint64, updates []byte) (data []byte, err error) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	if shard == f.down {
		return nil, fmt.Errorf("timeout")
	}
	f.proposals++
	_, err = storage.EachUpdate(updates, func(kind byte, key []byte) {
		if kind == storage.KindDelete {
			_, there := f.values[string(key)]
			delete(f.values, string(key))
			data = append(data, map[bool]byte{true: 1}[there])
		} else {
			f.values[string(key)] = string(key[1:]) + "!" // Values are keys and !.
		}
	})
	return data, err
}

func (f *fakeStore) Read(shard uint64, query interface{}, stale bool) (interface{}, error) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	if shard == f.down {
		return nil, fmt.Errorf("timeout")
	}
	f.reads++
	if stale {
		f.stale++
	}
	var mine []string
	for key := range f.values {
		if ShardOf([]byte(key[1:]), 4) == shard {
			mine = append(mine, key[1:])
		}
	}
	sort.Strings(mine)
	switch q := query.(type) {
	case machine.Get:
		var values [][]byte
		for _, key := range q.Keys {
			if value, there := f.values[string(key)]; there {
				values = append(values, []byte(value))
			} else {
				values = append(values, nil)
			}
		}
		return values, nil
	case machine.Scan:
		var keys machine.Keys
		for _, key := range mine {
			if q.After == nil || key > string(q.After) {
				if len(keys.Keys) == q.Count {
					keys.More = true
					break
				}
				keys.Keys = append(keys.Keys, []byte(key))
			}
		}
		return keys, nil
	}
	return machine.Summary{Entries: uint64(len(mine))}, nil
}

func serve(t *testing.T) (*fakeStore, func(request string) string) {
	store := &fakeStore{values: map[string]string{}}
	server := NewServer("127.0.0.1:0", store, false)
	ready := make(chan error)
	go server.server.ListenServeAndSignal(ready)
	if err := <-ready; err != nil {
		t.Fatal(err)
	}
	conn, err := net.Dial("tcp", server.server.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		conn.Close()
		server.Close()
	})
	reader := bufio.NewReader(conn)
	return store, func(request string) string {
		t.Helper()
		conn.SetDeadline(time.Now().Add(30 * time.Second))
		// The last answer is known by its words.
		io.WriteString(conn, request+"\r\nECHO the-end\r\n")
		var lines []string
		for {
			line, err := reader.ReadString('\n')
			if err != nil {
				t.Fatal(err)
			}
			if line = strings.TrimRight(line, "\r\n"); line == "the-end" {
				return strings.Join(lines[:len(lines)-1], " ")
			}
			lines = append(lines, line)
		}
	}
}

func TestAnswersAsRedisDoes(t *testing.T) {
	_, ask := serve(t)
	for _, one := range []struct{ request, answer string }{
		{"PING", "+PONG"}, {"PING x", "$1 x"}, {"get a", "$-1"}, {"SET a b", "+OK"},
		{"GET a", "$2 a!"}, {"MSET b 1 c 2", "+OK"}, {"MGET a z c", "*3 $2 a! $-1 $2 c!"},
		{"EXISTS a b z a", ":3"}, {"DBSIZE", ":3"}, {"DEL a z b", ":2"}, {"DBSIZE", ":1"},
		{"INFO", "$4 fake"}, {"SELECT 0", "+OK"}, {"CONFIG GET save", "*0"},
		{"SET a", "-ERR wrong number of arguments for 'set' command"},
		{"SET a b EX 5", "-ERR wrong number of arguments for 'set' command"},
		{"MSET a b c", "-ERR wrong number of arguments for 'mset' command"},
		{"LPUSH a b", "-ERR unknown command 'lpush'"},
		{"SCAN x", "-ERR invalid cursor"}, {"SCAN 77", "-ERR invalid cursor"},
		{"SCAN 0 COUNT", "-ERR syntax error"},
	} {
		if got := ask(one.request); got != one.answer {
			t.Errorf("%s: %q, not %q", one.request, got, one.answer)
		}
	}
}

func TestPipelinesKeepTheirOrderAndGoTogether(t *testing.T) {
	store, ask := serve(t)
	var request, want []string
	for i := 0; i < 50; i++ {
		request = append(request, fmt.Sprintf("SET k%d v", i))
		want = append(want, "+OK")
	}
	request = append(request, "GET k7", "DEL k7", "SET k8 v", "GET k7", "NO")
	want = append(want, "$3 k7!", ":1", "+OK", "$-1", "-ERR unknown command 'no'")
	if got := ask(strings.Join(request, "\r\n")); got != strings.Join(want, " ") {
		t.Fatal(got)
	}
	// More than the least only where the network has cut the pipeline.
	if store.proposals > 20 {
		t.Errorf("%d proposals of 4 shards", store.proposals)
	}
}

func TestErrorsAreOfTheCommandsTheyAreOf(t *testing.T) {
	store, ask := serve(t)
	store.down = ShardOf([]byte("bad"), 4)
	good := "good"
	for ShardOf([]byte(good), 4) == store.down {
		good += "."
	}
	got := ask(fmt.Sprintf("SET %s v\r\nSET bad v\r\nMSET %s v bad v\r\nGET %s\r\nGET bad",
		good, good, good))
	want := fmt.Sprintf("+OK -ERR timeout -ERR timeout $%d %s! -ERR timeout", len(good)+1, good)
	if got != want {
		t.Fatalf("%q, not %q", got, want)
	}
}

func TestScansAllShards(t *testing.T) {
	_, ask := serve(t)
	for i := 0; i < 100; i++ {
		ask(fmt.Sprintf("SET key%d v", i))
	}
	seen := map[string]bool{}
	cursor := "0"
	for calls := 0; ; calls++ {
		words := strings.Fields(ask("SCAN " + cursor + " COUNT 7 MATCH key*"))
		cursor = words[2]
		for at := 5; at < len(words); at += 2 {
			if seen[words[at]] {
				t.Error("twice:", words[at])
			}
			seen[words[at]] = true
		}
		if cursor == "0" || calls > 100 {
			break
		}
	}
	if len(seen) != 100 {
		t.Errorf("%d keys", len(seen))
	}
}

func TestStaleReadsAreOfAConnectionThatWantsThem(t *testing.T) {
	store, ask := serve(t)
	ask("GET a")
	ask("READONLY\r\nGET a\r\nREADWRITE\r\nGET a")
	if store.stale != 1 || store.reads != 3 {
		t.Errorf("%d of %d", store.stale, store.reads)
	}
}
