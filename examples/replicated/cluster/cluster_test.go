// Varve: a key-value storage engine. MIT licence, see LICENSE.

// Goal: what is acknowledged stays, and is seen by all who ask later, whatever
// happens to single nodes. Method: three real processes on loopback; clients
// whose every step is recorded; nodes that are killed, paused and started again
// at random; porcupine decides whether the history could be that of one machine
// that does one step after the other. Final reads of every key are part of it,
// so that an acknowledged write that got lost is seen.
package cluster

import (
	"flag"
	"fmt"
	"math/rand"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

var (
	nodeProgram = flag.String("node", "", "the program varve-node, by an absolute path")
	duration    = flag.Duration("duration", 2*time.Minute, "of random faults")
	checkTime   = flag.Duration("check-time", 5*time.Minute, "for checking the history")
	seed        = flag.Int64("seed", 0, "of faults and clients; 0 for one from the clock")
	clients     = flag.Int("clients", 12, "that ask at a time")
	shards      = flag.Int("shards", 8, "of the cluster")
	keep        = flag.String("keep", "", "a directory for the nodes' data, not removed")
)

func TestMain(m *testing.M) {
	flag.Parse()
	if *seed == 0 {
		*seed = time.Now().UnixNano()
	}
	if *nodeProgram == "" {
		fmt.Println("cluster: no -node: examples/replicated/test says how to run this")
		os.Exit(2)
	}
	os.Exit(m.Run())
}

const (
	keysAtATime = 24
	// Keys give way to new ones, since the check's time grows fast with the
	// steps of a key. Some stay from begin to end, for rare steps.
	keyLifetime = 3 * time.Second
	pace        = 4 * time.Millisecond // Between two steps of a client.
)

func keyOf(random *rand.Rand, age time.Duration) string {
	if random.Intn(50) == 0 {
		return fmt.Sprintf("stays-%d", random.Intn(keysAtATime))
	}
	return fmt.Sprintf("key-%d-%d", age/keyLifetime, random.Intn(keysAtATime))
}

// runClient takes steps until it is stopped.
func runClient(c *cluster, h *history, id int, stop *atomic.Bool) {
	random := rand.New(rand.NewSource(*seed + int64(id)))
	var connection *client
	for number := 0; !stop.Load(); number++ {
		time.Sleep(pace)
		if connection == nil {
			var err error
			address := c.nodes[random.Intn(len(c.nodes))].client
			if connection, err = dial(address, 5*time.Second); err != nil {
				continue
			}
		}
		s := step{key: keyOf(random, time.Since(h.begin))}
		switch choice := random.Intn(10); {
		case choice == 0:
			s.action = doDelete
		case choice < 5:
			s.action = doSet
			s.value = fmt.Sprintf("%d.%d", id, number)
		}
		if err := h.do(connection, id, s); err != nil && (!isRefusal(err) || random.Intn(2) == 0) {
			connection.conn.Close()
			connection = nil
		}
	}
	if connection != nil {
		connection.conn.Close()
	}
}

// harm does a random thing to random nodes, and makes it good again.
func harm(c *cluster, random *rand.Rand, counts map[string]int) {
	time.Sleep(time.Duration(random.Intn(1500)) * time.Millisecond)
	p := c.nodes[random.Intn(len(c.nodes))]
	for _, one := range c.nodes {
		if one.exited() {
			c.t.Fatalf("node %d has ended by itself", one.id)
		}
	}
	wait := time.Duration(100+random.Intn(3000)) * time.Millisecond
	switch choice := random.Intn(20); {
	case choice < 9:
		counts["kill"]++
		p.kill()
		time.Sleep(wait)
		c.start(p)
	case choice < 17:
		counts["pause"]++
		p.pause(true)
		time.Sleep(wait)
		p.pause(false)
	case choice < 19:
		counts["kill while another one is paused"]++
		second := c.nodes[p.id%len(c.nodes)]
		second.pause(true)
		p.kill()
		time.Sleep(wait)
		c.start(p)
		second.pause(false)
	default:
		counts["kill all"]++
		for _, one := range c.nodes {
			one.kill()
		}
		for _, one := range c.nodes {
			c.start(one)
		}
	}
}

func TestIsLinearizableWhateverHappensToNodes(t *testing.T) {
	t.Logf("seed %d", *seed)
	c := newCluster(t)
	h := &history{begin: time.Now()}
	var stop atomic.Bool
	var group sync.WaitGroup
	for id := 0; id < *clients; id++ {
		group.Add(1)
		go func() {
			defer group.Done()
			runClient(c, h, id, &stop)
		}()
	}
	random := rand.New(rand.NewSource(*seed - 1))
	counts := map[string]int{}
	for time.Since(h.begin) < *duration {
		harm(c, random, counts)
	}
	stop.Store(true)
	group.Wait()
	t.Logf("harm done: %v", counts)
	for _, p := range c.nodes {
		c.await(p)
	}
	readAll(c, h)
	c.expectEqual()
	h.check(t)
	c.checkFiles()
}

// readAll reads every key that was ever used, each from some node.
func readAll(c *cluster, h *history) {
	c.t.Helper()
	keys := map[string]bool{}
	for _, operation := range h.operations {
		keys[operation.Input.(step).key] = true
	}
	var connections []*client
	for _, p := range c.nodes {
		connection, err := dial(p.client, 10*time.Second)
		if err != nil {
			c.t.Fatal(err)
		}
		defer connection.conn.Close()
		connections = append(connections, connection)
	}
	number := 0
	for key := range keys {
		for attempt := 1; ; attempt++ {
			number++
			err := h.do(connections[number%len(connections)], *clients, step{doGet, key, ""})
			if err == nil {
				break
			}
			if attempt == 5 || !isRefusal(err) {
				c.t.Fatalf("final read of %s: %v", key, err)
			}
		}
	}
	c.t.Logf("%d keys read at the end", len(keys))
}

// A node that has lost its directory has also lost what it promised the others;
// it comes back under a new number, which gets all by a stream.
func TestWipedNodeComesBackByAStream(t *testing.T) {
	c := newCluster(t)
	value := strings.Repeat("v", 1000)
	fill, err := dial(c.nodes[0].client, 10*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	defer fill.conn.Close()
	for i := 0; i < 200; i++ {
		words := []string{"MSET"}
		for j := 0; j < 100; j++ {
			words = append(words, fmt.Sprintf("old-%d-%d", i, j), value)
		}
		if err := fill.insist(words...); err != nil {
			t.Fatal(err)
		}
	}
	var stop atomic.Bool
	var written atomic.Int64
	var group sync.WaitGroup
	group.Add(1)
	go func() {
		defer group.Done()
		for i := 0; !stop.Load(); i++ {
			if err := fill.insist("SET", fmt.Sprintf("new-%d", i), value); err != nil {
				t.Error("a write has failed:", err)
				return
			}
			written.Add(1)
		}
	}()
	for written.Load() < 5000 && !t.Failed() {
		time.Sleep(10 * time.Millisecond) // So that logs are cut.
	}
	wiped := c.nodes[2]
	wiped.kill()
	if err := os.RemoveAll(wiped.dir); err != nil {
		t.Fatal(err)
	}
	before := written.Load()
	for written.Load() == before && !t.Failed() {
		time.Sleep(10 * time.Millisecond) // Two of three nodes are enough.
	}
	if _, err := ask(c.nodes[1].client, time.Minute, "NODE.REPLACE", "3", "4", wiped.address); err != nil {
		t.Fatal(err)
	}
	wiped.id, wiped.first = 4, "--join"
	c.start(wiped)
	c.await(wiped)
	info, err := ask(wiped.client, 10*time.Second, "INFO")
	if err != nil || strings.Contains(fmt.Sprint(info), "snapshots_received:0\r") {
		t.Fatalf("no stream has come: %v %v", info, err)
	}
	during := written.Load() - before
	stop.Store(true)
	group.Wait()
	t.Logf("%d writes while the node was down, replaced and filled", during)
	size, err := ask(wiped.client, 10*time.Second, "DBSIZE")
	if err != nil || size != 20000+written.Load() {
		t.Fatalf("%v entries, not %d: %v", size, 20000+written.Load(), err)
	}
	c.expectEqual()
	c.checkFiles()
}
