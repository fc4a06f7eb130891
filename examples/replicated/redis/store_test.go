// Varve: a key-value storage engine. MIT licence, see LICENSE.
package redis

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	sm "github.com/lni/dragonboat/v3/statemachine"

	"varve.example/replicated/check"
	"varve.example/replicated/machine"
	"varve.example/replicated/storage"
)

const testShards = 4

// localStore has the machines of all shards, without replication.
type localStore struct {
	mutex     sync.Mutex
	machines  []*machine.Machine // The first is nil.
	index     uint64
	proposals int
	reads     int
	stale     int
	age       time.Duration     // Of stale answers.
	down      uint64            // A shard that does not answer.
	failure   error             // What it answers.
	pause     chan struct{}     // If not nil, proposals wait for it.
	elsewhere map[uint64]string // Of shards that others lead, their cluster ports.
	known     ClusterMap
}

func newStore(t testing.TB) *localStore {
	engine, err := storage.OpenEngine(t.TempDir(),
		storage.Options{CacheBytes: 8 << 20, WriteBufferBytes: 8 << 20, OpenFiles: 100})
	check.OK(t, err)
	node, err := storage.OpenNode(engine, testShards)
	check.OK(t, err)
	f := &localStore{machines: []*machine.Machine{nil}, failure: errTimeout}
	for shard := uint64(1); shard <= testShards; shard++ {
		one := machine.New(node, shard)
		check.OK(t, check.Err(one.Open(nil)))
		f.machines = append(f.machines, one)
	}
	t.Cleanup(func() {
		for _, one := range f.machines[1:] {
			one.Close()
		}
		node.Close()
	})
	return f
}

func (f *localStore) Shards() uint64            { return testShards }
func (f *localStore) ShardOf(key []byte) uint64 { return ShardOf(key, testShards) }
func (f *localStore) Redirect(shard uint64, stale bool) string {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	if stale {
		return ""
	}
	return f.elsewhere[shard]
}
func (f *localStore) Map() ClusterMap                        { return f.known }
func (f *localStore) Now() int64                             { return time.Now().UnixMilli() }
func (f *localStore) Info() string                           { return "# Server\r\nengine:test\r\n# Extra\r\na:b\r\n" }
func (f *localStore) Leads(uint64) bool                      { return true }
func (f *localStore) Admin(words []string) ([]string, error) { return words, nil }

var errTimeout = errors.New("timeout")

func (f *localStore) Propose(shard uint64, proposal []byte) ([]byte, error) {
	if f.pause != nil {
		<-f.pause
	}
	f.mutex.Lock()
	defer f.mutex.Unlock()
	if shard == f.down {
		return nil, f.failure
	}
	f.proposals++
	f.index++
	entries, err := f.machines[shard].Update([]sm.Entry{{Index: f.index, Cmd: proposal}})
	if err != nil {
		return nil, err
	}
	if entries[0].Result.Value == 0 {
		return nil, errors.New("refused")
	}
	return entries[0].Result.Data, nil
}

func (f *localStore) Read(shard uint64, query interface{}, stale bool) (interface{}, time.Duration, error) {
	f.mutex.Lock()
	age := time.Duration(0)
	if f.reads++; stale {
		f.stale++
		age = f.age
	}
	down := shard == f.down
	f.mutex.Unlock()
	if down {
		return nil, 0, f.failure
	}
	answer, err := f.machines[shard].Lookup(query)
	return answer, age, err
}

// fixture is a server and its store.
type fixture struct {
	t      testing.TB
	store  *localStore
	server *Server
}

func serve(t testing.TB, change func(*Options)) *fixture {
	t.Helper()
	options := DefaultOptions
	options.Address = "127.0.0.1:0"
	if change != nil {
		change(&options)
	}
	f := &fixture{t, newStore(t), nil}
	f.server = NewServer(options, f.store)
	check.OK(t, f.server.Listen())
	go f.server.Serve()
	t.Cleanup(func() { f.server.Close() })
	return f
}

// dial returns a connection to a server that has no TLS.
func (f *fixture) dial() *testClient {
	f.t.Helper()
	conn, err := net.Dial("tcp", f.server.Addr().String())
	check.OK(f.t, err)
	return f.wrap(conn)
}

func (f *fixture) wrap(conn net.Conn) *testClient {
	f.t.Cleanup(func() { conn.Close() })
	conn.SetDeadline(time.Now().Add(5 * time.Minute))
	return &testClient{f.t, conn, bufio.NewReader(conn)}
}

type testClient struct {
	t      testing.TB
	conn   net.Conn
	reader *bufio.Reader
}

func (c *testClient) send(text string) {
	c.t.Helper()
	check.OK(c.t, check.Err(io.WriteString(c.conn, text)))
}

// one reads an answer, and shows it on one line.
func (c *testClient) one() (string, error) {
	line, err := c.reader.ReadString('\n')
	if err != nil {
		return "", err
	}
	line = strings.TrimRight(line, "\r\n")
	var count int
	fmt.Sscan(line[1:], &count)
	switch line[0] {
	case '$', '=':
		if count < 0 {
			return "nil", nil
		}
		text := make([]byte, count+2)
		if _, err := io.ReadFull(c.reader, text); err != nil {
			return "", err
		}
		return fmt.Sprintf("%q", text[:count]), nil
	case '*', '%', '~':
		if line[0] == '%' {
			count *= 2
		}
		parts := make([]string, max(count, 0))
		for i := range parts {
			if parts[i], err = c.one(); err != nil {
				return "", err
			}
		}
		return string(line[0]) + "[" + strings.Join(parts, " ") + "]", nil
	case '_':
		return "nil", nil
	}
	return line, nil
}

// ask sends an inline command.
func (c *testClient) ask(format string, arguments ...interface{}) string {
	c.t.Helper()
	c.send(fmt.Sprintf(format, arguments...) + "\r\n")
	answer, err := c.one()
	if err != nil {
		c.t.Fatalf("%s: %v", fmt.Sprintf(format, arguments...), err)
	}
	return answer
}

func (c *testClient) expect(request, want string) {
	c.t.Helper()
	if got := c.ask("%s", request); got != want {
		c.t.Errorf("%s: %s, not %s", request, got, want)
	}
}

// closed says whether the server has closed the connection, after other answers.
func (c *testClient) closed() (answers string, closed bool) {
	for {
		answer, err := c.one()
		if err != nil {
			var network net.Error
			return answers, !errors.As(err, &network) || !network.Timeout()
		}
		answers += answer
	}
}
