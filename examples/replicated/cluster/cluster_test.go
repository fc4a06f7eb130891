// Varve: a key-value storage engine. MIT licence, see LICENSE.

// Goal: what is acknowledged stays, and is seen by all who ask later, whatever
// happens to nodes, their network and their disks. Method: real processes, each
// with a network and a disk of its own where the system allows it; clients
// whose every step is recorded, some of them libraries of Redis Cluster; faults
// at random, while nodes join and leave; porcupine decides whether the history
// could be that of one machine that does one step after the other. Final reads of
// every key are part of it, so that an acknowledged write that got lost is seen.
package cluster

import (
	"flag"
	"fmt"
	"math/rand"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

var (
	nodeProgram     = flag.String("node", "", "the program varve-node, by an absolute path")
	duration        = flag.Duration("duration", 2*time.Minute, "of random faults")
	checkTime       = flag.Duration("check-time", 5*time.Minute, "for checking the history")
	seed            = flag.Int64("seed", 0, "of faults and clients; 0 for one from the clock")
	clients         = flag.Int("clients", 12, "that ask at a time")
	shards          = flag.Int("shards", 8, "of the cluster")
	backupMegabytes = flag.Int("backup-megabytes", 20, "of contents for the backup")
	moveNodes       = flag.Bool("moves", true, "whether nodes join and leave during the faults")
	verbose         = flag.Bool("moves-verbose", false, "whether to log moves that were not done in time")
	nodeFlags       = flag.String("node-flags", "", "further flags of the nodes, with spaces between")
	movePause       = flag.Duration("move-pause", 4*time.Second, "of load before nodes are moved, and after")
	restarts        = flag.Int("restarts", 1, "of each node, one after the other")
	largeValues     = flag.Int("large-values", 20, "of 16 MiB, written and deleted before nodes are restarted")
	moveMegabytes   = flag.Int("move-megabytes", 20, "of contents when nodes are moved")
	keep            = flag.String("keep", "", "a directory for the nodes' data, not removed")
)

func TestMain(m *testing.M) {
	flag.Parse()
	if testing.Short() {
		*movePause, *backupMegabytes, *moveMegabytes, *largeValues = time.Second, 5, 5, 6
		flag.Parse() // What is given stays.
	}
	if *seed == 0 {
		*seed = time.Now().UnixNano()
	}
	if *nodeProgram == "" {
		fmt.Println("cluster: no -node: examples/replicated/test says how to run this")
		os.Exit(2)
	}
	if noSandbox = enterSandbox(); noSandbox == "" {
		if err := setUpSandbox(); err != nil {
			noSandbox = err.Error()
		}
	}
	os.Exit(m.Run())
}

// noSandbox is why there are no faults of the network and of disks.
var noSandbox string

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

// draw returns a client's next step.
func draw(h *history, random *rand.Rand, id, number int) step {
	s := step{key: keyOf(random, time.Since(h.begin))}
	switch choice := random.Intn(10); {
	case choice == 0:
		s.action = doDelete
	case choice < 5:
		s.action = doSet
		s.value = fmt.Sprintf("%d.%d", id, number)
	}
	return s
}

// runClient takes steps until it is stopped. Every second client follows MOVED itself.
func runClient(c *cluster, h *history, id int, stop *atomic.Bool, own *library) {
	random := rand.New(rand.NewSource(*seed + int64(id)))
	var connection *client
	last := time.Now()
	for number := 0; !stop.Load(); number++ {
		time.Sleep(pace)
		if connection == nil {
			var err error
			nodes := c.list()
			node := nodes[random.Intn(len(nodes))]
			address := node.client
			if id%2 == 1 {
				address = node.door
			}
			if connection, err = dial(address, 5*time.Second); err != nil {
				own.countCall(err, time.Since(last))
				continue
			}
		}
		err := h.do(connection, id, draw(h, random, id, number))
		own.countCall(err, time.Since(last))
		if err == nil {
			last = time.Now()
		} else if !isRefusal(err) || random.Intn(2) == 0 {
			connection.conn.Close()
			connection = nil
		}
	}
	if connection != nil {
		connection.conn.Close()
	}
}

func TestIsLinearizableWhateverHappens(t *testing.T) {
	t.Parallel()
	t.Logf("seed %d", *seed)
	c := &cluster{t: t, dir: t.TempDir(), flags: strings.Fields(*nodeFlags), doors: true}
	if noSandbox == "" {
		var err error
		if c.network, err = newNetwork(); err != nil {
			t.Fatal(err)
		}
		password := filepath.Join(c.dir, "password")
		if err := os.WriteFile(password, []byte(testPassword+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		c.flags = append(c.flags, "--password-file="+password)
	} else {
		t.Logf("faults of the network and of disks are not drawn: %s", noSandbox)
	}
	if c.network != nil {
		if err := checkDisks(); err != nil {
			t.Logf("faults of disks are not drawn: %v", err)
		} else {
			c.disks = true
		}
	}
	c.flags = append(c.flags, "--max-staleness="+maxStaleness.String())
	flags := c.flags
	if !testing.Short() {
		c.flags = append(c.flags, "--balance-pause=3s")
	}
	c.prepare()
	c.startFirst(3)
	h := &history{begin: time.Now()}
	var stop atomic.Bool
	var group sync.WaitGroup
	start := func(run func()) {
		group.Add(1)
		go func() {
			defer group.Done()
			run()
		}()
	}
	libraries := newLibraries(c)
	id := *clients // Theirs are the highest numbers.
	for _, l := range libraries {
		for _, client := range l.clients {
			id--
			number := id
			start(func() { l.run(h, client, number, &stop) })
		}
	}
	own := []*library{newLibrary("the test's own clients"), newLibrary("the test's own clients at the cluster port")}
	for id--; id >= 0; id-- {
		number := id
		start(func() { runClient(c, h, number, &stop, own[number%2]) })
	}
	stale := newStaleReads()
	start(func() { stale.write(c, &stop) })
	start(func() { stale.read(c, &stop) })
	harm := &harm{c: c, random: rand.New(rand.NewSource(*seed - 1)), counts: map[string]int{}, ended: map[*process]bool{}}
	still := make(chan struct{})
	var moves sync.WaitGroup
	if *moveNodes {
		moves.Add(1)
		go func() {
			defer moves.Done()
			harm.move(still)
		}()
	}
	for time.Since(h.begin) < *duration {
		harm.do()
	}
	close(still)
	moves.Wait()
	harm.heal()
	stop.Store(true)
	group.Wait()
	harm.log(t)
	for _, l := range append(own, libraries...) {
		l.log(t)
	}
	stale.expectRight(t)
	if c.network != nil {
		t.Logf("%d packets passed on, %d not", c.network.passed.Load(), c.network.dropped.Load())
	}
	if !testing.Short() { // What is compared is where it belongs, and stays there.
		c.flags = flags
		for _, p := range c.nodes {
			p.terminate()
			c.start(p)
		}
	}
	for _, p := range c.nodes {
		c.await(p)
	}
	c.settle()
	for at, l := range libraries {
		start(func() { l.expectWorking(t, h, *clients+1+at) })
	}
	group.Wait()
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
	t.Parallel()
	c := newCluster(t, 3, "--snapshot-entries=100")
	value := strings.Repeat("v", 1000)
	fill, err := dial(c.nodes[0].client, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	defer fill.conn.Close()
	const old = 50
	for i := 0; i < old; i++ {
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
	for written.Load() < 1500 && !t.Failed() {
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
	// As a new node with the old number it is refused, whatever it is told.
	for _, wiped.create = range []bool{false, true} {
		c.start(wiped)
		if err := wiped.command.Wait(); err == nil {
			t.Fatal("a node has come back without its votes")
		}
		wiped.command = nil
		if err := os.RemoveAll(wiped.dir); err != nil {
			t.Fatal(err)
		}
	}
	c.admin(c.nodes[1], "NODE.REMOVE", "3")
	wiped.id, wiped.first = 4, "--join="+c.nodes[0].address
	c.start(wiped)
	c.await(wiped)
	c.settle()
	info, err := ask(wiped.client, 10*time.Second, "INFO")
	if err != nil || strings.Contains(fmt.Sprint(info), "snapshots_received:0\r") {
		t.Fatalf("no stream has come: %v %v", info, err)
	}
	during := written.Load() - before
	stop.Store(true)
	group.Wait()
	t.Logf("%d writes while the node was down, replaced and filled", during)
	size, err := ask(wiped.client, 10*time.Second, "DBSIZE")
	if err != nil || size != 100*old+written.Load() {
		t.Fatalf("%v entries, not %d: %v", size, 100*old+written.Load(), err)
	}
	c.expectEqual()
	c.checkFiles()
}

func TestANodeThatFindsNobodyToJoinCanBeStopped(t *testing.T) {
	c := &cluster{t: t, dir: t.TempDir()}
	p := c.add()
	p.first = fmt.Sprintf("--join=127.0.0.1:%d", freePorts(t, 1)[0])
	c.start(p)
	defer p.kill()
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		if log, _ := os.ReadFile(p.dir + ".log"); strings.Contains(string(log), "joining") {
			break
		}
		if time.Now().After(end) {
			t.Fatal("it does not try")
		}
	}
	begin := time.Now()
	p.terminate()
	if took := time.Since(begin); took > 5*time.Second {
		t.Fatalf("it has taken %v", took)
	}
}

// A clock that is wrong decides on what its node is asked, and on nothing else.
func TestAWrongClockDecidesOnExpiryOnly(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	if _, err := ask(c.nodes[0].client, 10*time.Second, "SET", "key", "value", "EX", "600"); err != nil {
		t.Fatal(err)
	}
	c.nodes[1].setClock(t, time.Hour)
	for i, expected := range []interface{}{"value", nil, "value"} {
		answer, err := ask(c.nodes[i].client, 10*time.Second, "GET", "key")
		if err != nil || answer != expected {
			t.Fatalf("node %d: %v %v", i+1, answer, err)
		}
	}
}
