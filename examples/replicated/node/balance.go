// Varve: a key-value storage engine. MIT licence, see LICENSE.
package node

import (
	"fmt"
	"log/slog"
	"math"
	"sort"
	"syscall"
	"time"
)

// Replicas move from full nodes to emptier ones, one at a time in the whole cluster.
//
// The fullness of a node is the mean of two shares: of the bytes that all replicas
// store, and of those that are written to all of them. The node that leads shard 0
// begins a move by changing a target in the directory, which also records the move.
// control.go does the steps of it, as for any other change of a target. A leader that
// takes over in the middle therefore finishes the move, or gives it up.

const (
	// Each replica counts for more than it stores and writes. With little data, it is
	// thus the number of replicas that becomes even, and noise moves nothing.
	leastBytes = 16 << 20
	leastRate  = 16 << 10

	// Two nodes are even if their fullness differs by no more than this part of the
	// fuller one's.
	evenPart = 0.2
	// A move must make this difference smaller by more than a part of the replica's
	// share, because its copying has a price, and by more than a part of the
	// difference. Without these, small changes of the load would move it back.
	leastOfReplica    = 0.5
	leastOfDifference = 0.02

	// A replica that moves needs its size times this on the other node: a snapshot is
	// written, and compacted later.
	roomFactor = 2

	weighPause = time.Second
	rateTime   = 5 * time.Minute // Over which the rate of writes is averaged.
)

// A move is given up if the node that gets the replica is silent for so long. Changed
// by tests.
var giveUpTime = time.Minute

// Move is one of a replica that the cluster itself has begun.
type Move struct {
	Shard, From, To uint64
	Why             string
}

func (m *Move) String() string {
	return fmt.Sprintf("shard %d from node %d to node %d: %s", m.Shard, m.From, m.To, m.Why)
}

// cost is what a replica is for its node.
type cost struct {
	bytes float64
	rate  float64 // Bytes written in a second.
}

// observed is what the nodes say. A node that is not heard is not in it.
type observed struct {
	shards map[uint64]cost    // Those that are known.
	nodes  map[uint64]float64 // The bytes that a node has room for.
}

// balancer says when a replica moves. The loop `control` has it.
type balancer struct {
	pause   time.Duration // Between two moves. 0: none begins.
	resting time.Time     // Since when nothing moves; zero if something does.
	silent  time.Time     // Since when the node that gets a replica is silent.
}

// step begins a move in the directory, or ends one there. It says what was done, for
// the log, or "" if that is nothing.
func (b *balancer) step(now time.Time, d *Directory, s observed) string {
	if d.Move != nil {
		b.resting = time.Time{}
		return b.watch(now, d, s)
	}
	b.silent = time.Time{}
	if !d.settled() {
		b.resting = time.Time{}
		return ""
	}
	if b.resting.IsZero() {
		b.resting = now
	}
	if b.pause <= 0 || now.Sub(b.resting) < b.pause {
		return ""
	}
	m := pickMove(d, s)
	if m == nil {
		return ""
	}
	d.retarget(m.Shard, m.From, m.To)
	d.Move = m
	return "moving " + m.String()
}

// rest is for a node that does not lead shard 0. If it does later, it waits again.
func (b *balancer) rest() { b.resting, b.silent = time.Time{}, time.Time{} }

// watch ends the move that there is once the replica has moved. It gives up one whose
// node is silent, unless the old replica is on its way out already.
func (b *balancer) watch(now time.Time, d *Directory, s observed) string {
	m := d.Move
	place := d.Places[m.Shard]
	if place == nil || !contains(place.Targets, m.To) || contains(place.Targets, m.From) {
		d.Move = nil
		return fmt.Sprintf("other nodes than balancing has chosen get shard %d", m.Shard)
	}
	if !needsStep(d, place) {
		d.Move = nil
		return "moved " + m.String()
	}
	if _, heard := s.nodes[m.To]; heard {
		b.silent = time.Time{}
		return ""
	}
	if b.silent.IsZero() {
		b.silent = now
	}
	_, old := d.replicaOn(m.Shard, m.From)
	if now.Sub(b.silent) < giveUpTime || old == nil || old.State != Voting || !d.usable(m.From) {
		return ""
	}
	d.retarget(m.Shard, m.To, m.From)
	d.Move = nil
	return fmt.Sprintf("shard %d stays on node %d: node %d is silent", m.Shard, m.From, m.To)
}

// fullness is of a node that may have replicas.
type fullness struct {
	number   uint64
	share    float64 // Of what all nodes have.
	replicas int
	cost
}

// measure returns the fullness of nodes, the fullest first, and the share of a replica
// of each shard. It is nil if a shard is not known.
func measure(d *Directory, s observed) (nodes []fullness, shares map[uint64]float64) {
	var all cost
	shares = map[uint64]float64{}
	for _, shard := range d.shardNumbers() {
		if shard == directoryShard {
			continue
		}
		one, known := s.shards[shard]
		if !known {
			return nil, nil
		}
		replicas := float64(len(d.Places[shard].Targets))
		all.bytes += (one.bytes + leastBytes) * replicas
		all.rate += (one.rate + leastRate) * replicas
	}
	for _, number := range d.numbers() {
		if d.usable(number) {
			nodes = append(nodes, fullness{number: number})
		}
	}
	for _, shard := range d.shardNumbers() {
		if shard == directoryShard {
			continue
		}
		one := s.shards[shard]
		shares[shard] = (one.bytes+leastBytes)/all.bytes/2 + (one.rate+leastRate)/all.rate/2
		for i := range nodes {
			if contains(d.Places[shard].Targets, nodes[i].number) {
				nodes[i].share += shares[shard]
				nodes[i].replicas++
				nodes[i].bytes += one.bytes
				nodes[i].rate += one.rate
			}
		}
	}
	sort.SliceStable(nodes, func(i, j int) bool { return nodes[i].share > nodes[j].share })
	return nodes, shares
}

// pickMove returns the move that makes the fullest node and the emptiest one most
// alike, or two others if these have none. It is nil if no move is worth it.
// Each move makes the sum of the squares of all shares smaller, so that moves end.
func pickMove(d *Directory, s observed) (best *Move) {
	nodes, shares := measure(d, s)
	for _, from := range nodes {
		for i := len(nodes) - 1; i >= 0; i-- {
			to := nodes[i]
			room := s.nodes[to.number] // None, if it is not heard.
			difference := from.share - to.share
			if difference <= evenPart*from.share {
				break
			}
			most := 0.0
			for _, shard := range d.shardNumbers() {
				if shard == directoryShard || !d.movable(shard, from.number, to.number, s) ||
					roomFactor*(s.shards[shard].bytes+leastBytes) > room {
					continue
				}
				share := shares[shard]
				smaller := difference - math.Abs(difference-2*share)
				if smaller > max(leastOfReplica*share, leastOfDifference*difference, most) {
					most, best = smaller, &Move{shard, from.number, to.number, compare(from, to)}
				}
			}
			if best != nil {
				return best
			}
		}
	}
	return nil
}

// movable says whether a shard is on one node and not on the other, and all of its
// replicas can take part.
func (d *Directory) movable(shard, from, to uint64, s observed) bool {
	place := d.Places[shard]
	if !contains(place.Targets, from) || contains(place.Targets, to) {
		return false
	}
	for _, target := range place.Targets {
		if _, heard := s.nodes[target]; !heard {
			return false
		}
	}
	return true
}

// compare says how full two nodes are.
func compare(from, to fullness) string {
	return fmt.Sprintf("%s against %s, %s/s written against %s/s, and %d replicas against %d",
		inUnits(from.bytes), inUnits(to.bytes), inUnits(from.rate), inUnits(to.rate), from.replicas, to.replicas)
}

// inUnits is a number of bytes, such as 1.2 GiB.
func inUnits(bytes float64) string {
	units := []string{"B", "KiB", "MiB", "GiB", "TiB"}
	at := 0
	for ; bytes >= 1024 && at < len(units)-1; at++ {
		bytes /= 1024
	}
	if at == 0 {
		return fmt.Sprintf("%.0f B", bytes)
	}
	return fmt.Sprintf("%.1f %s", bytes, units[at])
}

// observe asks what this node knows of all of them.
func (n *Node) observe(d *Directory) observed {
	s := observed{map[uint64]cost{}, map[uint64]float64{}}
	for number := range d.Nodes {
		if !n.alive(number) {
			continue
		}
		status := n.lastOf(number).status
		if number == n.number {
			status = n.status()
		}
		s.nodes[number] = float64(status.Room)
		for shard, one := range status.Shards {
			if known := s.shards[shard]; one.Weighed {
				s.shards[shard] = cost{max(known.bytes, float64(one.Bytes)), max(known.rate, float64(one.Rate))}
			}
		}
	}
	return s
}

// weight is what a replica here costs. The loop `weigh` replaces it.
type weight struct {
	at      time.Time
	written uint64
	cost
}

// next is the weight after a while. The rate follows that of the while, the faster the
// longer it was.
func (w *weight) next(now time.Time, bytes, written uint64) *weight {
	next := &weight{now, written, cost{float64(bytes), 0}}
	if w == nil {
		return next
	}
	next.rate = w.rate
	if took := now.Sub(w.at).Seconds(); took > 0 && written >= w.written {
		rate := float64(written-w.written) / took
		next.rate += (rate - w.rate) * (1 - math.Exp(-took/rateTime.Seconds()))
	}
	return next
}

// weigh keeps the weights of the replicas here, for the others.
func (n *Node) weigh() {
	for {
		n.mutex.RLock()
		running := map[uint64]*localReplica{}
		for shard, one := range n.local {
			running[shard] = one
		}
		n.mutex.RUnlock()
		for shard, one := range running {
			if one.machine == nil {
				continue
			}
			bytes, err := one.machine.Size()
			if err != nil {
				slog.Debug("weighing a replica", "shard", shard, "error", err)
				continue
			}
			one.weight.Store(one.weight.Load().next(time.Now(), bytes, one.machine.Written()))
		}
		n.room.Store(n.roomHere())
		if !n.wait(weighPause) {
			return
		}
	}
}

// roomHere is how many bytes this node's disk has above the reserve. A node without
// memory has room for nothing.
func (n *Node) roomHere() uint64 {
	var disk syscall.Statfs_t
	if n.Full() || syscall.Statfs(n.options.Dir, &disk) != nil {
		return 0
	}
	free := disk.Bavail * uint64(disk.Bsize)
	return free - min(free, n.options.ReserveBytes)
}
