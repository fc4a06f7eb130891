// Varve: a key-value storage engine. MIT licence, see LICENSE.
package node

import (
	"context"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"log/slog"
	"net"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/lni/dragonboat/v3/config"
	"github.com/lni/dragonboat/v3/raftio"
	pb "github.com/lni/dragonboat/v3/raftpb"
)

// dragonboat has a transport of its own. This one in its place differs in these
// ways. A connection that the other side has closed is noticed at once and made
// again, so that no message to a node that was restarted gets lost. What is sent
// and not acknowledged for some seconds ends the connection, since the pauses
// between attempts to send would otherwise grow as long as a partition. And
// dragonboat is not told which messages could not be sent. It would then hold back
// all messages to that node for up to 1.5 seconds, also when the node is up again,
// and replicas there begin elections.
//
// A message is its length and the CRC-32C of length and message, 4 bytes each,
// then the message.

const (
	dialTimeout     = time.Second
	unacknowledged  = 4 * time.Second
	sendTimeout     = 10 * time.Second
	maxMessageBytes = 256 << 20
	messageHeader   = 8
	redialPause     = 20 * time.Millisecond // After an attempt that has failed.
)

var errMessage = errors.New("a message from another node is damaged")

// transport is how nodes connect: plain TCP, or TLS if it is set.
type transport struct {
	dial   func(address string) (net.Conn, error)
	listen func(address string) (net.Listener, error)
}

const tcpUserTimeout = 18 // TCP_USER_TIMEOUT of Linux.

func setUserTimeout(_, _ string, raw syscall.RawConn) error {
	return raw.Control(func(fd uintptr) {
		// A system without it only needs longer to recover.
		syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, tcpUserTimeout, int(unacknowledged.Milliseconds()))
	})
}

func newDialer() *net.Dialer { return &net.Dialer{Timeout: dialTimeout, Control: setUserTimeout} }

func plainTransport() transport {
	return transport{
		dial: func(address string) (net.Conn, error) { return newDialer().Dial("tcp", address) },
		listen: func(address string) (net.Listener, error) {
			options := net.ListenConfig{Control: setUserTimeout}
			return options.Listen(context.Background(), "tcp", address)
		},
	}
}

// dialNode connects to another node.
func (n *Node) dialNode(address string, kind byte) (net.Conn, error) {
	conn, err := n.transport.dial(address)
	if err != nil {
		return nil, err
	}
	conn.SetWriteDeadline(time.Now().Add(sendTimeout))
	if _, err := conn.Write([]byte{kind}); err != nil {
		conn.Close()
		return nil, err
	}
	conn.SetWriteDeadline(time.Time{})
	return conn, nil
}

// raftTransport is for dragonboat. The node's listener serves it.
type raftTransport struct {
	n        *Node
	messages raftio.MessageHandler
	chunks   raftio.ChunkHandler
	// What dragonboat calls its own.
	deployment uint64
}

type transportFactory struct{ n *Node }

var _ config.TransportFactory = transportFactory{}

// Create is called once, before the node listens.
func (f transportFactory) Create(host config.NodeHostConfig, messages raftio.MessageHandler,
	chunks raftio.ChunkHandler) raftio.ITransport {
	f.n.raft = &raftTransport{f.n, messages, chunks, host.DeploymentID}
	return f.n.raft
}

func (f transportFactory) Validate(address string) bool {
	_, port, err := net.SplitHostPort(address)
	return err == nil && port != ""
}

func (t *raftTransport) Name() string { return "varve-node" }
func (t *raftTransport) Start() error { return nil }
func (t *raftTransport) Stop()        {}

func (t *raftTransport) GetConnection(_ context.Context, target string) (raftio.IConnection, error) {
	return &raftConnection{t: t, target: target, kind: kindMessages}, nil
}

func (t *raftTransport) GetSnapshotConnection(_ context.Context, target string) (raftio.ISnapshotConnection, error) {
	c := &raftConnection{t: t, target: target, kind: kindChunks}
	return c, c.dial()
}

// raftConnection sends messages to a node. One goroutine uses it.
type raftConnection struct {
	t        *raftTransport
	target   string
	kind     byte
	conn     net.Conn     // Nil while there is none.
	lost     *atomic.Bool // Whether the other side has closed it.
	failedAt time.Time    // When it could not be made.
	buffer   []byte
}

func (c *raftConnection) dial() error {
	conn, err := c.t.n.dialNode(c.target, c.kind)
	if err != nil {
		return err
	}
	lost := &atomic.Bool{}
	c.conn, c.lost = conn, lost
	go func() {
		var none [1]byte
		conn.Read(none[:]) // Nothing comes but the end.
		lost.Store(true)
	}()
	return nil
}

func (c *raftConnection) Close() {
	if c.conn != nil {
		c.conn.Close()
		c.conn = nil
	}
}

// SendMessageBatch returns no error if the node cannot be reached.
func (c *raftConnection) SendMessageBatch(batch pb.MessageBatch) error {
	batch.DeploymentId = c.t.n.wire
	c.deliver(batch.SizeUpperLimit(), batch.MarshalTo)
	return nil
}

// SendChunk sends a part of a snapshot.
func (c *raftConnection) SendChunk(chunk pb.Chunk) error {
	chunk.DeploymentId = c.t.n.wire
	return c.send(chunk.Size(), chunk.MarshalTo)
}

// deliver sends a message, on a new connection if need be. It says whether it has
// been sent; a message of which the end could not be sent is not taken there.
func (c *raftConnection) deliver(limit int, marshal func([]byte) (int, error)) bool {
	for tries := 0; tries < 2; tries++ {
		if c.conn == nil || c.lost.Load() {
			c.Close()
			if time.Since(c.failedAt) < redialPause {
				return false
			}
			if err := c.dial(); err != nil {
				c.failedAt = time.Now()
				slog.Debug("a node cannot be reached", "address", c.target, "error", err)
				return false
			}
		}
		err := c.send(limit, marshal)
		if err == nil {
			return true
		}
		slog.Debug("a message was not sent", "address", c.target, "error", err)
		c.Close()
	}
	return false
}

func (c *raftConnection) send(limit int, marshal func([]byte) (int, error)) error {
	if len(c.buffer) < messageHeader+limit {
		c.buffer = make([]byte, messageHeader+limit)
	}
	size, err := marshal(c.buffer[messageHeader:])
	if err != nil {
		return err
	}
	message := c.buffer[:messageHeader+size]
	binary.LittleEndian.PutUint32(message, uint32(size))
	binary.LittleEndian.PutUint32(message[4:], messageSum(message))
	if len(c.buffer) > 1<<20 {
		c.buffer = nil // Large ones are rare.
	}
	c.conn.SetWriteDeadline(time.Now().Add(sendTimeout))
	_, err = c.conn.Write(message)
	return err
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func messageSum(message []byte) uint32 {
	return crc32.Update(crc32.Checksum(message[:4], castagnoli), castagnoli, message[messageHeader:])
}

// readMessage reads one into the buffer, or a larger one.
func readMessage(from io.Reader, buffer []byte) (message, next []byte, err error) {
	if _, err := io.ReadFull(from, buffer[:messageHeader]); err != nil {
		return nil, buffer, err
	}
	size := int(binary.LittleEndian.Uint32(buffer))
	if size > maxMessageBytes {
		return nil, buffer, errMessage
	}
	if len(buffer) < messageHeader+size {
		buffer = append(make([]byte, 0, messageHeader+size), buffer[:messageHeader]...)[:messageHeader+size]
	}
	whole := buffer[:messageHeader+size]
	if _, err := io.ReadFull(from, whole[messageHeader:]); err != nil {
		return nil, buffer, err
	}
	if binary.LittleEndian.Uint32(whole[4:]) != messageSum(whole) {
		return nil, buffer, errMessage
	}
	return whole[messageHeader:], buffer, nil
}

// isOurs says whether a message is of a node of this cluster and layout. If so, it is
// given the number that dragonboat expects, which stays the same for ever.
func (t *raftTransport) isOurs(number *uint64) bool {
	ours := *number == t.n.wire
	if ours {
		*number = t.deployment
	}
	return ours
}

// serve hands dragonboat what comes from another node.
func (t *raftTransport) serve(kind byte, conn net.Conn) error {
	var buffer []byte
	for {
		if len(buffer) == 0 || len(buffer) > 1<<20 {
			buffer = make([]byte, 64<<10) // Large ones are rare.
		}
		var message []byte
		var err error
		if message, buffer, err = readMessage(conn, buffer); err != nil {
			return err
		}
		if kind == kindMessages {
			var batch pb.MessageBatch
			if err := batch.Unmarshal(message); err != nil {
				return err
			}
			if !t.isOurs(&batch.DeploymentId) {
				continue
			}
			t.n.noteLeaders(batch.Requests)
			t.messages(batch)
			continue
		}
		var chunk pb.Chunk
		if err := chunk.Unmarshal(message); err != nil {
			return err
		}
		if !t.isOurs(&chunk.DeploymentId) || !t.chunks(chunk) {
			return errors.New("a part of a snapshot was refused")
		}
	}
}
