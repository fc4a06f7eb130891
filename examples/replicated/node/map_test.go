// Varve: a key-value storage engine. MIT licence, see LICENSE.

// Goal: clients of Redis Cluster are sent neither to a node that is cut off, nor back
// to where they came from, nor to a node that stops.
// Method: a node that does not run, and is told what it has heard of two others.

package node

import (
	"testing"
	"time"

	"varve.example/replicated/check"
	"varve.example/replicated/redis"
)

// listener1 is node 1 of three, each with a replica of both shards. It has heard nobody.
func listener1() *Node {
	n := &Node{
		number: 1, cluster: "ours" + slotsMark, options: Options{Announce: "one:1"}, gates: make([]*gate, 3),
		local: map[uint64]*localReplica{}, heardOf: map[uint64]heard{},
	}
	n.directory.Store(newDirectory(map[uint64]string{1: "a", 2: "b", 3: "c"}, 2, 3))
	return n
}

// hear is as if a node had said some time ago that it leads both shards, or neither.
func (n *Node) hear(number uint64, announce string, leads bool, ago time.Duration) {
	leader := uint64(0)
	if leads {
		leader = number
	}
	said := Status{Node: number, Announce: announce, Shards: map[uint64]ShardStatus{}}
	for shard := uint64(1); shard <= 2; shard++ {
		said.Shards[shard] = ShardStatus{Replica: number, Leader: leader}
	}
	n.heardOf[number] = heard{time.Now().Add(-ago), said}
}

func checkOwner(t *testing.T, m redis.ClusterMap, owner uint64, nodes int) {
	t.Helper()
	check.FatalIf(t, len(m.Nodes) != nodes || len(m.Shards) != 2, "%+v", m)
	for _, one := range m.Shards {
		check.FatalIf(t, one.Owner != owner, "not node %d: %+v", owner, m)
	}
}

func TestANodeThatIsCutOffKnowsNoMap(t *testing.T) {
	n := listener1()
	checkOwner(t, n.Map(), 0, 0) // It has just joined.
	n.hear(3, "three:3", true, 0)
	checkOwner(t, n.Map(), 3, 2)
	// No leader is known for a while, such as in an election.
	n.hear(3, "three:3", false, 0)
	checkOwner(t, n.Map(), 3, 2)
	n.hear(2, "two:2", false, 0)
	n.hear(3, "three:3", false, freshFor)
	checkOwner(t, n.Map(), 1, 3)
	n.hear(2, "two:2", false, freshFor)
	checkOwner(t, n.Map(), 0, 0)
	// A single node needs nobody.
	n.directory.Store(newDirectory(map[uint64]string{1: "a"}, 2, 3))
	checkOwner(t, n.Map(), 1, 1)
}

func TestAClientIsNotSentBackToTheSameAddress(t *testing.T) {
	n := listener1()
	n.hear(2, "two:2", true, 0)
	n.hear(3, "three:3", false, 0)
	if to := n.Redirect(1, false); to != "two:2" {
		t.Fatal(to)
	}
	n.hear(2, "one:1", true, 0)
	if to := n.Redirect(1, false); to != "" {
		t.Fatal(to)
	}
	checkOwner(t, n.Map(), 1, 2)
}

func TestANodeThatStopsOwnsNothing(t *testing.T) {
	n := listener1()
	check.FatalIf(t, n.SendsAway(), "there is nobody")
	n.hear(2, "two:2", false, 0)
	n.hear(3, "three:3", false, 0)
	checkOwner(t, n.Map(), 1, 3)
	n.stopping.Store(true)
	checkOwner(t, n.Map(), 2, 3)
	m := n.Map()
	check.FatalIf(t, contains(m.Shards[0].Replicas, 1) || !n.SendsAway(), "%+v", m)
	// All stop: its clients can go nowhere else.
	for number, last := range n.heardOf {
		last.status.Stopping = true
		n.heardOf[number] = last
	}
	checkOwner(t, n.Map(), 1, 3)
	check.FatalIf(t, n.SendsAway(), "all others stop")
}
