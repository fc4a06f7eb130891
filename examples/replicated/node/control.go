// Varve: a key-value storage engine. MIT licence, see LICENSE.
package node

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"
)

// The node that leads shard 0 moves replicas to where the directory wants
// them, a step at a time. Each step can be repeated, and the directory has all
// that the next leader of shard 0 needs to continue.

const (
	controlPause = 200 * time.Millisecond
	balancePause = time.Second
	maxAdding    = 2    // Replicas that are filled at a time.
	nearEnough   = 2000 // Entries that a replica may lack when it is given a vote.
)

// control is the loop. On other nodes it does nothing.
func (n *Node) control() {
	var balanced time.Time
	for n.wait(controlPause) {
		if !n.leadsNow(directoryShard) || n.stopping.Load() {
			n.balancer.rest()
			continue
		}
		d, err := n.readDirectory()
		if err == nil {
			err = n.controlStep(d)
		}
		if err != nil {
			slog.Warn("moving replicas", "error", err)
		}
		if err == nil && d.settled() && time.Since(balanced) > balancePause {
			balanced = time.Now()
			n.balanceLeaders(d)
		}
	}
}

// readDirectory returns the directory after all changes so far.
func (n *Node) readDirectory() (*Directory, error) {
	answer, _, err := n.Read(directoryShard, directoryQuery{}, false)
	if err != nil {
		return nil, err
	}
	return answer.(*Directory), nil
}

var errConflict = errors.New("the directory was changed at the same time")

// propose replaces the directory, unless it has changed.
func (n *Node) propose(from uint64, to *Directory) error {
	to.Cluster = n.cluster // Its layout may be newer.
	text, err := json.Marshal(change{from, to})
	if err != nil {
		return err
	}
	data, err := n.Propose(directoryShard, text)
	if err == nil && (len(data) != 1 || data[0] != changeDone) {
		err = errConflict
	}
	return err
}

// update changes the directory, if need be again from a newer one.
func (n *Node) update(edit func(*Directory) error) error {
	for end := time.Now().Add(5 * n.options.Timeout); ; {
		d, err := n.readDirectory()
		if err != nil {
			return err
		}
		if d.Revision == 0 {
			err = errors.New("the cluster has just been created; try again")
		} else {
			next := d.copy()
			if err = edit(next); err != nil {
				return err
			}
			err = n.propose(d.Revision, next)
		}
		if !errors.Is(err, errConflict) || time.Now().After(end) {
			return err
		}
	}
}

// controlStep does the next steps for all shards.
func (n *Node) controlStep(d *Directory) error {
	if d.Revision == 0 {
		if n.first == nil {
			return nil
		}
		return n.propose(0, n.first)
	}
	next := d.copy()
	changed := next.heal(n.alive) || d.Cluster != n.cluster
	changed = n.introduce(next) || changed
	balanced := ""
	if n.balancer.pause > 0 || next.Move != nil {
		balanced = n.balancer.step(time.Now(), next, n.observe(next))
	}
	var failure error
	shards := next.shardNumbers()
	inspected := n.inspectedNow(shards)
	for _, shard := range shards {
		if n.stopping.Load() {
			break
		}
		edited, err := n.shardStep(next, shard, inspected == shard)
		changed = changed || edited
		if err != nil {
			failure = fmt.Errorf("shard %d: %w", shard, err)
		}
	}
	if changed || balanced != "" {
		if err := n.propose(d.Revision, next); err != nil {
			return err
		}
		if balanced != "" {
			slog.Info(balanced)
		}
	}
	return failure
}

// inspectPause is between two shards whose members are compared with the
// directory although it says that they are where they belong.
const inspectPause = time.Second

const noShard = ^uint64(0)

// inspectedNow is the shard whose turn it is, if it is time.
func (n *Node) inspectedNow(shards []uint64) uint64 {
	if time.Since(n.inspected) < inspectPause || len(shards) == 0 {
		return noShard
	}
	n.inspected = time.Now()
	n.inspections++
	return shards[n.inspections%len(shards)]
}

// introduce records what the nodes say of themselves, and says whether that is
// new. A token is never replaced: who has another one is not the node that the
// votes and acknowledgements of this number are from.
func (n *Node) introduce(next *Directory) bool {
	changed := false
	for number, record := range next.Nodes {
		client, token := n.introduction(number)
		switch {
		case client == "" || (record.Client == client && record.Token == token):
		case record.Token != "" && record.Token != token:
			slog.Error("a node is not the one of the directory", "node", number)
		default:
			record.Client, record.Token, changed = client, token, true
		}
	}
	return changed
}

// introduction is what a node says of itself.
func (n *Node) introduction(number uint64) (client, token string) {
	if number == n.number {
		return n.options.Client, n.token
	}
	last := n.lastOf(number).status
	return last.Client, last.Token
}

// members asks a node that serves the shard who is in its group.
func (n *Node) members(d *Directory, shard uint64) (*Members, uint64, error) {
	asked := n.candidatesFor(d, shard)
	for _, number := range asked {
		var members Members
		if err := n.call(number, "Members", shard, &members, n.options.Timeout); err == nil {
			return &members, number, nil
		}
	}
	return nil, 0, fmt.Errorf("none of the nodes %v answers", asked)
}

// candidatesFor are nodes with a vote that are alive, the leader first.
func (n *Node) candidatesFor(d *Directory, shard uint64) []uint64 {
	leader := n.leaderNode(shard)
	var numbers []uint64
	for _, id := range sortedKeys(d.Places[shard].Replicas) {
		replica := d.Places[shard].Replicas[id]
		if replica.State == Adding || d.Nodes[replica.Node] == nil || !n.alive(replica.Node) {
			continue
		}
		if replica.Node == leader {
			numbers = append([]uint64{replica.Node}, numbers...)
		} else {
			numbers = append(numbers, replica.Node)
		}
	}
	return numbers
}

// shardStep does one step for a shard, or finds that there is none. It says
// whether it has edited the directory.
func (n *Node) shardStep(d *Directory, shard uint64, inspect bool) (bool, error) {
	place := d.Places[shard]
	if !needsStep(d, place) && !inspect {
		return false, nil
	}
	members, asked, err := n.members(d, shard)
	if err != nil {
		return false, err
	}
	for _, id := range sortedKeys(place.Replicas) {
		if members.Removed[id] {
			delete(place.Replicas, id)
			return true, nil
		}
	}
	if stray, err := n.strayStep(d, shard, members, asked); stray || err != nil {
		return false, err
	}
	// Replicas that are to go come first: theirs may be the address of a new one.
	for _, id := range sortedKeys(place.Replicas) {
		replica := place.Replicas[id]
		if d.Nodes[replica.Node] == nil || replica.State == Leaving {
			return n.removeStep(d, shard, id, members, asked)
		}
	}
	for _, id := range sortedKeys(place.Replicas) {
		replica := place.Replicas[id]
		if replica.State != Adding {
			continue
		}
		if !contains(place.Targets, replica.Node) {
			replica.leave(d)
			return true, nil
		}
		return n.addStep(d, shard, id, members, asked)
	}
	adding := 0
	for _, other := range d.Places {
		for _, replica := range other.Replicas {
			if replica.State == Adding && n.alive(replica.Node) {
				adding++
			}
		}
	}
	for _, target := range place.Targets {
		if id, _ := d.replicaOn(shard, target); id != 0 {
			continue
		}
		if adding >= maxAdding || !n.alive(target) {
			return false, nil
		}
		d.LastReplica++
		place.Replicas[d.LastReplica] = &Replica{Node: target, State: Adding}
		slog.Info("adding a replica", "shard", shard, "replica", d.LastReplica, "node", target)
		return true, nil
	}
	for _, id := range sortedKeys(place.Replicas) {
		if replica := place.Replicas[id]; !contains(place.Targets, replica.Node) {
			replica.leave(d)
			slog.Info("removing a replica", "shard", shard, "replica", id, "node", replica.Node)
			return true, nil
		}
	}
	return false, nil
}

// strayStep takes out a member that the directory does not list: a change that
// was given up may be done late, when its replica is no longer wanted. It says
// whether there is one.
func (n *Node) strayStep(d *Directory, shard uint64, members *Members, asked uint64) (bool, error) {
	for _, id := range append(sortedKeys(members.Voters), sortedKeys(members.Observers)...) {
		if d.Places[shard].Replicas[id] != nil {
			continue
		}
		// Another node may lead the directory by now, and have added it.
		now, err := n.readDirectory()
		if err != nil || now.Places[shard].Replicas[id] != nil {
			return true, err
		}
		if _, votes := members.Voters[id]; votes && !n.canSpare(d, shard, id, members) {
			return true, nil
		}
		slog.Info("removing a member that is not wanted", "shard", shard, "replica", id)
		m := Membership{Shard: shard, Kind: remove, Replica: id, After: members.Change}
		return true, n.call(asked, "Change", m, &struct{}{}, n.options.Timeout+time.Second)
	}
	return false, nil
}

func needsStep(d *Directory, place *Place) bool {
	if len(place.Replicas) != len(place.Targets) {
		return true
	}
	for _, replica := range place.Replicas {
		if replica.State != Voting || d.Nodes[replica.Node] == nil || !contains(place.Targets, replica.Node) {
			return true
		}
	}
	return false
}

// addStep brings a replica to its vote.
func (n *Node) addStep(d *Directory, shard, id uint64, members *Members, asked uint64) (bool, error) {
	replica := d.Places[shard].Replicas[id]
	m := Membership{Shard: shard, Replica: id, Address: d.Nodes[replica.Node].Address, After: members.Change}
	if _, votes := members.Voters[id]; votes {
		if !n.canVote(replica.Node, shard, id) {
			return false, nil
		}
		replica.State = Voting
		slog.Info("replica votes", "shard", shard, "replica", id, "node", replica.Node)
		return true, nil
	}
	if _, observes := members.Observers[id]; !observes {
		m.Kind = addObserver
		return false, n.call(asked, "Change", m, &struct{}{}, n.options.Timeout+time.Second)
	}
	one, known := n.statusOf(replica.Node, shard)
	if !known || one.Replica != id {
		return false, nil // It is not running yet.
	}
	newest := uint64(0)
	for _, other := range d.Places[shard].Replicas {
		if status, known := n.statusOf(other.Node, shard); known {
			newest = max(newest, status.Applied)
		}
	}
	if one.Applied+nearEnough < newest || (newest > 0 && one.Applied == 0) {
		return false, nil
	}
	m.Kind = addVoter
	return false, n.call(asked, "Change", m, &struct{}{}, n.options.Timeout+time.Second)
}

// removeStep takes a replica out of its group.
func (n *Node) removeStep(d *Directory, shard, id uint64, members *Members, asked uint64) (bool, error) {
	place := d.Places[shard]
	replica := place.Replicas[id]
	_, votes := members.Voters[id]
	_, observes := members.Observers[id]
	if !votes && !observes {
		delete(place.Replicas, id)
		return true, nil
	}
	if votes {
		if !n.canSpare(d, shard, id, members) {
			return false, nil
		}
		// One that was removed already steps down when its replica goes.
		if d.Nodes[replica.Node] != nil && n.leaderNode(shard) == replica.Node && n.alive(replica.Node) {
			return false, n.moveLeader(d, shard, replica.Node)
		}
	}
	if d.Nodes[replica.Node] != nil && n.alive(replica.Node) {
		// Its node must know that it sends requests elsewhere.
		if n.revisionOf(replica.Node) < replica.Since {
			return false, nil
		}
		var under int
		err := n.call(replica.Node, "InFlight", shard, &under, n.options.Timeout)
		if err != nil || under > 0 {
			return false, err
		}
	}
	m := Membership{Shard: shard, Kind: remove, Replica: id, After: members.Change}
	return false, n.call(asked, "Change", m, &struct{}{}, n.options.Timeout+time.Second)
}

// canSpare says whether those that stay are enough of each other.
func (n *Node) canSpare(d *Directory, shard, id uint64, members *Members) bool {
	stay, alive := 0, 0
	for voter := range members.Voters {
		replica := d.Places[shard].Replicas[voter]
		if voter == id {
			continue
		}
		stay++
		if replica != nil && n.canVote(replica.Node, shard, voter) {
			alive++
		}
	}
	return alive > stay/2
}

// canVote says whether a replica runs, and knows of its vote. Until it has applied the
// change that gives it one, it answers no candidate. If it were counted before, and a
// node were lost then, the others could wait for ever for its vote in order to tell it.
func (n *Node) canVote(number, shard, id uint64) bool {
	one, known := n.statusOf(number, shard)
	return known && one.Replica == id && !one.Observes
}

func (n *Node) revisionOf(number uint64) uint64 {
	if number == n.number {
		return n.Directory().Revision
	}
	return n.lastOf(number).status.Revision
}

// moveLeader has a shard be led by another node, the one that leads the fewest.
func (n *Node) moveLeader(d *Directory, shard, from uint64) error {
	leads := n.leads(d)
	best, least := uint64(0), 0
	for _, id := range sortedKeys(d.Places[shard].Replicas) {
		replica := d.Places[shard].Replicas[id]
		if replica.Node == from || replica.State != Voting || !n.upToDate(d, shard, replica.Node) {
			continue
		}
		if best == 0 || leads[replica.Node] < least {
			best, least = id, leads[replica.Node]
		}
	}
	if best == 0 {
		return errors.New("there is no other node that can lead")
	}
	return n.call(from, "Transfer", Transfer{shard, best}, &struct{}{}, n.transferTime()+2*time.Second)
}

// upToDate says whether a node's replica can lead at once.
func (n *Node) upToDate(d *Directory, shard, number uint64) bool {
	one, known := n.statusOf(number, shard)
	if !known || !one.Steady {
		return false
	}
	for _, replica := range d.Places[shard].Replicas {
		if other, known := n.statusOf(replica.Node, shard); known && other.Applied > one.Applied+nearEnough {
			return false
		}
	}
	return true
}

// leads is how many shards each node leads.
func (n *Node) leads(d *Directory) map[uint64]int {
	leads := map[uint64]int{}
	for shard := range d.Places {
		if leader := n.leaderNode(shard); leader != 0 && shard != directoryShard {
			leads[leader]++
		}
	}
	return leads
}

// balanceLeaders moves the leadership of one shard, if a node leads at least
// two more than another one that could lead it.
func (n *Node) balanceLeaders(d *Directory) {
	leads := n.leads(d)
	for _, shard := range d.shardNumbers() {
		from := n.leaderNode(shard)
		if shard == directoryShard || from == 0 || !n.alive(from) {
			continue
		}
		for _, replica := range d.Places[shard].Replicas {
			if replica.State == Voting && leads[from]-leads[replica.Node] >= 2 &&
				n.upToDate(d, shard, replica.Node) {
				if err := n.moveLeader(d, shard, from); err != nil {
					slog.Warn("moving a leader", "shard", shard, "error", err)
				}
				return
			}
		}
	}
}

var errAddressTaken = errors.New("the address is another node's")

// takeIn gives a number to a node that joins. One that asks again gets the same.
func (n *Node) takeIn(request JoinRequest) (number uint64, d *Directory, err error) {
	err = n.update(func(next *Directory) error {
		if next.Conversion != nil && !n.hasSlots() {
			return errConverting
		}
		for other, record := range next.Nodes {
			if record.Token == request.Token {
				number = other
				return nil
			}
			if record.Address == request.Address {
				return fmt.Errorf("%w: %s is node %d, which must be removed first", errAddressTaken, request.Address, other)
			}
		}
		next.LastNode++
		number = next.LastNode
		next.Nodes[number] = &NodeRecord{
			Address: request.Address, Client: request.Client, Token: request.Token,
		}
		return nil
	})
	if err == nil {
		d, err = n.readDirectory()
	}
	return number, d, err
}

// Spread has all shards spread evenly over the nodes.
func (n *Node) Spread() error {
	return n.update(func(next *Directory) error {
		next.spread(n.alive)
		return nil
	})
}

// Drain moves all replicas of a node elsewhere, or takes that back.
func (n *Node) Drain(number uint64, drain bool) error {
	return n.update(func(next *Directory) error {
		if next.Nodes[number] == nil {
			return fmt.Errorf("there is no node %d", number)
		}
		next.Nodes[number].Draining = drain
		if left := len(next.load()); drain && left < next.Replicas && left < len(next.Nodes) {
			for _, place := range next.Places {
				if len(place.Targets) > left {
					return fmt.Errorf("%d nodes would be left for %d replicas: join one first", left, len(place.Targets))
				}
			}
		}
		next.heal(n.alive)
		return nil
	})
}

// Remove takes a node out for good: one that was drained, or is lost.
func (n *Node) Remove(number uint64) error {
	return n.update(func(next *Directory) error {
		if next.Nodes[number] == nil {
			return fmt.Errorf("there is no node %d", number)
		}
		if n.alive(number) && len(next.holds(number)) > 0 {
			return fmt.Errorf("node %d is up and has replicas: drain it first", number)
		}
		if !n.hearsOthers(next, number) {
			return errors.New("this node hears fewer than half of the others, and cannot tell who is up")
		}
		delete(next.Nodes, number)
		next.heal(n.alive)
		return nil
	})
}

// hearsOthers says whether this node hears at least half of the nodes other
// than itself and one more.
func (n *Node) hearsOthers(d *Directory, but uint64) bool {
	others, heard := 0, 0
	for number := range d.Nodes {
		if number == n.number || number == but {
			continue
		}
		if others++; n.alive(number) {
			heard++
		}
	}
	return 2*heard >= others
}
