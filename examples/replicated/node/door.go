// Varve: a key-value storage engine. MIT licence, see LICENSE.
package node

import (
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"strings"
	"time"

	"varve.example/replicated/redis"
)

// The layout of a cluster says how its keys are mapped to shards. Each node records it.
// A node adds a mark of its layout to the cluster's name in all that it says to other
// nodes, so that no node of another layout is heard. Only convert.go changes a layout.
const (
	layoutHash       = 0 // By a hash that no client knows. Of older programs.
	layoutSlots      = 2 // By the slots of Redis Cluster.
	layoutConverting = 3 // Keys move from where the hash has them to where slots have them.
	layoutConverted  = 4 // layoutSlots, of a node that had layoutHash.

	slotsMark      = "+slots"
	convertingMark = "+converting"
)

// fullName is the name of the cluster among nodes.
func (me *identity) fullName() string {
	switch me.Layout {
	case layoutSlots, layoutConverted:
		return me.Cluster + slotsMark
	case layoutConverting:
		return me.Cluster + convertingMark
	}
	return me.Cluster
}

// setName takes over the name that another node has told.
func (me *identity) setName(full string) {
	name, slots := strings.CutSuffix(full, slotsMark)
	name, converting := strings.CutSuffix(name, convertingMark)
	if me.Cluster = name; slots {
		me.Layout = layoutSlots
	} else if converting {
		me.Layout = layoutConverting
	}
}

func (n *Node) hasSlots() bool { return strings.HasSuffix(n.cluster, slotsMark) }

// HasSlots says whether clients of Redis Cluster can be served.
func (n *Node) HasSlots() bool { return n.hasSlots() }

// ShardOf is the shard of a key.
func (n *Node) ShardOf(key []byte) uint64 {
	if n.hasSlots() {
		return redis.ShardOf(key, n.Shards())
	}
	return redis.HashedShardOf(key, n.Shards())
}

// checkLayout refuses a cluster port that could not be served.
func (n *Node) checkLayout() error {
	if n.options.Announce == "" || n.hasSlots() {
		return nil
	}
	if n.options.Convert || n.isConverting() {
		n.options.Announce = "" // Until it has slots.
		return nil
	}
	return noSlots(n.options.Dir + " is of a cluster")
}

func noSlots(what string) error {
	return fmt.Errorf("%s that was created before there were slots, and cannot serve --cluster-listen: "+
		"start all nodes with --convert-to-slots, or write a backup (NODE.BACKUP) and restore it (NODE.RESTORE) "+
		"into a new cluster, which has them", what)
}

// freshFor is how long after its last message clients are sent to a node. A node that
// has died is left sooner than after silentAfter, because others can pass requests on.
const freshFor = 4 * exchangePause

// isFresh says whether clients may be sent to a node.
func (n *Node) isFresh(number uint64) bool {
	last := n.lastOf(number)
	return number == n.number || time.Since(last.at) < freshFor && !last.status.Stopping
}

// Redirect is the cluster port of the node that leads a shard. It is empty if a
// client is served here: this node leads, or it does not know for certain who does,
// and passes the request on. A read that may be stale is served by any replica.
//
// Two nodes must not send a client to each other while a leadership moves. So a
// leader must have said itself that it leads, and a replica here must know the same.
func (n *Node) Redirect(shard uint64, stale bool) string {
	if stale && !n.stopping.Load() && n.voting(shard) != nil {
		return ""
	}
	n.mutex.RLock()
	running := n.local[shard]
	n.mutex.RUnlock()
	knows := uint64(0)
	if running != nil {
		leader, known, err := n.host.GetLeaderID(clusterOf(shard))
		if err != nil || !known || leader == running.id {
			return ""
		}
		knows = leader
	}
	leader := n.leaderNode(shard)
	said := n.lastOf(leader).status
	one := said.Shards[shard]
	if !n.isFresh(leader) || one.Leader == 0 || one.Leader != one.Replica || running != nil && one.Replica != knows {
		return ""
	}
	return n.doorOf(leader)
}

// doorOf is the cluster port of another node, empty if it has none. One that has this
// node's address has none: clients would be sent back here, again and again.
func (n *Node) doorOf(number uint64) string {
	announced := n.lastOf(number).status.Announce
	if announced == n.options.Announce {
		return ""
	}
	return announced
}

// farewellTime is how long a node that no longer leads sends clients to those that do.
// A client that finds a closed port may not ask where else to go for seconds.
const farewellTime = 500 * time.Millisecond

// nodeID is of a node in the answers to clients. Numbers of nodes are not used again.
func (n *Node) nodeID(number uint64) string {
	sum := sha1.Sum([]byte(fmt.Sprintf("%s %d", n.cluster, number)))
	return hex.EncodeToString(sum[:])
}

// hearsMost says whether this node is not cut off, and not just about to learn of the
// others: it has heard most of the nodes lately, with itself.
func (n *Node) hearsMost(d *Directory) bool {
	heard := 0
	for number := range d.Nodes {
		if number == n.number || time.Since(n.lastOf(number).at) < freshFor {
			heard++
		}
	}
	return 2*heard > len(d.Nodes)
}

// SendsAway says whether there is another node to which clients of the cluster port
// can be sent. If so, Leave should come before the end of their connections.
func (n *Node) SendsAway() bool {
	for number := range n.Directory().Nodes {
		if number != n.number && n.options.Announce != "" && n.alive(number) {
			return true
		}
	}
	return false
}

// Map is for clients of the cluster port. A shard whose leader is not known, or has
// no such port, is that of a node which passes requests on: the last known owner, or
// else the first one with a replica if there is one. A node that does not hear most
// others knows no nodes, since it would call itself the owner of all: its clients try
// other nodes then. One that stops owns nothing, unless clients can go nowhere else.
func (n *Node) Map() redis.ClusterMap {
	d := n.Directory()
	m := redis.ClusterMap{Epoch: d.Revision, Shards: make([]redis.ClusterShard, n.Shards())}
	if !n.hearsMost(d) {
		return m
	}
	doors := map[uint64]bool{} // Nodes that can be asked.
	others := false
	for _, number := range d.numbers() {
		one := redis.ClusterNode{Number: number, ID: n.nodeID(number), Self: number == n.number, Up: n.isFresh(number)}
		if one.Address = n.options.Announce; !one.Self {
			one.Address = n.doorOf(number)
		}
		if one.Address != "" {
			m.Nodes = append(m.Nodes, one)
			doors[number] = one.Up
			others = others || one.Up && !one.Self
		}
	}
	if others && n.stopping.Load() {
		doors[n.number] = false
	}
	for shard := uint64(1); shard <= n.Shards(); shard++ {
		one := &m.Shards[shard-1]
		if place := d.Places[shard]; place != nil {
			for _, id := range sortedKeys(place.Replicas) {
				if replica := place.Replicas[id]; replica.State == Voting && doors[replica.Node] {
					one.Replicas = append(one.Replicas, replica.Node)
				}
			}
		}
		sortNumbers(one.Replicas)
		leader := n.leaderNode(shard)
		if n.leadsNow(shard) {
			leader = n.number
		}
		one.Led = leader != 0
		last, _ := n.owners.Load(shard)
		owner, _ := last.(uint64)
		switch {
		case doors[leader]:
			one.Owner = leader
			n.owners.Store(shard, leader)
		case doors[owner]:
			one.Owner = owner
		case len(one.Replicas) > 0:
			one.Owner = one.Replicas[0]
		default:
			for _, other := range m.Nodes {
				if doors[other.Number] && one.Owner == 0 {
					one.Owner = other.Number
				}
			}
		}
	}
	return m
}
