// Varve: a key-value storage engine. MIT licence, see LICENSE.

// Package redis answers clients of Redis. The commands that a client has sent
// without waiting are taken together: neighbours that write become one proposal
// for each shard, neighbours that read one read for each shard.
package redis

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"varve.example/replicated/resp"
)

// Store is the replicated shards, 1 to Shards. All is safe for concurrent use.
type Store interface {
	Shards() uint64
	ShardOf(key []byte) uint64
	// Propose returns the machine's Result.Data.
	Propose(shard uint64, proposal []byte) ([]byte, error)
	// Read asks a machine; it sees all that was acknowledged before unless
	// stale is set. Then the age says how old the answer is at most; it is below 0
	// if that is not known. Errors with a method Code have a code for clients.
	Read(shard uint64, query interface{}, stale bool) (answer interface{}, age time.Duration, err error)
	// Now is the time of day, in milliseconds since 1970, by which keys expire.
	Now() int64
	// Leads says whether this node leads a shard, as far as it knows.
	Leads(shard uint64) bool
	// Redirect is the address of the node that a client of the cluster port should ask
	// for a shard, or empty if it is served here. Map is of all nodes and shards. Both
	// are used only if there is such a port, and then the shards are those of ShardOf.
	Redirect(shard uint64, stale bool) string
	Map() ClusterMap
	// Info is text for INFO: sections, each after a line with # and its name.
	Info() string
	// Admin does a command for operators, whose name begins with "node.". Each
	// line of the answer is one element.
	Admin(words []string) ([]string, error)
}

// Options of a server. DefaultOptions has a value for each limit.
type Options struct {
	Address string // HOST:PORT.
	Cluster string // HOST:PORT for clients of Redis Cluster; empty for none.
	Users   *Users // nil: no password, and only on loopback.
	TLS     *tls.Config
	Stale   bool     // Whether reads are stale unless a connection says otherwise.
	Allow   []string // Of the commands that are refused by default.

	MaxConnections int
	MaxPipeline    int   // Commands of a connection that are taken together.
	MaxWords       int   // Of a command.
	MaxRequest     int   // Bytes of a command.
	MaxAnswer      int   // Bytes of the values that one command reads.
	MaxMemory      int64 // Bytes of all requests and answers that are under way.
	// If it is not 0: bytes of the whole process, which the store bounds. Full says
	// whether there is no memory for anything more.
	MaxProcess int64
	Full       func() bool

	AuthTimeout    time.Duration // From connecting to logging in.
	RequestTimeout time.Duration // From a command's first byte to its last one.
	WriteTimeout   time.Duration // For a client to take a mebibyte of answers.
	IdleTimeout    time.Duration // Between two commands. 0 is no limit.

	SlowerThan time.Duration // Of commands in the slow log; below 0 for none.
	SlowLength int           // Entries of the slow log.
}

// DefaultOptions are for a machine with some gigabytes.
var DefaultOptions = Options{
	Address: "127.0.0.1:6379", MaxConnections: 10000, MaxPipeline: 10000,
	MaxWords: 1 << 20, MaxRequest: 32 << 20, MaxAnswer: 64 << 20, MaxMemory: 512 << 20,
	AuthTimeout: 10 * time.Second, RequestTimeout: time.Minute,
	WriteTimeout: 10 * time.Second, IdleTimeout: time.Hour,
	SlowerThan: 10 * time.Millisecond, SlowLength: 128,
}

// Server answers connections.
type Server struct {
	store    Store
	options  Options
	allowed  map[string]bool
	memory   budget
	guard    guard
	slow     slowLog
	usage    map[*command]*usage // Of all commands.
	stats    stats
	started  time.Time
	stop     chan struct{}
	expirer  sync.WaitGroup
	serving  sync.WaitGroup
	lastID   atomic.Int64
	accepted atomic.Int64 // Connections that are open.

	mutex    sync.Mutex // Over these.
	listener net.Listener
	door     net.Listener // Of the cluster port, or nil.
	clients  map[int64]*client
	closed   bool
}

// stats are counters for INFO and Stats.
type stats struct {
	connections, rejected, commands, errors, logins, limited atomic.Uint64
	handshakes                                               atomic.Uint64 // That have failed.
	hits, misses, expired, received, sent                    atomic.Uint64
}

// Stats are counters since the start, and the number of connections.
type Stats struct {
	Connected                                  int64
	Connections, Rejected, Commands, Errors    uint64
	FailedLogins, ClosedForLimits, KeysExpired uint64
	BytesReceived, BytesSent                   uint64
	Memory                                     int64 // Of requests and answers.
}

// NewServer returns one that does not listen yet.
func NewServer(options Options, store Store) *Server {
	s := &Server{store: store, options: options, allowed: map[string]bool{}, clients: map[int64]*client{},
		started: time.Now(), stop: make(chan struct{})}
	s.memory.limit, s.memory.full = options.MaxMemory, options.Full
	s.slow.threshold.Store(options.SlowerThan.Microseconds())
	s.slow.most.Store(int64(options.SlowLength))
	s.usage = map[*command]*usage{operator: {}}
	for _, one := range commands {
		s.usage[one] = &usage{}
	}
	for _, name := range options.Allow {
		s.allowed[name] = true
	}
	return s
}

// Stats returns the counters.
func (s *Server) Stats() Stats {
	return Stats{s.accepted.Load(), s.stats.connections.Load(), s.stats.rejected.Load(),
		s.stats.commands.Load(), s.stats.errors.Load(), s.stats.logins.Load(),
		s.stats.limited.Load(), s.stats.expired.Load(), s.stats.received.Load(),
		s.stats.sent.Load(), s.memory.used.Load()}
}

// CheckAddress refuses an address that others can reach if there is no password.
func CheckAddress(address string, users *Users) error {
	if users != nil {
		return nil
	}
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return err
	}
	addresses := []net.IP{net.ParseIP(host)}
	if addresses[0] == nil {
		if addresses, err = net.LookupIP(host); host == "" || err != nil {
			addresses = nil
		}
	}
	for _, one := range addresses {
		if !one.IsLoopback() {
			addresses = nil
			break
		}
	}
	if len(addresses) == 0 {
		return fmt.Errorf("redis: without a password or users, clients may come from loopback only, not to %q", address)
	}
	return nil
}

// Listen opens the ports. Serve does it if need be.
func (s *Server) Listen() error {
	listener, err := s.open(s.options.Address)
	if err != nil {
		return err
	}
	var door net.Listener
	if s.options.Cluster != "" {
		if door, err = s.open(s.options.Cluster); err != nil {
			listener.Close()
			return err
		}
	}
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.listener, s.door = listener, door
	return nil
}

func (s *Server) open(address string) (net.Listener, error) {
	if err := CheckAddress(address, s.options.Users); err != nil {
		return nil, err
	}
	return net.Listen("tcp", address)
}

// Addr is where it listens.
func (s *Server) Addr() net.Addr { return s.listener.Addr() }

// ClusterAddr is where it listens for clients of Redis Cluster, if it does.
func (s *Server) ClusterAddr() net.Addr { return s.door.Addr() }

// Serve returns when the server is closed, without an error.
func (s *Server) Serve() error {
	if s.listener == nil {
		if err := s.Listen(); err != nil {
			return err
		}
	}
	s.expirer.Add(1)
	go s.expire()
	if s.door == nil {
		return s.acceptAll(s.listener, false)
	}
	ended := make(chan error, 2)
	go func() { ended <- s.acceptAll(s.door, true) }()
	go func() { ended <- s.acceptAll(s.listener, false) }()
	return <-ended
}

// acceptAll returns when the server is closed, without an error.
func (s *Server) acceptAll(listener net.Listener, clustered bool) error {
	for {
		conn, err := listener.Accept()
		select {
		case <-s.stop:
			if err == nil {
				conn.Close()
			}
			return nil
		default:
		}
		if err != nil {
			var network net.Error
			if !errors.As(err, &network) {
				return err
			}
			time.Sleep(20 * time.Millisecond) // Perhaps there are too many files.
			continue
		}
		s.accept(conn, clustered)
	}
}

func (s *Server) accept(conn net.Conn, clustered bool) {
	s.stats.connections.Add(1)
	if s.accepted.Add(1) > int64(s.options.MaxConnections) {
		s.accepted.Add(-1)
		s.stats.rejected.Add(1)
		s.guard.log(conn.RemoteAddr(), time.Now(), "a connection was refused: there are too many")
		if s.options.TLS == nil {
			conn.SetWriteDeadline(time.Now().Add(100 * time.Millisecond))
			conn.Write([]byte("-ERR max number of clients reached\r\n"))
		}
		conn.Close()
		return
	}
	c := newClient(s, conn, clustered)
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.closed {
		s.accepted.Add(-1)
		conn.Close()
		return
	}
	s.clients[c.id] = c
	s.serving.Add(1)
	go func() {
		defer s.serving.Done()
		c.serve()
		s.mutex.Lock()
		delete(s.clients, c.id)
		s.mutex.Unlock()
		s.accepted.Add(-1)
	}()
}

const closeTimeout = 3 * time.Second // For commands that are under way.

// Close refuses new commands, and waits a little for those that are under way.
// Then it closes their connections, and waits once more as long.
func (s *Server) Close() error {
	s.mutex.Lock()
	if s.closed {
		s.mutex.Unlock()
		return nil
	}
	s.closed = true
	close(s.stop)
	var err error
	if s.listener != nil {
		err = s.listener.Close()
	}
	if s.door != nil {
		err = errors.Join(err, s.door.Close())
	}
	for _, c := range s.clients {
		c.conn.SetReadDeadline(time.Now())
	}
	s.mutex.Unlock()
	done := make(chan struct{})
	go func() {
		s.serving.Wait()
		s.expirer.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(closeTimeout):
		s.mutex.Lock()
		for _, c := range s.clients {
			c.conn.Close()
		}
		s.mutex.Unlock()
		select {
		case <-done:
		case <-time.After(closeTimeout):
		}
	}
	return err
}

func (s *Server) isClosed() bool {
	select {
	case <-s.stop:
		return true
	default:
		return false
	}
}

// budget bounds the memory of all connections together.
type budget struct {
	limit int64
	used  atomic.Int64
	full  func() bool // Nil if there is no other bound.
}

func (b *budget) take(bytes int64) bool {
	for {
		used := b.used.Load()
		if bytes > 0 && (used+bytes > b.limit || b.full != nil && b.full()) {
			return false
		}
		if b.used.CompareAndSwap(used, used+bytes) {
			return true
		}
	}
}

// takeSoon waits a little for others to give back.
func (b *budget) takeSoon(bytes int64) bool {
	for try := 0; try < 100; try++ {
		if b.take(bytes) {
			return true
		}
		time.Sleep(20 * time.Millisecond)
	}
	return false
}

func (b *budget) give(bytes int64) { b.used.Add(-bytes) }

// Limits of a client that has not logged in.
var strangerLimits = resp.Limits{Words: 16, Bytes: 8 << 10}
