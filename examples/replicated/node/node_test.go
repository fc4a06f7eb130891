// Varve: a key-value storage engine. MIT licence, see LICENSE.

// Goal: replicas are placed evenly and never twice on a node, whatever is
// drained, removed and added; requests survive the way to another node; a node
// learns the directory again.
// Method: the directory alone, under random commands; single pieces; two nodes.

package node

import (
	"bytes"
	"context"
	"encoding/gob"
	"fmt"
	"io"
	"math/rand"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	pb "github.com/lni/dragonboat/v3/raftpb"

	"varve.example/replicated/check"
	"varve.example/replicated/storage"
)

func testPeers(count int) map[uint64]string {
	peers := map[uint64]string{}
	for i := 1; i <= count; i++ {
		peers[uint64(i)] = fmt.Sprintf("host%d:7000", i)
	}
	return peers
}

func everybody(uint64) bool { return true }

// checkTargets checks that each shard has as many targets as there can be.
func checkTargets(t *testing.T, d *Directory) {
	t.Helper()
	usable := len(d.load())
	for shard, place := range d.Places {
		if count := len(place.Targets); count < min(d.Replicas, usable) || count > d.Replicas {
			t.Fatalf("shard %d has the targets %v of %d usable nodes", shard, place.Targets, usable)
		}
		draining, seen := 0, map[uint64]bool{}
		for _, target := range place.Targets {
			check.FatalIf(t, seen[target] || d.Nodes[target] == nil, "shard %d has the targets %v", shard, place.Targets)
			if seen[target] = true; !d.usable(target) {
				draining++
			}
		}
		check.FatalIf(t, draining > max(0, d.Replicas-usable), "shard %d is on nodes that are draining: %v", shard, place.Targets)
	}
}

func TestTargetsAreEvenWhateverIsAsked(t *testing.T) {
	random := rand.New(rand.NewSource(1))
	for round := 0; round < 200; round++ {
		d := newDirectory(testPeers(1+random.Intn(6)), uint64(1+random.Intn(30)), 1+random.Intn(4))
		checkTargets(t, d)
		for step := 0; step < 20; step++ {
			numbers := d.numbers()
			one := numbers[random.Intn(len(numbers))]
			switch random.Intn(5) {
			case 0:
				d.LastNode++
				d.Nodes[d.LastNode] = &NodeRecord{Address: fmt.Sprint(d.LastNode)}
			case 1:
				d.Nodes[one].Draining = !d.Nodes[one].Draining
			case 2:
				if len(numbers) > 1 {
					delete(d.Nodes, one)
				}
			case 3:
				d.spread(everybody)
				least, most := 1<<30, 0
				for _, load := range d.load() {
					least, most = min(least, load), max(most, load)
				}
				if most-least > 1 && len(d.load()) >= d.Replicas {
					t.Fatalf("not even: %v", d.load())
				}
			}
			d.heal(everybody)
			checkTargets(t, d)
			check.FatalIf(t, d.heal(everybody), "what was healed is healed again")
		}
	}
}

func TestSpreadMovesNoMoreThanItMust(t *testing.T) {
	d := newDirectory(testPeers(3), 8, 3)
	d.Nodes[4] = &NodeRecord{Address: "host4:7000"}
	before := d.copy()
	d.spread(everybody)
	moved := 0
	for shard, place := range d.Places {
		for _, target := range place.Targets {
			if !contains(before.Places[shard].Targets, target) {
				moved++
			}
		}
	}
	if moved != 6 { // 24 replicas are 6 for each node.
		t.Fatalf("%d replicas are moved, not 6", moved)
	}
}

func TestReplicasGoToNodesThatAreAlive(t *testing.T) {
	d := newDirectory(testPeers(6), 8, 3)
	delete(d.Nodes, 1)
	d.heal(func(number uint64) bool { return number != 6 })
	for shard, place := range newDirectory(testPeers(6), 8, 3).Places {
		if !contains(place.Targets, 6) && contains(d.Places[shard].Targets, 6) {
			t.Fatalf("shard %d goes to a silent node: %v", shard, d.Places[shard].Targets)
		}
	}
	checkTargets(t, d)
}

func TestTheFirstDirectoryIsTheSameForAll(t *testing.T) {
	for i := 0; i < 10; i++ {
		if !reflect.DeepEqual(newDirectory(testPeers(5), 16, 3), newDirectory(testPeers(5), 16, 3)) {
			t.Fatal("two nodes compute different ones")
		}
	}
}

func TestChangesOfAnOldDirectoryAreRefused(t *testing.T) {
	adopted := 0
	m := &directoryMachine{&Directory{}, func(*Directory) { adopted++ }}
	first := []byte(`{"From":0,"To":{"Shards":4}}`)
	for i, want := range []uint64{changeDone, changeConflict} {
		result, err := m.Update(first)
		check.FatalIf(t, err != nil || result.Value != want, "%d: %v %v", i, result, err)
	}
	if result, _ := m.Update([]byte("{")); result.Value != 0 {
		t.Fatal("what cannot be read was accepted")
	}
	var saved bytes.Buffer
	check.OK(t, m.SaveSnapshot(&saved, nil, nil))
	other := &directoryMachine{&Directory{}, func(*Directory) { adopted++ }}
	if err := other.RecoverFromSnapshot(&saved, nil, nil); err != nil || !reflect.DeepEqual(m.current, other.current) {
		t.Fatalf("%v: %v, not %v", err, other.current, m.current)
	}
	check.FatalIf(t, adopted != 2 || m.current.Revision != 1 || m.current.Shards != 4, "%v %v", adopted, m.current)
}

func TestValuesSurviveTheWay(t *testing.T) {
	for _, list := range [][][]byte{nil, {}, {nil}, {{}}, {[]byte("a"), nil, {}, []byte("b")}} {
		var way bytes.Buffer
		check.OK(t, gob.NewEncoder(&way).Encode(Reply{Answer: pack(list)}))
		var reply Reply
		check.OK(t, gob.NewDecoder(&way).Decode(&reply))
		got := unpack(reply.Answer).([][]byte)
		check.FatalIf(t, len(got) != len(list), "%v, not %v", got, list)
		for i := range list {
			check.FatalIf(t, (got[i] == nil) != (list[i] == nil) || !bytes.Equal(got[i], list[i]), "%v, not %v", got, list)
		}
	}
}

func TestAGateWaitsForRequestsUnderWay(t *testing.T) {
	g := &gate{}
	g.enter()
	held := make(chan struct{})
	go func() {
		g.hold(1, time.Minute)
		close(held)
	}()
	passed := make(chan struct{})
	for g.count() == 1 {
		select {
		case <-held:
			t.Fatal("it did not wait")
		case <-time.After(20 * time.Millisecond):
		}
		break
	}
	go func() {
		g.enter()
		close(passed)
	}()
	select {
	case <-passed:
		t.Fatal("a request has passed")
	case <-time.After(50 * time.Millisecond):
	}
	g.leave()
	<-held
	g.hold(2, time.Minute) // In place of the first one, whose end lets nobody pass.
	g.release(1)
	select {
	case <-passed:
		t.Fatal("a request has passed")
	case <-time.After(50 * time.Millisecond):
	}
	g.release(2)
	<-passed
	g.hold(3, 50*time.Millisecond) // Does not wait for ever for the one above.
	g.leave()
	g.enter() // It opens by itself.
	g.leave()
}

func TestAGateThatIsShutSendsAllElsewhere(t *testing.T) {
	g := &gate{}
	g.hold(1, time.Minute)
	waiting := make(chan bool)
	go func() { waiting <- g.enter() }()
	select {
	case <-waiting:
		t.Fatal("it did not wait")
	case <-time.After(50 * time.Millisecond):
	}
	g.shutDown()
	check.FatalIf(t, <-waiting, "who waited has passed")
	g.hold(2, time.Minute)
	check.FatalIf(t, g.enter() || g.count() != 0, "a request has passed")
}

func TestMessagesAreWholeOrRefused(t *testing.T) {
	client, server := net.Pipe()
	c := &raftConnection{conn: client, lost: &atomic.Bool{}}
	want := bytes.Repeat([]byte("message"), 20000)
	go func() {
		for size := 0; size <= len(want); size += len(want) / 4 {
			c.send(len(want), func(to []byte) (int, error) { return copy(to, want[:size]), nil })
		}
		client.Close()
	}()
	sent, err := io.ReadAll(server)
	check.OK(t, err)
	buffer := make([]byte, 100)
	from := bytes.NewReader(sent)
	for size := 0; size <= len(want); size += len(want) / 4 {
		var message []byte
		if message, buffer, err = readMessage(from, buffer); err != nil || !bytes.Equal(message, want[:size]) {
			t.Fatalf("%d bytes, not %d: %v", len(message), size, err)
		}
	}
	random := rand.New(rand.NewSource(1))
	first := sent[messageHeader : 2*messageHeader+len(want)/4] // After the empty one.
	for i := 0; i < 100; i++ {
		damaged := append([]byte(nil), first...)
		damaged[random.Intn(len(damaged))] ^= 1 << random.Intn(8)
		if _, _, err := readMessage(bytes.NewReader(damaged), make([]byte, 100)); err == nil {
			t.Fatal("a damaged message was accepted")
		}
	}
}

func TestAMessageThatCannotBeSentIsNoError(t *testing.T) {
	transport := &raftTransport{n: &Node{transport: plainTransport()}}
	c, err := transport.GetConnection(context.Background(), freeAddress(t))
	check.OK(t, err)
	defer c.Close()
	for i := 0; i < 3; i++ {
		check.OK(t, c.SendMessageBatch(pb.MessageBatch{}))
		time.Sleep(2 * redialPause)
	}
}

func TestAConnectionThatWasClosedIsMadeAgain(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	check.OK(t, err)
	defer listener.Close()
	n := &Node{transport: plainTransport()}
	c := &raftConnection{t: &raftTransport{n: n}, target: listener.Addr().String(), kind: kindMessages}
	defer c.Close()
	deliver := func() {
		t.Helper()
		check.FatalIf(t, !c.deliver(2, func(to []byte) (int, error) { return copy(to, "hi"), nil }), "it was not sent")
	}
	deliver()
	for round := 0; round < 3; round++ {
		conn, err := listener.Accept()
		check.OK(t, err)
		conn.Close()
		for !c.lost.Load() {
			time.Sleep(time.Millisecond)
		}
		deliver()
	}
	conn, err := listener.Accept()
	check.OK(t, err)
	defer conn.Close()
	var kind [1]byte
	if _, err := io.ReadFull(conn, kind[:]); err != nil || kind[0] != kindMessages {
		t.Fatal(kind, err)
	}
	if message, _, err := readMessage(conn, make([]byte, 8)); err != nil || string(message) != "hi" {
		t.Fatalf("%q %v", message, err)
	}
}

var (
	ports    sync.Mutex
	lastPort = 20000 + os.Getpid()%4000
)

// freeAddress is another one each time, and not of the ports that the system
// gives to programs that connect.
func freeAddress(t *testing.T) string {
	ports.Lock()
	defer ports.Unlock()
	for {
		lastPort = 20000 + (lastPort-20000+1)%5000
		listener, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", lastPort))
		if err == nil {
			defer listener.Close()
			return listener.Addr().String()
		}
	}
}

func startNode(t *testing.T, options Options) *Node {
	options.Create = len(options.Peers) > 0
	options.SnapshotEntries = 1000
	if options.RoundMS == 0 {
		options.RoundMS = 20
	}
	if options.Timeout == 0 {
		options.Timeout = 10 * time.Second
	}
	n, err := Start(options)
	check.OK(t, err)
	return n
}

func awaitDirectory(t *testing.T, n *Node) {
	t.Helper()
	await(t, fmt.Sprintf("node %d knows a directory", n.Number()), func() bool { return n.Directory().Revision > 0 })
}

// As if it were killed between its joining and its recording the directory.
func TestANodeThatKnowsNobodyIsToldTheDirectory(t *testing.T) {
	address := freeAddress(t)
	first := startNode(t, Options{
		ID: 1, Address: address, Peers: map[uint64]string{1: address}, Shards: 2, Replicas: 1, Dir: t.TempDir(),
	})
	defer first.Stop()
	awaitDirectory(t, first)
	joins := Options{Address: freeAddress(t), Join: address, Dir: t.TempDir()}
	startNode(t, joins).Stop()
	engine, err := storage.OpenEngine(filepath.Join(joins.Dir, "data"), storage.DefaultOptions)
	check.OK(t, err)
	records, err := storage.OpenNode(engine, 2)
	check.OK(t, err)
	if text, err := records.Record(directoryKey); err != nil || text == "" {
		t.Fatalf("the directory was not recorded: %v", err)
	}
	check.OK(t, records.SetRecord(directoryKey, ""))
	records.Close()
	second := startNode(t, joins)
	defer second.Stop()
	awaitDirectory(t, second)
}
