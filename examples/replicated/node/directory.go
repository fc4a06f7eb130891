// Varve: a key-value storage engine. MIT licence, see LICENSE.
package node

import (
	"encoding/json"
	"fmt"
	"io"
	"sort"

	sm "github.com/lni/dragonboat/v3/statemachine"
)

// Directory records which nodes there are and where the replicas of shards
// belong. It is replicated by a Raft group of its own, which is shard 0.
//
// A change replaces the whole record, if its revision is still the one that
// the change was made from. All decisions are made by the proposer.
type Directory struct {
	Revision    uint64
	Cluster     string // Its name; empty for one that was made without.
	Shards      uint64
	Replicas    int                    // Wanted for each shard.
	LastNode    uint64                 // The highest number of a node so far.
	LastReplica uint64                 // The highest number of a replica so far.
	Nodes       map[uint64]*NodeRecord // By the node's number.
	Places      map[uint64]*Place      // By shard; 0 is the directory.
	Move        *Move                  `json:",omitempty"` // The one that balancing has begun.
	Conversion  *Conversion            `json:",omitempty"` // Since it has begun, for ever.
}

// NodeRecord is a node of the cluster.
type NodeRecord struct {
	Address  string // For other nodes.
	Client   string // For clients.
	Token    string // Of the directory that the node has joined with.
	Draining bool
}

// Place is where a shard's replicas are, and where they belong.
type Place struct {
	Targets  []uint64 // Nodes, in ascending order.
	Replicas map[uint64]*Replica
}

// State of a replica.
type State int

// A replica is added without a vote, votes once it has caught up, and no
// longer takes requests of its node before it is removed.
const (
	Adding State = iota
	Voting
	Leaving
)

func (s State) String() string { return [...]string{"adding", "voting", "leaving"}[s] }

// Replica has a number that no other replica of any shard has after the first
// ones: Raft never takes back one that was removed.
type Replica struct {
	Node  uint64
	State State
	Since uint64 // The revision at which it became Leaving.
}

func (r *Replica) leave(d *Directory) { r.State, r.Since = Leaving, d.Revision+1 }

const (
	directoryShard   = 0
	directoryCluster = 1 << 32 // dragonboat's number for shard 0.
	firstReplica     = 1 << 20 // Lower numbers are those of the first nodes.
)

func clusterOf(shard uint64) uint64 {
	if shard == directoryShard {
		return directoryCluster
	}
	return shard
}

// shardOf is the inverse of clusterOf.
func shardOf(cluster uint64) uint64 {
	if cluster == directoryCluster {
		return directoryShard
	}
	return cluster
}

// newDirectory is the record at the begin: the replicas of a shard are on
// consecutive nodes, and their numbers are those of the nodes.
func newDirectory(peers map[uint64]string, shards uint64, replicas int) *Directory {
	d := &Directory{
		Shards: shards, Replicas: replicas, LastReplica: firstReplica,
		Nodes: map[uint64]*NodeRecord{}, Places: map[uint64]*Place{},
	}
	var numbers []uint64
	for number, address := range peers {
		d.Nodes[number] = &NodeRecord{Address: address}
		d.LastNode = max(d.LastNode, number)
		numbers = append(numbers, number)
	}
	sortNumbers(numbers)
	for shard := uint64(0); shard <= shards; shard++ {
		place := &Place{Replicas: map[uint64]*Replica{}}
		for i := 0; i < min(replicas, len(numbers)); i++ {
			number := numbers[(int(shard)+i)%len(numbers)]
			place.Targets = append(place.Targets, number)
			place.Replicas[number] = &Replica{Node: number, State: Voting}
		}
		sortNumbers(place.Targets)
		d.Places[shard] = place
	}
	return d
}

func sortNumbers(numbers []uint64) {
	sort.Slice(numbers, func(i, j int) bool { return numbers[i] < numbers[j] })
}

func contains[T comparable](all []T, wanted T) bool {
	for _, one := range all {
		if one == wanted {
			return true
		}
	}
	return false
}

func (d *Directory) copy() *Directory {
	text, err := json.Marshal(d)
	if err != nil {
		panic(err)
	}
	result := &Directory{}
	if err := json.Unmarshal(text, result); err != nil {
		panic(err)
	}
	return result
}

// numbers returns the nodes in order.
func (d *Directory) numbers() []uint64 {
	return sortedKeys(d.Nodes)
}

// replicaOn returns the replica of a shard on a node, 0 if there is none. One
// that is leaving counts only if there is no other.
func (d *Directory) replicaOn(shard, node uint64) (uint64, *Replica) {
	var foundID uint64
	var found *Replica
	for id, replica := range d.Places[shard].Replicas {
		if replica.Node == node && (found == nil || found.State == Leaving) {
			foundID, found = id, replica
		}
	}
	return foundID, found
}

// holds returns the shards with a replica on the node.
func (d *Directory) holds(node uint64) []uint64 {
	var shards []uint64
	for _, shard := range d.shardNumbers() {
		if _, replica := d.replicaOn(shard, node); replica != nil {
			shards = append(shards, shard)
		}
	}
	return shards
}

// usable says whether a node may be given replicas.
func (d *Directory) usable(number uint64) bool {
	record := d.Nodes[number]
	return record != nil && !record.Draining
}

// load is how many shards have each usable node as a target.
func (d *Directory) load() map[uint64]int {
	load := map[uint64]int{}
	for number := range d.Nodes {
		if d.usable(number) {
			load[number] = 0
		}
	}
	for shard, place := range d.Places {
		for _, target := range place.Targets {
			if _, usable := load[target]; usable && shard != directoryShard {
				load[target]++
			}
		}
	}
	return load
}

func (d *Directory) shardNumbers() []uint64 {
	return sortedKeys(d.Places)
}

// heal gives each shard as many targets as are wanted, where there are nodes:
// those that are draining or were removed are replaced by the usable nodes
// with the fewest shards. Nodes that are alive come first. It says whether
// anything was changed.
func (d *Directory) heal(alive func(uint64) bool) bool {
	changed := false
	load := d.load()
	for _, shard := range d.shardNumbers() {
		place := d.Places[shard]
		var kept, going []uint64
		for _, target := range place.Targets {
			if d.usable(target) {
				kept = append(kept, target)
			} else if d.Nodes[target] != nil {
				going = append(going, target)
			}
		}
		for len(kept) < d.Replicas {
			best, found := uint64(0), false
			for _, number := range d.numbers() {
				_, usable := load[number]
				if !usable || contains(kept, number) {
					continue
				}
				better := load[number] < load[best]
				if found && alive(number) != alive(best) {
					better = alive(number)
				}
				if !found || better {
					best, found = number, true
				}
			}
			if !found {
				break
			}
			kept = append(kept, best)
			if shard != directoryShard {
				load[best]++
			}
		}
		// A replica on a node that is draining is better than none.
		for len(kept) < d.Replicas && len(going) > 0 {
			kept, going = append(kept, going[0]), going[1:]
		}
		sortNumbers(kept)
		if fmt.Sprint(kept) != fmt.Sprint(place.Targets) {
			place.Targets, changed = kept, true
		}
	}
	return changed
}

// spread evens out how many shards the usable nodes have, with as few moves as
// that takes.
func (d *Directory) spread(alive func(uint64) bool) {
	d.heal(alive)
	for {
		load := d.load()
		var least, most uint64
		for _, number := range d.numbers() {
			if _, usable := load[number]; !usable {
				continue
			}
			if least == 0 || load[number] < load[least] {
				least = number
			}
			if most == 0 || load[number] > load[most] {
				most = number
			}
		}
		if least == 0 || load[most]-load[least] < 2 || !d.moveOne(most, least) {
			return
		}
	}
}

// moveOne moves a target from node to node.
func (d *Directory) moveOne(from, to uint64) bool {
	for _, shard := range d.shardNumbers() {
		place := d.Places[shard]
		if shard == directoryShard || !contains(place.Targets, from) || contains(place.Targets, to) {
			continue
		}
		d.retarget(shard, from, to)
		return true
	}
	return false
}

// retarget replaces a target of a shard.
func (d *Directory) retarget(shard, from, to uint64) {
	targets := d.Places[shard].Targets
	for i := range targets {
		if targets[i] == from {
			targets[i] = to
		}
	}
	sortNumbers(targets)
}

// settled says whether the replicas of all shards are where they belong.
func (d *Directory) settled() bool {
	for _, place := range d.Places {
		if len(place.Replicas) != len(place.Targets) {
			return false
		}
		for _, replica := range place.Replicas {
			if replica.State != Voting || !contains(place.Targets, replica.Node) {
				return false
			}
		}
	}
	return true
}

// change is a proposal to the directory.
type change struct {
	From uint64 // The revision that it was made from.
	To   *Directory
}

const (
	changeDone     = 1
	changeConflict = 2
)

// directoryQuery asks for the directory.
type directoryQuery struct{}

// directoryMachine is the state of shard 0. It is in memory, and dragonboat
// keeps its log and its snapshots.
type directoryMachine struct {
	current *Directory
	adopt   func(*Directory) // Called after each change.
}

var _ sm.IStateMachine = (*directoryMachine)(nil)

func (m *directoryMachine) Update(command []byte) (sm.Result, error) {
	var c change
	if err := json.Unmarshal(command, &c); err != nil || c.To == nil {
		return sm.Result{}, nil // Every replica passes over it.
	}
	if c.From != m.current.Revision {
		return sm.Result{Value: changeConflict, Data: []byte{changeConflict}}, nil
	}
	c.To.Revision = c.From + 1
	m.current = c.To
	m.adopt(m.current)
	return sm.Result{Value: changeDone, Data: []byte{changeDone}}, nil
}

func (m *directoryMachine) Lookup(interface{}) (interface{}, error) { return m.current, nil }

func (m *directoryMachine) SaveSnapshot(to io.Writer, _ sm.ISnapshotFileCollection, _ <-chan struct{}) error {
	return json.NewEncoder(to).Encode(m.current)
}

func (m *directoryMachine) RecoverFromSnapshot(from io.Reader, _ []sm.SnapshotFile, _ <-chan struct{}) error {
	d := &Directory{}
	if err := json.NewDecoder(from).Decode(d); err != nil {
		return err
	}
	m.current = d
	m.adopt(d)
	return nil
}

func (m *directoryMachine) Close() error { return nil }
