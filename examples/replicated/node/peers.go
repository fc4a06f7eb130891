// Varve: a key-value storage engine. MIT licence, see LICENSE.
package node

import (
	"bufio"
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/rpc"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/singleflight"

	"varve.example/replicated/machine"
)

// Nodes reach each other at one port. The first byte of a connection is its kind.
const (
	kindMessages = 'm' // Raft's.
	kindChunks   = 'p' // Parts of a snapshot of Raft.
	kindCalls    = 'c' // net/rpc: many calls at a time.
	kindStream   = 's' // The contents of one shard, for a backup.
)

func init() {
	for _, one := range []interface{}{
		machine.Get{}, machine.Scan{}, machine.Digest{}, machine.Keys{}, machine.Summary{},
		machine.Due{},
		directoryQuery{}, &Directory{}, values{},
	} {
		gob.Register(one)
	}
}

// values is [][]byte on the way: gob makes no difference between a value of no
// bytes and none at all.
type values struct {
	Values  [][]byte
	Missing []bool
}

func pack(answer interface{}) interface{} {
	list, ok := answer.([][]byte)
	if !ok {
		return answer
	}
	packed := values{list, make([]bool, len(list))}
	for i := range list {
		packed.Missing[i] = list[i] == nil
	}
	return packed
}

func unpack(answer interface{}) interface{} {
	packed, ok := answer.(values)
	if !ok {
		return answer
	}
	for i := range packed.Values {
		if packed.Missing[i] {
			packed.Values[i] = nil
		} else if packed.Values[i] == nil {
			packed.Values[i] = []byte{}
		}
	}
	return packed.Values
}

// errNotSent says that a request has not reached the other node.
var errNotSent = errors.New("the node cannot be reached")

// peers are the connections to other nodes, by their addresses. One goroutine at a time
// dials an address, and those that wait share what it gets.
type peers struct {
	clients sync.Map // Of *peer.
	dialing singleflight.Group
}

// peer is ended by closing conn: errors of calls then say whether they were sent.
type peer struct {
	*rpc.Client
	conn *watchedConn
}

// watchedConn ends a read or write in which nothing happens for a time, if that
// is not 0, and knows when something has come last.
type watchedConn struct {
	net.Conn
	silence time.Duration
	heard   atomic.Int64 // Since `clock`.
}

var clock = time.Now()

func (c *watchedConn) Read(to []byte) (int, error) {
	if c.silence > 0 {
		c.SetReadDeadline(time.Now().Add(c.silence))
	}
	size, err := c.Conn.Read(to)
	if size > 0 {
		c.heard.Store(int64(time.Since(clock)))
	}
	return size, err
}

func (c *watchedConn) Write(from []byte) (int, error) {
	if c.silence > 0 {
		c.SetWriteDeadline(time.Now().Add(c.silence))
	}
	return c.Conn.Write(from)
}

func (n *Node) client(address string) (*peer, error) {
	if client, known := n.peers.clients.Load(address); known {
		return client.(*peer), nil
	}
	client, err, _ := n.peers.dialing.Do(address, func() (any, error) {
		if client, known := n.peers.clients.Load(address); known {
			return client, nil
		}
		conn, err := n.dialNode(address, kindCalls)
		if err != nil {
			return nil, err
		}
		watched := &watchedConn{Conn: conn}
		client := &peer{Client: rpc.NewClient(watched), conn: watched}
		n.peers.clients.Store(address, client)
		return client, nil
	})
	if err != nil {
		return nil, err
	}
	return client.(*peer), nil
}

func (n *Node) dropClient(address string, client *peer) {
	n.peers.clients.CompareAndDelete(address, client)
	client.conn.Close()
}

// callAt calls a method of the service of the node at an address. errNotSent
// says that nothing was done there. A connection that was lost before is made
// again: the node may have been restarted.
func (n *Node) callAt(address, method string, arguments, reply interface{}, wait time.Duration) error {
	err := n.callOnce(address, method, arguments, reply, wait)
	if errors.Is(err, errLostBefore) {
		err = n.callOnce(address, method, arguments, reply, wait)
	}
	return err
}

var errLostBefore = fmt.Errorf("%w: the connection was lost", errNotSent)

// callOnce drops a connection on which nothing has come for all the time of a
// call. A call that is merely slow harms no others.
func (n *Node) callOnce(address, method string, arguments, reply interface{}, wait time.Duration) error {
	client, err := n.client(address)
	if err != nil {
		return fmt.Errorf("%w: %v", errNotSent, err)
	}
	began := int64(time.Since(clock))
	call := client.Go("Service."+method, arguments, reply, make(chan *rpc.Call, 1))
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-call.Done:
		var told rpc.ServerError
		if call.Error != nil && !errors.As(call.Error, &told) {
			n.dropClient(address, client)
			if errors.Is(call.Error, rpc.ErrShutdown) {
				return errLostBefore
			}
		}
		return call.Error
	case <-timer.C:
		if client.conn.heard.Load() < began {
			n.dropClient(address, client)
		}
		return fmt.Errorf("%s does not answer", address)
	}
}

// call is callAt for the number of a node.
func (n *Node) call(number uint64, method string, arguments, reply interface{}, wait time.Duration) error {
	record := n.Directory().Nodes[number]
	if record == nil {
		return fmt.Errorf("%w: there is no node %d", errNotSent, number)
	}
	return n.callAt(record.Address, method, arguments, reply, wait)
}

// serve answers other nodes until the listener is closed.
func (n *Node) serve(listener net.Listener) {
	server := rpc.NewServer()
	if err := server.RegisterName("Service", &Service{n}); err != nil {
		panic(err)
	}
	var mutex sync.Mutex
	open := map[net.Conn]bool{}
	for {
		conn, err := listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			mutex.Lock()
			defer mutex.Unlock()
			for conn := range open {
				conn.Close()
			}
			return
		}
		if err != nil {
			time.Sleep(10 * time.Millisecond) // Such as too many open files.
			continue
		}
		mutex.Lock()
		open[conn] = true
		mutex.Unlock()
		go func() {
			n.serveOne(server, conn)
			conn.Close()
			mutex.Lock()
			delete(open, conn)
			mutex.Unlock()
		}()
	}
}

func (n *Node) serveOne(server *rpc.Server, conn net.Conn) {
	var kind [1]byte
	conn.SetReadDeadline(time.Now().Add(10 * time.Second))
	if _, err := io.ReadFull(conn, kind[:]); err != nil {
		if n.options.TLS.enabled() && !errors.Is(err, io.EOF) {
			n.lines.Log("refused", slog.LevelWarn, "a connection to the port for nodes was refused", "from", conn.RemoteAddr(), "error", err)
		}
		return
	}
	conn.SetReadDeadline(time.Time{})
	switch kind[0] {
	case kindCalls:
		server.ServeConn(conn)
	case kindStream:
		n.serveStream(conn)
	case kindMessages, kindChunks:
		if err := n.raft.serve(kind[0], conn); !errors.Is(err, io.EOF) && !errors.Is(err, net.ErrClosed) {
			slog.Debug("a connection has ended", "from", conn.RemoteAddr(), "error", err)
		}
	}
}

// Service is what a node does for other nodes.
type Service struct{ n *Node }

// JoinRequest asks for a number.
type JoinRequest struct {
	Address, Client, Token string
	Cluster                string // Its name, if the node was told.
	Layout                 int    // The newest one that the node knows.
}

// JoinReply has the number, and all that there is to know.
type JoinReply struct {
	Number    uint64
	Directory *Directory
	Refused   string // Why, if it makes no sense to ask again.
}

// Join takes a node into the directory.
func (s *Service) Join(request JoinRequest, reply *JoinReply) error {
	var mine identity
	mine.setName(s.n.cluster)
	if request.Cluster != "" && request.Cluster != mine.Cluster {
		reply.Refused = s.n.otherCluster(request.Cluster)
		return nil
	}
	if request.Layout < mine.Layout {
		reply.Refused = "the keys of this cluster are mapped by slots, which the program that joins does not know"
		return nil
	}
	number, d, err := s.n.takeIn(request)
	if errors.Is(err, errAddressTaken) {
		reply.Refused = err.Error()
		return nil
	}
	reply.Number, reply.Directory = number, d
	return err
}

// Status is of a node, for the others.
type Status struct {
	Node     uint64
	Cluster  string
	Client   string
	Announce string // For clients of Redis Cluster.
	Token    string
	Revision uint64
	Shards   map[uint64]ShardStatus
	Stopping bool
	Converts bool   // Whether it has --convert-to-slots.
	Room     uint64 // Bytes for further replicas.
	// Newer is set if the other node has an older one.
	Newer *Directory
	// Refused is why the other node is not heard: it is not who it says.
	Refused string
}

// ShardStatus is of a replica that runs.
type ShardStatus struct {
	Replica uint64
	Leader  uint64 // The leader's replica, 0 if it is not known.
	Applied uint64
	Steady  bool // Whether it leads, or has reached its leader.
	// Whether it does not know of a vote of its own, so that it gives none. Older programs
	// do not say.
	Observes bool
	// What it stores, and what is written to it in a second. Older programs do not weigh.
	Weighed     bool
	Bytes, Rate uint64
}

// Exchange tells each of two nodes of the other.
func (s *Service) Exchange(theirs Status, reply *Status) error {
	refused := s.n.heard(&theirs)
	*reply = s.n.status()
	if reply.Refused = refused; theirs.Cluster != s.n.cluster {
		s.n.follows(&theirs) // A node that knows of no others does not ask them.
		if !s.n.mayFollow(&theirs) {
			return nil
		}
	}
	if d := s.n.Directory(); d.Revision > theirs.Revision {
		reply.Newer = d
	}
	return nil
}

// Request is what a client has asked, of a shard with no replica where it asked.
type Request struct {
	Cluster string
	Shard   uint64
	Updates []byte      // If Query is nil.
	Query   interface{} // A read.
	Stale   bool
	Oldest  time.Duration // Of a stale read, if not 0.
}

// Reply has an error of its own, whose kind must survive the way.
type Reply struct {
	NotHere bool // Nothing was done: the shard is not served here.
	// Nothing was done: the shard takes nothing now.
	NotTaken bool
	NoMemory bool // With NotTaken.
	TooOld   bool // A stale read was refused.
	Aged     bool // Whether Age is set. Older programs do not set it.
	Age      time.Duration
	Error    string
	Data     []byte
	Answer   interface{}
}

// Do does a request with this node's replica.
func (s *Service) Do(request Request, reply *Reply) error {
	var err error
	if request.Cluster != s.n.cluster {
		reply.NotHere, reply.Error = true, s.n.otherCluster(request.Cluster)
		return nil
	}
	var answer interface{}
	switch {
	case s.n.Full() && request.Shard != directoryShard:
		reply.NoMemory, err = true, errNoMemory
	case request.Query == nil:
		reply.Data, err = s.n.proposeHere(request.Shard, request.Updates)
	case request.Stale:
		answer, reply.Age, err = s.n.staleHere(request.Shard, request.Query, request.Oldest)
		reply.Aged = true
	default:
		answer, err = s.n.readHere(request.Shard, request.Query)
	}
	reply.Answer = pack(answer)
	if err != nil {
		reply.NotHere, reply.Error = errors.Is(err, errNotHere), err.Error()
		reply.NotTaken, reply.TooOld = errors.Is(err, errNotTaken), errors.Is(err, errTooOld)
		reply.Answer = nil
	}
	return nil
}

// Members is who is in a shard's Raft group, with their addresses.
type Members struct {
	Change            uint64 // The index of the last change.
	Voters, Observers map[uint64]string
	Removed           map[uint64]bool
}

// Members asks the group of a shard.
func (s *Service) Members(shard uint64, reply *Members) error {
	ctx, cancel := context.WithTimeout(s.n.life, s.n.options.Timeout)
	defer cancel()
	found, err := s.n.host.SyncGetClusterMembership(ctx, clusterOf(shard))
	if err != nil {
		return err
	}
	*reply = Members{found.ConfigChangeID, found.Nodes, found.Observers, map[uint64]bool{}}
	for id := range found.Removed {
		reply.Removed[id] = true
	}
	return nil
}

// Membership is a change of a shard's Raft group.
type Membership struct {
	Shard   uint64
	Kind    membershipKind
	Replica uint64
	Address string
	After   uint64 // Members.Change: without effect if there was another change.
}

type membershipKind int

const (
	addObserver membershipKind = iota
	addVoter
	remove
)

// Change changes the group of a shard.
func (s *Service) Change(m Membership, _ *struct{}) error {
	ctx, cancel := context.WithTimeout(s.n.life, s.n.options.Timeout)
	defer cancel()
	cluster := clusterOf(m.Shard)
	switch m.Kind {
	case addObserver:
		return s.n.host.SyncRequestAddObserver(ctx, cluster, m.Replica, m.Address, m.After)
	case addVoter:
		return s.n.host.SyncRequestAddNode(ctx, cluster, m.Replica, m.Address, m.After)
	}
	return s.n.host.SyncRequestDeleteNode(ctx, cluster, m.Replica, m.After)
}

// Transfer asks for the leadership of a shard to be moved to a replica.
type Transfer struct{ Shard, Replica uint64 }

// Transfer moves the leadership, if this node has it.
func (s *Service) Transfer(t Transfer, _ *struct{}) error {
	if s.n.stopping.Load() {
		return errStopping // It moves all that it leads.
	}
	return s.n.transfer(t.Shard, t.Replica)
}

// Hold asks that requests of a shard wait for a time.
type Hold struct {
	Shard  uint64
	Holder uint64        // Of each hold another number.
	Time   time.Duration // 0: no longer.
}

// Hold returns once no request of the shard is under way here, or after a while.
func (s *Service) Hold(h Hold, _ *struct{}) error {
	s.n.hold(h)
	return nil
}

// InFlight returns how many requests of a shard are under way here.
func (s *Service) InFlight(shard uint64, reply *int) error {
	*reply = s.n.gates[shard].count()
	return nil
}

// streamRequest is a shard's number, the name of the cluster, and the number of a
// moment unless it is 0.
func (n *Node) streamRequest(shard, at uint64) string {
	request := strings.TrimSpace(fmt.Sprintf("%d %s", shard, n.cluster))
	if at != 0 {
		request = fmt.Sprintf("%d %s %d", shard, n.cluster, at)
	}
	return request + "\n"
}

// serveStream sends the contents of the shard that is asked for.
func (n *Node) serveStream(plain net.Conn) {
	conn := &watchedConn{Conn: plain, silence: streamSilence}
	reader := bufio.NewReader(conn)
	line, err := reader.ReadString('\n')
	if err != nil {
		return
	}
	words := strings.SplitN(line[:len(line)-1]+"  ", " ", 3)
	shard, err := strconv.ParseUint(words[0], 10, 64)
	if err != nil || words[1] != n.cluster {
		return
	}
	out := bufio.NewWriterSize(conn, 1<<16)
	var summary machine.Contents
	if at, bad := strconv.ParseUint(strings.TrimSpace(words[2]), 10, 64); bad == nil {
		summary, err = n.streamHeld(shard, at, out)
	} else {
		summary, err = n.streamHere(shard, out)
	}
	if err != nil { // The other side sees that the end is missing.
		slog.Warn("a shard was not sent to its end", "shard", shard, "error", err)
		return
	}
	fmt.Fprintf(out, "%d %d %d %d %d\n", summary.Applied, summary.Entries, summary.Sum,
		summary.Lasting, summary.LastingSum)
	out.Flush()
}
