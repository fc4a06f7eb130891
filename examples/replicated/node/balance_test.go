// Varve: a key-value storage engine. MIT licence, see LICENSE.

// Goal: replicas move from full nodes to emptier ones, slowly, only while that is worth
// it, and nothing is lost if a node or the leader of the placement fails meanwhile.
// Method: the decision alone, in drawn states; the steps of moves with a clock of the
// test; nodes of this process, of which one is new.

package node

import (
	"fmt"
	"math"
	"math/rand"
	"reflect"
	"strings"
	"testing"
	"time"

	"varve.example/replicated/check"
	"varve.example/replicated/machine"
	"varve.example/replicated/redis"
)

const gib = float64(1 << 30)

// allHeard has all nodes up, with much room, and shards of a size.
func allHeard(d *Directory, bytes float64) observed {
	s := observed{map[uint64]cost{}, map[uint64]float64{}}
	for shard := range d.Places {
		s.shards[shard] = cost{bytes: bytes}
	}
	for number := range d.Nodes {
		s.nodes[number] = 1e6 * gib
	}
	return s
}

// moveAll does what a move is for, at once.
func moveAll(d *Directory, m *Move) {
	d.retarget(m.Shard, m.From, m.To)
	arrive(d, m.Shard)
}

// arrive puts the replicas of a shard where they belong.
func arrive(d *Directory, shard uint64) {
	place := d.Places[shard]
	place.Replicas = map[uint64]*Replica{}
	for _, target := range place.Targets {
		d.LastReplica++
		place.Replicas[d.LastReplica] = &Replica{Node: target, State: Voting}
	}
}

// unevenness is the sum of the squares of the nodes' shares, and the difference of the
// largest and the smallest one.
func unevenness(t *testing.T, d *Directory, s observed) (squares, difference float64) {
	t.Helper()
	nodes, _ := measure(d, s)
	if len(nodes) == 0 {
		return 0, 0
	}
	for _, one := range nodes {
		squares += one.share * one.share
	}
	return squares, nodes[0].share - nodes[len(nodes)-1].share
}

// drawn is a cluster in any state.
func drawn(random *rand.Rand) (*Directory, observed) {
	d := newDirectory(testPeers(1+random.Intn(8)), uint64(1+random.Intn(40)), 1+random.Intn(5))
	for added := random.Intn(3); added > 0; added-- {
		d.LastNode++
		d.Nodes[d.LastNode] = &NodeRecord{Address: fmt.Sprint(d.LastNode)}
	}
	s := allHeard(d, 0)
	for _, shard := range d.shardNumbers() { // The same for each run.
		var one cost
		if random.Intn(4) > 0 {
			one.bytes = math.Exp(random.Float64() * math.Log(100*gib))
		}
		if random.Intn(3) > 0 {
			one.rate = math.Exp(random.Float64() * math.Log(50<<20))
		}
		s.shards[shard] = one
	}
	for _, number := range d.numbers() {
		switch random.Intn(10) {
		case 0:
			delete(s.nodes, number) // It is down.
		case 1:
			s.nodes[number] = 0
		case 2:
			s.nodes[number] = random.Float64() * 100 * gib
		case 3:
			d.Nodes[number].Draining = true
		}
	}
	d.heal(everybody)
	for shard := range d.Places {
		arrive(d, shard)
	}
	return d, s
}

func TestMovesEndAndMakeNothingWorse(t *testing.T) {
	random := rand.New(rand.NewSource(1))
	moves := 0
	for state := 0; state < 200; state++ {
		d, s := drawn(random)
		squares, difference := unevenness(t, d, s)
		for step := 0; ; step++ {
			m := pickMove(d, s)
			if m == nil {
				break
			}
			check.FatalIf(t, step > 500, "state %d: it moves for ever", state)
			moves++
			size := s.shards[m.Shard].bytes
			if !d.movable(m.Shard, m.From, m.To, s) || !d.usable(m.From) || !d.usable(m.To) ||
				s.nodes[m.To] < roomFactor*size || m.Shard == directoryShard {
				t.Fatalf("state %d: %v", state, m)
			}
			moveAll(d, m)
			s.nodes[m.To] -= size
			checkTargets(t, d)
			squaresNow, differenceNow := unevenness(t, d, s)
			if squaresNow >= squares || differenceNow > difference+1e-12 {
				t.Fatalf("state %d: %v makes %v of %v, and a difference of %v of %v", state, m, squaresNow, squares, differenceNow, difference)
			}
			squares, difference = squaresNow, differenceNow
		}
	}
	check.FatalIf(t, moves < 200, "hardly a state needs a move: %v", moves)
}

func TestSizesThatChangeALittleMoveNothingBack(t *testing.T) {
	random := rand.New(rand.NewSource(1))
	for state := 0; state < 200; state++ {
		d, s := drawn(random)
		for m := pickMove(d, s); m != nil; m = pickMove(d, s) {
			moveAll(d, m)
		}
		done := map[Move]bool{}
		for round := 0; round < 200; round++ {
			now := observed{map[uint64]cost{}, s.nodes}
			for _, shard := range d.shardNumbers() {
				one := s.shards[shard]
				now.shards[shard] = cost{one.bytes * (0.97 + 0.06*random.Float64()), one.rate * (0.97 + 0.06*random.Float64())}
			}
			m := pickMove(d, now)
			if m == nil {
				continue
			}
			check.FatalIf(t, done[Move{Shard: m.Shard, From: m.To, To: m.From}], "state %d, round %d: back goes %v", state, round, m)
			done[Move{Shard: m.Shard, From: m.From, To: m.To}] = true
			moveAll(d, m)
		}
	}
}

func TestANewNodeGetsItsShare(t *testing.T) {
	for _, bytes := range []float64{0, gib} { // Without data, the number counts.
		d := newDirectory(testPeers(3), 8, 3)
		d.Nodes[4] = &NodeRecord{Address: "host4:7000"}
		s := allHeard(d, bytes)
		moves := 0
		for m := pickMove(d, s); m != nil; m = pickMove(d, s) {
			moveAll(d, m)
			moves++
		}
		if load := d.load(); moves != 6 || load[4] != 6 { // As by NODE.SPREAD.
			t.Fatal(moves, load)
		}
	}
}

func TestWhatIsNotWorthItStays(t *testing.T) {
	// Two nodes, and one replica of each shard: all but the last one are on node 1.
	of := func(sizes ...float64) (*Directory, observed) {
		d := newDirectory(testPeers(2), uint64(len(sizes)), 1)
		s := allHeard(d, 0)
		for i, size := range sizes {
			shard, target := uint64(i+1), uint64(1)
			if i == len(sizes)-1 {
				target = 2
			}
			d.Places[shard].Targets = []uint64{target}
			arrive(d, shard)
			s.shards[shard] = cost{size, size}
		}
		return d, s
	}
	for _, one := range []struct {
		sizes []float64
		moves uint64 // 0: none.
	}{
		{[]float64{500 * gib, 300 * gib}, 0},                       // The other node would be as full.
		{[]float64{50 * gib, 450 * gib, 410 * gib}, 0},             // 18 % of the fuller one.
		{[]float64{50 * gib, 450 * gib, 390 * gib}, 1},             // 22 % of it.
		{[]float64{450 * gib, 500 * gib, 390 * gib}, 0},            // 220 less, not half of 450.
		{[]float64{100 * gib, 80 * gib, 280 * gib, 300 * gib}, 2},  // The best one of two.
		{[]float64{1e4 * gib, gib / 2, gib / 4, gib}, 0},           // All that could move is too little.
		{[]float64{300 * gib, 300 * gib, 300 * gib, 200 * gib}, 1}, // The first one of three.
	} {
		d, s := of(one.sizes...)
		m := pickMove(d, s)
		check.ErrorIf(t, (m == nil) != (one.moves == 0) || (m != nil && m.Shard != one.moves), "%v: %v", one.sizes, m)
	}
}

func TestWritesCountAsBytesDo(t *testing.T) {
	d := newDirectory(testPeers(2), 4, 1) // Shards 1 and 3 are on node 2.
	s := allHeard(d, gib)
	if m := pickMove(d, s); m != nil {
		t.Fatal(m)
	}
	s.shards[1], s.shards[3] = cost{gib, 8 << 20}, cost{gib, 4 << 20}
	m := pickMove(d, s)
	if m == nil || m.Shard != 3 || m.From != 2 || m.To != 1 ||
		m.String() != "shard 3 from node 2 to node 1: 2.0 GiB against 2.0 GiB, 12.0 MiB/s written against 0 B/s, and 2 replicas against 2" {
		t.Fatal(m)
	}
}

func TestANodeThatIsDownOrFullIsNoTarget(t *testing.T) {
	d := newDirectory(testPeers(3), 8, 3)
	d.Nodes[4] = &NodeRecord{Address: "host4:7000"}
	d.Nodes[5] = &NodeRecord{Address: "host5:7000"}
	s := allHeard(d, gib)
	for _, room := range []float64{0, gib} {
		s.nodes[5] = room
		if m := pickMove(d, s); m == nil || m.To != 4 {
			t.Fatal(room, m)
		}
	}
	delete(s.nodes, 5)
	if m := pickMove(d, s); m == nil || m.To != 4 {
		t.Fatal(m)
	}
	d.Nodes[4].Draining = true
	if m := pickMove(d, s); m != nil {
		t.Fatal(m)
	}
	d.Nodes[4].Draining = false
	delete(s.nodes, 2) // Each shard has a replica there, and could not spare another one.
	if m := pickMove(d, s); m != nil {
		t.Fatal(m)
	}
	s = allHeard(d, gib)
	delete(s.shards, 7) // Such as of a node of an older program.
	if m := pickMove(d, s); m != nil {
		t.Fatal(m)
	}
}

// placement is a cluster whose steps the test does.
type placement struct {
	*testing.T
	now time.Time
	d   *Directory
	s   observed
	b   balancer
}

func newPlacement(t *testing.T) *placement {
	d := newDirectory(testPeers(3), 8, 3)
	d.Nodes[4] = &NodeRecord{Address: "host4:7000"}
	return &placement{t, time.Unix(1e9, 0), d, allHeard(d, gib), balancer{pause: time.Minute}}
}

// expect checks what the balancer says after a while.
func (p *placement) expect(after time.Duration, want string) {
	p.Helper()
	p.now = p.now.Add(after)
	if said := p.b.step(p.now, p.d, p.s); !strings.HasPrefix(said, want) || (want == "" && said != "") {
		p.Fatalf("%q, not %q", said, want)
	}
	checkTargets(p.T, p.d)
}

// begin begins a move, of which the new replica is started.
func (p *placement) begin() (m *Move, added *Replica) {
	p.Helper()
	p.expect(0, "")
	p.expect(p.b.pause, "moving shard ")
	added = &Replica{Node: p.d.Move.To, State: Adding}
	p.d.LastReplica++
	p.d.Places[p.d.Move.Shard].Replicas[p.d.LastReplica] = added
	return p.d.Move, added
}

// old is the replica that is to go.
func (p *placement) old(m *Move) *Replica {
	_, old := p.d.replicaOn(m.Shard, m.From)
	return old
}

func TestReplicasMoveOneAfterTheOtherWithAPause(t *testing.T) {
	p := newPlacement(t)
	p.expect(0, "")
	for moves := 0; moves < 6; moves++ {
		p.expect(p.b.pause-time.Second, "")
		p.expect(time.Second, "moving shard ")
		m := *p.d.Move
		p.expect(time.Hour, "")
		p.d.Places[m.Shard].Replicas[p.d.LastReplica+1] = &Replica{Node: m.To, State: Adding}
		p.expect(time.Hour, "")
		arrive(p.d, m.Shard)
		p.expect(0, "moved "+m.String())
		p.expect(0, "")
		check.FatalIf(t, p.d.Move != nil, "%v", p.d.Move)
	}
	p.expect(24*time.Hour, "")
	p.expect(24*time.Hour, "")
	if load := p.d.load(); load[4] != 6 {
		t.Fatal(load)
	}
}

func TestNothingBeginsWhileAnOperatorMovesReplicas(t *testing.T) {
	p := newPlacement(t)
	p.expect(0, "")
	p.d.retarget(1, p.d.Places[1].Targets[0], 4)
	p.expect(time.Hour, "")
	arrive(p.d, 1)
	p.expect(time.Hour, "") // The pause begins here.
	p.expect(time.Minute, "moving ")
}

func TestTheNextLeaderFinishesAMove(t *testing.T) {
	p := newPlacement(t)
	m, added := p.begin()
	p.b = balancer{} // Even where it is switched off.
	p.expect(time.Hour, "")
	added.State = Voting
	p.expect(time.Hour, "")
	arrive(p.d, m.Shard)
	p.expect(0, "moved ")
	p.expect(time.Hour, "")
	p.expect(time.Hour, "")
}

func TestALeaderThatIsNewWaitsForAPause(t *testing.T) {
	p := newPlacement(t)
	p.expect(0, "")
	p.b.rest() // Another one leads for a while.
	p.expect(time.Hour, "")
	p.expect(p.b.pause, "moving ")
}

func TestAMoveToASilentNodeIsGivenUp(t *testing.T) {
	p := newPlacement(t)
	m, added := p.begin()
	delete(p.s.nodes, m.To)
	p.expect(time.Second, "")
	p.s.nodes[m.To] = 1e6 * gib // Back in time.
	p.expect(giveUpTime, "")
	delete(p.s.nodes, m.To)
	p.expect(time.Second, "")
	p.b = balancer{} // Another leader.
	p.expect(giveUpTime, "")
	added.State = Voting // That it votes does not matter.
	p.expect(giveUpTime, fmt.Sprintf("shard %d stays on node %d: ", m.Shard, m.From))
	if contains(p.d.Places[m.Shard].Targets, m.To) || p.d.Move != nil || p.old(m).State != Voting {
		t.Fatal(p.d.Places[m.Shard])
	}
}

func TestAMoveIsNotGivenUpOnceTheOldReplicaGoes(t *testing.T) {
	for _, what := range []string{"it leaves", "it has left", "its node is drained", "its node was removed"} {
		p := newPlacement(t)
		m, added := p.begin()
		added.State = Voting
		switch what {
		case "it leaves":
			p.old(m).leave(p.d)
		case "it has left":
			arrive(p.d, m.Shard)
			p.expect(0, "moved ")
			continue
		case "its node is drained":
			p.d.Nodes[m.From].Draining = true
			p.d.heal(everybody)
		default:
			delete(p.d.Nodes, m.From)
			p.d.heal(everybody)
		}
		delete(p.s.nodes, m.To)
		for i := 0; i < 3; i++ {
			p.expect(giveUpTime, "")
		}
		if !contains(p.d.Places[m.Shard].Targets, m.To) {
			t.Fatal(what, p.d.Places[m.Shard])
		}
	}
}

func TestOperatorsMayChangeWhatMoves(t *testing.T) {
	for _, what := range []string{"removed", "drained", "taken back"} {
		p := newPlacement(t)
		m, _ := p.begin()
		switch what {
		case "removed":
			delete(p.d.Nodes, m.To)
		case "drained":
			p.d.Nodes[m.To].Draining = true
		default:
			p.d.retarget(m.Shard, m.To, m.From)
		}
		p.d.heal(everybody)
		p.expect(0, "other nodes ")
		check.FatalIf(t, p.d.Move != nil, "%v", what)
	}
}

func TestTheRateOfWritesIsAveraged(t *testing.T) {
	now := time.Unix(1e9, 0)
	var w *weight
	w = w.next(now, 5, 1000)
	check.FatalIf(t, w.rate != 0 || w.bytes != 5, "%v", w)
	written := uint64(1000)
	for i := 0; i < 3600; i++ {
		now, written = now.Add(time.Second), written+100
		w = w.next(now, 7, written)
		check.FatalIf(t, i == 0 && w.rate > 1, "one second counts as much as all before: %v", w.rate)
	}
	check.FatalIf(t, w.rate < 99 || w.rate > 100 || w.bytes != 7, "%v", w)
	if w = w.next(now, 7, written+100); w.rate > 100 {
		t.Fatal("no time has passed: ", w.rate)
	}
	if w = w.next(now.Add(time.Hour), 7, written+100); w.rate > 1 {
		t.Fatal("nothing is written: ", w.rate)
	}
}

// The next leader of the placement finds a move to a node that has died meanwhile.
func TestAMoveToANodeThatHasDiedIsUndone(t *testing.T) {
	before := giveUpTime
	giveUpTime = 300 * time.Millisecond
	t.Cleanup(func() { giveUpTime = before }) // Once the nodes have ended.
	nodes := startAll(t, peersOf(t, 3))
	for _, n := range nodes {
		awaitServing(t, n)
	}
	put(t, nodes[0], "early")
	var added uint64
	if err := nodes[0].update(func(next *Directory) error {
		next.LastNode, next.LastReplica = 4, next.LastReplica+1
		next.Nodes[4] = &NodeRecord{Address: freeAddress(t)}
		next.retarget(1, 2, 4)
		next.Move = &Move{1, 2, 4, "a test"}
		added = next.LastReplica
		next.Places[1].Replicas[added] = &Replica{Node: 4, State: Adding}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	await(t, "the move is undone", func() bool {
		d := nodes[0].Directory()
		return d.Move == nil && d.settled()
	})
	place := nodes[0].Directory().Places[1]
	if place.Replicas[added] != nil || !reflect.DeepEqual(place.Targets, []uint64{1, 2, 3}) {
		t.Fatal(asText(t, place))
	}
	for id := uint64(1); id <= 3; id++ {
		if replica := place.Replicas[id]; replica == nil || replica.Node != id {
			t.Error(asText(t, place))
		}
	}
	var members Members
	if err := (&Service{nodes[0]}).Members(1, &members); err != nil || len(members.Voters) != 3 || len(members.Observers) != 0 {
		t.Error(members, err)
	}
	put(t, nodes[1], "late")
}

// While clients write, a node joins, and gets replicas by itself. The leadership of the
// placement moves in the middle of a move.
func TestANodeThatJoinsIsGivenReplicas(t *testing.T) {
	t.Parallel()
	peers := peersOf(t, 3)
	const shards = 4
	options := func(o Options) Options {
		o.Shards, o.RoundMS, o.Timeout, o.BalancePause = shards, 100, time.Minute, 100*time.Millisecond
		return o
	}
	var nodes []*Node
	for id := uint64(1); id <= 3; id++ {
		n := startNode(t, options(firstOptions(t, peers, id)))
		defer n.Stop()
		nodes = append(nodes, n)
	}
	for _, n := range nodes {
		awaitServing(t, n)
	}
	fill(t, nodes[0], 200, 1000)
	stop := startWriters(t, nodes)
	joined := startNode(t, options(Options{Address: freeAddress(t), Client: "client4", Join: peers[1], Dir: t.TempDir()}))
	defer joined.Stop()
	await(t, "a replica moves", func() bool { return nodes[0].Directory().Move != nil })
	await(t, "another node leads the placement", func() bool {
		for i, n := range nodes {
			if n.leadsNow(directoryShard) {
				return n.transfer(directoryShard, nodes[(i+1)%3].number) == nil
			}
		}
		return false
	})
	// Of 12 replicas, each node has 3.
	var d *Directory // Of the node that has joined: others may know more.
	await(t, "the new node has its share", func() bool {
		d = joined.Directory()
		return len(d.holds(joined.number)) >= 3 && d.settled() && d.Move == nil
	})
	stop()
	for shard := uint64(1); shard <= shards; shard++ {
		on := map[uint64]bool{}
		for _, replica := range d.Places[shard].Replicas {
			on[replica.Node] = true
		}
		if len(on) != 3 || len(d.Places[shard].Replicas) != 3 {
			t.Errorf("shard %d: %v", shard, d.Places[shard])
		}
	}
	if s := joined.observe(d); len(s.nodes) != 4 || len(s.shards) != shards || s.nodes[joined.number] == 0 {
		t.Error("what the nodes say of themselves: ", s)
	}
	if page := joined.Metrics(); !strings.Contains(page, "varve_replica_written_bytes_per_second{shard=") ||
		!strings.Contains(page, "varve_replica_bytes{shard=") || !strings.Contains(joined.describe()[0], " bytes=") {
		t.Error("the replicas' bytes are not shown")
	}
	// All is read where the replicas are by now.
	for i := 0; i < 200; i++ {
		key := []byte(fmt.Sprint("key-", i))
		answer, _, err := joined.Read(redis.ShardOf(key, shards), machine.Get{Keys: [][]byte{machine.StoredKey(key)}}, false)
		if values, ok := answer.([][]byte); err != nil || !ok || values[0] == nil {
			t.Fatalf("%s: %v %v", key, answer, err)
		}
	}
}
