// Varve: a key-value storage engine. MIT licence, see LICENSE.

// Goal: while leaderships move, no request is lost. Method: all nodes are asked to
// write without a pause, and every write must be acknowledged.
package node

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	pb "github.com/lni/dragonboat/v3/raftpb"

	"varve.example/replicated/check"
	"varve.example/replicated/machine"
)

// startWriters has clients write to shard 1 of each node until `stop`.
func startWriters(t *testing.T, nodes []*Node) (stop func()) {
	var stopping atomic.Bool
	var group sync.WaitGroup
	for _, n := range nodes {
		for id := 0; id < 4; id++ {
			group.Add(1)
			go func() {
				defer group.Done()
				for number := 0; !stopping.Load(); number++ {
					time.Sleep(time.Millisecond)
					begin := time.Now()
					updates := machine.AppendPut(machine.NewProposal(nil, 1), []byte(fmt.Sprint(id)), []byte(fmt.Sprint(number)), 0)
					if _, err := n.Propose(1, updates); err != nil {
						t.Errorf("node %d: %v after %v", n.number, err, time.Since(begin))
					}
				}
			}()
		}
	}
	return func() {
		stopping.Store(true)
		group.Wait()
	}
}

func awaitServing(t *testing.T, n *Node) {
	t.Helper()
	awaitDirectory(t, n)
	await(t, "it serves", func() bool { return n.here(1) != nil })
}

// steadyNodes starts three nodes with slow ticks, so that a busy machine alone does
// not make for elections.
func steadyNodes(t *testing.T, timeout time.Duration) []*Node {
	peers := peersOf(t, 3)
	var nodes []*Node
	for id := uint64(1); id <= 3; id++ {
		options := firstOptions(t, peers, id)
		options.RoundMS, options.Timeout = 100, timeout
		nodes = append(nodes, startNode(t, options))
	}
	for _, n := range nodes {
		awaitServing(t, n)
	}
	return nodes
}

// leaderOf returns the node that leads shard 1, nil if it is not known.
func leaderOf(nodes []*Node) *Node {
	for _, n := range nodes {
		if n.leadsNow(1) {
			return n
		}
	}
	return nil
}

// As if a node were asked to move a leadership elsewhere when it has just begun
// to move it.
func TestTwoMovesOfALeadershipLoseNoRequest(t *testing.T) {
	t.Parallel()
	nodes := steadyNodes(t, time.Minute)
	for _, n := range nodes {
		defer n.Stop()
	}
	stop := startWriters(t, nodes)
	var moved atomic.Int64
	wanted := int64(20)
	if testing.Short() {
		wanted = 10
	}
	for move := 0; moved.Load() < wanted && move < 300; move++ {
		await(t, "a node leads", func() bool { return leaderOf(nodes) != nil })
		leader := leaderOf(nodes)
		if leader == nil {
			continue
		}
		var both sync.WaitGroup
		for next := uint64(0); next < 2; next++ {
			both.Add(1)
			go func() {
				defer both.Done()
				if leader.transfer(1, (leader.number+next)%3+1) == nil {
					moved.Add(1)
				}
			}()
			time.Sleep(time.Duration(move%30) * time.Millisecond)
		}
		both.Wait()
		time.Sleep(20 * time.Millisecond)
	}
	stop()
	check.ErrorIf(t, moved.Load() < wanted, "only %d moves", moved.Load())
}

func TestANodeStopsWhileItIsGivenALeadership(t *testing.T) {
	t.Parallel()
	nodes := steadyNodes(t, time.Minute)
	stay, third := nodes[:2], nodes[2]
	for _, n := range stay {
		defer n.Stop()
	}
	stop := startWriters(t, stay)
	var given atomic.Int64
	rounds := int64(6)
	if testing.Short() {
		rounds = 3
	}
	for round := int64(0); round < rounds; round++ {
		var done atomic.Bool
		var mover sync.WaitGroup
		mover.Add(1)
		go func() {
			defer mover.Done()
			for !done.Load() {
				if leader := leaderOf(stay); leader != nil && leader.transfer(1, 3) == nil {
					given.Add(1)
				}
				if third.leadsNow(1) {
					third.transfer(1, uint64(1+round%2))
				}
			}
		}()
		await(t, "node 3 is given the leadership", func() bool { return given.Load() > round })
		time.Sleep(time.Duration(20*round) * time.Millisecond)
		third.Stop()
		done.Store(true)
		mover.Wait()
		third = startNode(t, third.options)
		awaitServing(t, third)
	}
	stop()
	third.Stop()
}

// A node that starts waits for the leaders of what it has, and for no others.
func TestANodeThatStartsWaitsForItsLeaders(t *testing.T) {
	for _, what := range []string{"a message comes", "the leader is silent", "the replica was moved away"} {
		t.Run(what, func(t *testing.T) {
			n := &Node{
				number: 1, stop: make(chan struct{}), led: make([]atomic.Bool, 2),
				heardOf: map[uint64]heard{2: {time.Now(), Status{Shards: map[uint64]ShardStatus{1: {Replica: 2, Leader: 2}}}}},
			}
			d := newDirectory(testPeers(3), 1, 3)
			n.directory.Store(d)
			for number := range d.Nodes {
				n.asked.Store(number, true)
			}
			done := make(chan struct{})
			go func() {
				n.awaitLeaders()
				close(done)
			}()
			select {
			case <-done:
				t.Fatal("it did not wait")
			case <-time.After(100 * time.Millisecond):
			}
			switch what {
			case "a message comes":
				n.noteLeaders([]pb.Message{{Type: pb.HeartbeatResp, ClusterId: 1}, {Type: pb.Heartbeat, ClusterId: 1}})
			case "the leader is silent":
				n.mutex.Lock()
				n.heardOf[2] = heard{time.Now().Add(-silentAfter), n.heardOf[2].status}
				n.mutex.Unlock()
			default:
				moved := d.copy()
				delete(moved.Places[1].Replicas, 1)
				n.directory.Store(moved)
			}
			select {
			case <-done:
			case <-time.After(awaitTime / 2):
				t.Fatal("it waits for ever")
			}
		})
	}
}

// A replica that has a vote but has not applied that is not counted, since it answers no
// candidate.
func TestAVoteCountsOnceItsReplicaKnowsOfIt(t *testing.T) {
	said := func(replica uint64, observes bool) heard {
		return heard{time.Now(), Status{Shards: map[uint64]ShardStatus{1: {Replica: replica, Observes: observes}}}}
	}
	n := &Node{number: 9, local: map[uint64]*localReplica{}, heardOf: map[uint64]heard{1: said(1, false), 2: said(2, false), 3: said(3, false)}}
	d := newDirectory(testPeers(3), 1, 3)
	d.Nodes[4] = &NodeRecord{Address: "four"}
	d.Places[1].Replicas[7] = &Replica{Node: 4, State: Adding}
	members := &Members{Voters: map[uint64]string{1: "", 2: "", 3: "", 7: ""}}
	for _, last := range []heard{{}, said(7, true), said(6, false), {time.Now().Add(-silentAfter), said(7, false).status}} {
		n.heardOf[4] = last
		changed, err := n.addStep(d, 1, 7, members, 1)
		check.OK(t, err)
		check.FatalIf(t, changed || d.Places[1].Replicas[7].State != Adding, "it counts, although its node has said %+v", last)
		// Of 1, 2 and 7, one is down.
		n.heardOf[2] = heard{}
		check.FatalIf(t, n.canSpare(d, 1, 3, members), "3 can be spared, although its node has said %+v", last)
		n.heardOf[2] = said(2, false)
	}
	n.heardOf[4] = said(7, false)
	changed, err := n.addStep(d, 1, 7, members, 1)
	check.OK(t, err)
	check.FatalIf(t, !changed || d.Places[1].Replicas[7].State != Voting, "it does not count")
	n.heardOf[2] = heard{}
	check.FatalIf(t, !n.canSpare(d, 1, 3, members), "3 cannot be spared")
}
