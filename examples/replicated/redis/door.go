// Varve: a key-value storage engine. MIT licence, see LICENSE.
package redis

import (
	"fmt"
	"net"
	"strconv"
	"strings"
)

// The cluster port is for clients of Redis Cluster. They learn from CLUSTER SLOTS
// which node leads the shard of a slot, and ask that node. Another node answers
// MOVED, by which clients learn of a move. Commands without keys are about the
// shards that the node leads, because such clients ask all nodes in turns. FLUSHALL
// and FLUSHDB are about all shards: one that moves meanwhile must not be left out. On
// the other port each node serves everything, as before.

// ClusterMap is what clients of the cluster port learn of the nodes.
type ClusterMap struct {
	Epoch  uint64         // Grows when nodes or replicas come and go.
	Nodes  []ClusterNode  // In the order of their numbers.
	Shards []ClusterShard // Shard 1 is the first one.
}

// ClusterNode is a node with a cluster port.
type ClusterNode struct {
	Number  uint64
	ID      string // 40 hexadecimal digits.
	Address string // HOST:PORT of the cluster port.
	Self    bool
	Up      bool
}

// ClusterShard says who serves a shard.
type ClusterShard struct {
	Owner    uint64 // The node that clients should ask; 0 if there is none.
	Led      bool   // Whether it has a leader, which may be a node without a cluster port.
	Replicas []uint64
}

func (m *ClusterMap) node(number uint64) *ClusterNode {
	for i := range m.Nodes {
		if m.Nodes[i].Number == number {
			return &m.Nodes[i]
		}
	}
	return nil
}

func (m *ClusterMap) self() *ClusterNode {
	for i := range m.Nodes {
		if m.Nodes[i].Self {
			return &m.Nodes[i]
		}
	}
	return nil
}

// owns says whether this node should be asked for a shard.
func (m *ClusterMap) owns(shard int) bool {
	self := m.self()
	return self != nil && m.Shards[shard].Owner == self.Number
}

// endpoint divides an address. Redis writes addresses of IPv6 without brackets.
func (n *ClusterNode) endpoint() (host string, port int64) {
	host, text, err := net.SplitHostPort(n.Address)
	if err != nil {
		return n.Address, 0
	}
	port, _ = strconv.ParseInt(text, 10, 32)
	return host, port
}

func (n *ClusterNode) String() string {
	host, port := n.endpoint()
	return fmt.Sprintf("%s:%d", host, port)
}

func init() {
	addParts("cluster", RightRead, "cluster", "Describes the nodes and their slots.", map[string]subcommand{
		"keyslot": {3, 3, RightRead, func(c *client, t *task) { c.out.Int(int64(SlotOf(t.args[2]))) }},
		"myid":    ofMap(func(c *client, m *ClusterMap) { c.out.BulkString(m.self().ID) }),
		"info":    ofMap(func(c *client, m *ClusterMap) { c.out.Verbatim(m.info()) }),
		"nodes":   ofMap(func(c *client, m *ClusterMap) { c.out.Verbatim(m.lines()) }),
		"slots":   ofMap((*client).clusterSlots),
		"shards":  ofMap((*client).clusterShards),
	})
	commands["cluster"].do = func(c *client, t *task) {
		if c.clustered {
			c.subcommand(t)
		} else {
			c.fail(noCluster)
		}
	}
	addLocal("asking", 1, 1, RightRead, func(c *client, _ *task) {
		if c.clustered {
			c.out.Status("OK") // No node answers ASK, so that there is nothing to do.
		} else {
			c.fail(noCluster)
		}
	}, "cluster", "Is accepted without an effect.")
}

const (
	noCluster = "ERR This instance has cluster support disabled"
	crossSlot = "CROSSSLOT Keys in request don't hash to the same slot"
)

// redirect says why a command on keys is not done here, but by its error. Reads may
// be done by a replica if they may be stale.
func (c *client) redirect(t *task) string {
	slot, complaint := oneSlot(-1, t)
	if complaint != "" {
		return complaint
	}
	return c.moved(slot, c.stale && t.command.kind == reads && c.queued == nil)
}

// oneSlot is the slot of a command's keys, which must be the given one unless that is
// below 0.
func oneSlot(slot int, t *task) (int, string) {
	complaint := ""
	t.command.eachKey(t.args, func(key []byte) {
		if one := SlotOf(key); slot < 0 {
			slot = one
		} else if one != slot {
			complaint = crossSlot
		}
	})
	return slot, complaint
}

func (c *client) moved(slot int, stale bool) string {
	if slot < 0 {
		return ""
	}
	store := c.server.store
	to := store.Redirect(shardOfSlot(slot, store.Shards()), stale)
	if to == "" {
		return ""
	}
	return fmt.Sprintf("MOVED %d %s", slot, &ClusterNode{Address: to})
}

// redirectAll is redirect for the commands of a transaction.
func (c *client) redirectAll(tasks []task) string {
	slot, complaint := -1, ""
	for i := range tasks {
		if slot, complaint = oneSlot(slot, &tasks[i]); complaint != "" {
			return complaint
		}
	}
	return c.moved(slot, false)
}

var errNotKnown error = &coded{"LOADING", "this node does not know its cluster yet"}

// shards are those that commands which read without keys are about, in order.
func (c *client) shards() ([]uint64, error) {
	var shards []uint64
	var known ClusterMap
	if c.clustered {
		if known = c.server.store.Map(); known.self() == nil {
			return nil, errNotKnown
		}
	}
	for shard := uint64(1); shard <= c.server.store.Shards(); shard++ {
		if !c.clustered || known.owns(int(shard-1)) {
			shards = append(shards, shard)
		}
	}
	return shards, nil
}

// after is the first of the shards after one, 0 if there is none.
func after(shards []uint64, shard uint64) uint64 {
	for _, one := range shards {
		if one > shard {
			return one
		}
	}
	return 0
}

// ofMap is a part of CLUSTER that answers what there is on the map.
func ofMap(do func(*client, *ClusterMap)) subcommand {
	return subcommand{2, 2, RightRead, func(c *client, _ *task) {
		if m := c.server.store.Map(); m.self() != nil {
			do(c, &m)
		} else {
			c.failWith(errNotKnown)
		}
	}}
}

// servers are the nodes of a shard, the owner first. Replicas are listed for who
// reads from them: some clients take a node that is one for a replica of all slots.
func (c *client) servers(m *ClusterMap, shard *ClusterShard) []*ClusterNode {
	servers := []*ClusterNode{m.node(shard.Owner)}
	for _, number := range shard.Replicas {
		if one := m.node(number); c.stale && number != shard.Owner && one != nil && one.Up {
			servers = append(servers, one)
		}
	}
	return servers
}

// eachServed calls do for the shards that have an owner, with their slots and the nodes
// to ask. Others are in no answer.
func (c *client) eachServed(m *ClusterMap, do func(shard *ClusterShard, first, last int, servers []*ClusterNode)) {
	for i := range m.Shards {
		if shard := &m.Shards[i]; shard.Owner != 0 {
			first, last := slotsOf(uint64(i+1), uint64(len(m.Shards)))
			do(shard, first, last, c.servers(m, shard))
		}
	}
}

func (c *client) clusterSlots(m *ClusterMap) {
	var list []any
	c.eachServed(m, func(_ *ClusterShard, first, last int, servers []*ClusterNode) {
		one := []any{first, last}
		for _, server := range servers {
			host, port := server.endpoint()
			one = append(one, []any{host, port, server.ID, []any{}})
		}
		list = append(list, one)
	})
	c.answer(list)
}

func (c *client) clusterShards(m *ClusterMap) {
	portName := "port"
	if c.server.options.TLS != nil {
		portName = "tls-port"
	}
	var list []any
	c.eachServed(m, func(shard *ClusterShard, first, last int, servers []*ClusterNode) {
		var nodes []any
		for at, one := range servers {
			host, port := one.endpoint()
			role, health := "replica", "online"
			if at == 0 {
				role = "master"
			}
			if !one.Up || at == 0 && !shard.Led {
				health = "fail"
			}
			nodes = append(nodes, pairs{"id", one.ID, "ip", host, "endpoint", host, "role", role, "health", health,
				portName, port, "replication-offset", 0})
		}
		list = append(list, pairs{"slots", []any{first, last}, "nodes", nodes})
	})
	c.answer(list)
}

// lines is the answer of CLUSTER NODES. Each node is called a master, and has the
// slots of the shards that it owns.
func (m *ClusterMap) lines() string {
	var text strings.Builder
	for i := range m.Nodes {
		one := &m.Nodes[i]
		flags, link := "master", "connected"
		if one.Self {
			flags = "myself,master"
		}
		if !one.Up {
			flags, link = "master,fail?", "disconnected"
		}
		fmt.Fprintf(&text, "%s %s@0 %s - 0 0 %d %s", one.ID, one, flags, m.Epoch, link)
		for at := 0; at < len(m.Shards); at++ {
			begin := at
			for at < len(m.Shards) && m.Shards[at].Owner == one.Number {
				at++
			}
			if at > begin {
				first, _ := slotsOf(uint64(begin+1), uint64(len(m.Shards)))
				_, last := slotsOf(uint64(at), uint64(len(m.Shards)))
				if first == last {
					fmt.Fprintf(&text, " %d", first)
				} else {
					fmt.Fprintf(&text, " %d-%d", first, last)
				}
			}
		}
		text.WriteString("\n")
	}
	return text.String()
}

func (m *ClusterMap) info() string {
	assigned, led, owners := 0, 0, map[uint64]bool{}
	for i := range m.Shards {
		first, last := slotsOf(uint64(i+1), uint64(len(m.Shards)))
		if size := last - first + 1; m.Shards[i].Owner != 0 {
			assigned += size
			owners[m.Shards[i].Owner] = true
			if m.Shards[i].Led {
				led += size
			}
		}
	}
	state := "fail"
	if led == Slots {
		state = "ok"
	}
	values := map[string]interface{}{
		"cluster_slots_assigned": assigned, "cluster_slots_ok": led, "cluster_slots_pfail": 0,
		"cluster_slots_fail": assigned - led, "cluster_known_nodes": len(m.Nodes), "cluster_size": len(owners),
		"cluster_current_epoch": m.Epoch, "cluster_my_epoch": m.Epoch, "cluster_stats_messages_sent": 0,
		"cluster_stats_messages_received": 0,
	}
	lines := []string{"cluster_state:" + state}
	for _, name := range sorted(values) {
		lines = append(lines, fmt.Sprintf("%s:%v", name, values[name]))
	}
	return strings.Join(lines, "\r\n") + "\r\n"
}
