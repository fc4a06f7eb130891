// Varve: a key-value storage engine. MIT licence, see LICENSE.

// Goal: a node that cannot be reached, is slow or says nothing costs its callers
// a bounded time, and others nothing. Method: connections to servers made here.

package node

import (
	"errors"
	"io"
	"net"
	"net/rpc"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"varve.example/replicated/check"
)

func caller(t *testing.T) *Node {
	n := &Node{transport: plainTransport(), stop: make(chan struct{})}
	t.Cleanup(func() {
		n.peers.clients.Range(func(_, client any) bool { return client.(*peer).Close() == nil })
	})
	return n
}

// kept is the connection to an address, nil if there is none.
func (n *Node) kept(address string) any {
	client, _ := n.peers.clients.Load(address)
	return client
}

func TestWaitersShareAFailureToConnect(t *testing.T) {
	n := caller(t)
	var dials atomic.Int32
	n.transport.dial = func(string) (net.Conn, error) {
		dials.Add(1)
		time.Sleep(300 * time.Millisecond)
		return nil, errors.New("no answer")
	}
	var group sync.WaitGroup
	for i := 0; i < 50; i++ {
		group.Add(1)
		go func() {
			defer group.Done()
			if err := n.callAt("host", "Fast", 0, new(int), time.Second); !errors.Is(err, errNotSent) {
				t.Error(err)
			}
		}()
	}
	group.Wait()
	check.FatalIf(t, dials.Load() > 5, "it was dialled %d times", dials.Load())
	// A later call tries again.
	before := dials.Load()
	n.callAt("host", "Fast", 0, new(int), time.Second)
	check.FatalIf(t, dials.Load() != before+1, "a failure was kept")
}

// pace answers after milliseconds.
type pace struct{}

func (pace) Wait(milliseconds int, reply *int) error {
	time.Sleep(time.Duration(milliseconds) * time.Millisecond)
	*reply = milliseconds
	return nil
}

// accept hands the connections to this address to serve, after their kind.
func accept(t *testing.T, serve func(net.Conn)) (address string) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	check.OK(t, err)
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				io.ReadFull(conn, make([]byte, 1))
				serve(conn)
			}()
		}
	}()
	return listener.Addr().String()
}

// servePace serves pace at this address. cut ends the last connection.
func servePace(t *testing.T) (address string, cut func()) {
	server := rpc.NewServer()
	check.OK(t, server.RegisterName("Service", pace{}))
	var last atomic.Pointer[net.Conn]
	address = accept(t, func(conn net.Conn) {
		last.Store(&conn)
		server.ServeConn(conn)
	})
	return address, func() { (*last.Load()).Close() }
}

// As if the other node had been restarted since the last call.
func TestACallMakesALostConnectionAgain(t *testing.T) {
	address, cut := servePace(t)
	n := caller(t)
	for i := 0; i < 3; i++ {
		if err := n.callAt(address, "Wait", 0, new(int), time.Minute); err != nil {
			t.Fatalf("call %d: %v", i, err)
		}
		cut()
		time.Sleep(100 * time.Millisecond) // Until this side has seen it.
	}
}

// Whoever is told that a call was not sent may send it again elsewhere. Method:
// many calls at a time while the connection ends.
func TestACallThatWasNotSentSaysSo(t *testing.T) {
	address, cut := servePace(t)
	n := caller(t)
	for round := 0; round < 100; round++ {
		// It may be sent before this side sees that the connection was cut.
		if err := n.callAt(address, "Wait", 0, new(int), time.Minute); errors.Is(err, rpc.ErrShutdown) {
			t.Fatal(err)
		}
		var group sync.WaitGroup
		for i := 0; i < 8; i++ {
			group.Add(1)
			go func() {
				defer group.Done()
				for j := 0; j < 5; j++ {
					if err := n.callAt(address, "Wait", 0, new(int), time.Minute); errors.Is(err, rpc.ErrShutdown) {
						t.Error(err)
					}
				}
			}()
		}
		cut()
		group.Wait()
	}
}

func TestASlowCallHarmsNoOthers(t *testing.T) {
	t.Parallel()
	address, _ := servePace(t)
	n := caller(t)
	wait := func(milliseconds int, limit time.Duration) error {
		return n.callAt(address, "Wait", milliseconds, new(int), limit)
	}
	check.OK(t, wait(0, time.Minute))
	first := n.kept(address)
	other := make(chan error)
	go func() { other <- wait(2000, time.Minute) }()
	go func() {
		time.Sleep(200 * time.Millisecond)
		other <- wait(0, time.Minute)
	}()
	check.FatalIf(t, wait(60000, time.Second) == nil, "a slow call has ended")
	for i := 0; i < 2; i++ {
		if err := <-other; err != nil {
			t.Fatalf("a slow call has cut others: %v", err)
		}
	}
	check.FatalIf(t, n.kept(address) != first, "the connection was replaced")
	// Now nothing comes.
	if err := wait(60000, 100*time.Millisecond); err == nil || n.kept(address) != nil {
		t.Fatalf("a silent connection was kept: %v", err)
	}
}

func TestAStreamEndsIfNothingComes(t *testing.T) {
	one, other := net.Pipe()
	defer other.Close()
	begin := time.Now()
	conn := &watchedConn{Conn: one, silence: 200 * time.Millisecond}
	go func() {
		for i := 0; i < 5; i++ {
			time.Sleep(100 * time.Millisecond)
			other.Write([]byte("x"))
		}
	}()
	data, err := io.ReadAll(conn)
	var timeout net.Error
	check.FatalIf(t, !errors.As(err, &timeout) || !timeout.Timeout() || len(data) != 5, "%q %v", data, err)
	if took := time.Since(begin); took < 600*time.Millisecond {
		t.Fatalf("a stream that goes on was ended after %v", took)
	}
	if _, err := conn.Write([]byte("x")); !errors.As(err, &timeout) || !timeout.Timeout() {
		t.Fatal(err)
	}
}

func TestAStoppingNodeEndsStreamsOfOthers(t *testing.T) {
	address := accept(t, func(conn net.Conn) { io.Copy(io.Discard, conn) }) // It says nothing.
	n := caller(t)
	conn, err := n.dialNode(address, kindStream)
	check.OK(t, err)
	ended := make(chan error)
	go func() {
		_, err := n.streamFrom(conn, 1, 0, io.Discard)
		ended <- err
	}()
	time.Sleep(50 * time.Millisecond)
	close(n.stop)
	select {
	case err := <-ended:
		check.FatalIf(t, err == nil, "there was no stream")
	case <-time.After(10 * time.Second):
		t.Fatal("it waits for a stream")
	}
}
