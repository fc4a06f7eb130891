// Varve: a key-value storage engine. MIT licence, see LICENSE.
package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/lni/dragonboat/v3"
	"github.com/lni/dragonboat/v3/config"
	pb "github.com/lni/dragonboat/v3/raftpb"
	sm "github.com/lni/dragonboat/v3/statemachine"

	"varve.example/replicated/machine"
)

// replicaRecord says that a replica was started here. It is written before the
// replica is started, and removed after all of its data is.
type replicaRecord struct {
	Shard, Replica uint64
	Members        map[uint64]string // The first ones; none if it has joined.
	Removing       bool
}

const replicaKey = "replica-"

func (r *replicaRecord) key() string { return fmt.Sprintf("%s%d-%d", replicaKey, r.Shard, r.Replica) }

func (n *Node) writeRecord(r *replicaRecord) error {
	text, err := json.Marshal(r)
	if err != nil {
		return err
	}
	return n.storage.SetRecord(r.key(), string(text))
}

// firstRecord is of the replica of a shard that this node begins with, nil if
// there is none, or it is not known.
func (n *Node) firstRecord(shard uint64) *replicaRecord {
	if n.first == nil || n.first.Places[shard].Replicas[n.number] == nil {
		return nil
	}
	r := &replicaRecord{Shard: shard, Replica: n.number, Members: map[uint64]string{}}
	for id, replica := range n.first.Places[shard].Replicas {
		r.Members[id] = n.first.Nodes[replica.Node].Address
	}
	return r
}

// recordFirst adds the replicas that this node begins with to the records, in
// one write and before any of them is started. Its first start may have been
// interrupted before, and the directory have been changed since.
func (n *Node) recordFirst(records map[string]string) error {
	d := n.Directory()
	added := map[string]string{}
	for shard := uint64(0); shard <= n.Shards(); shard++ {
		r := n.firstRecord(shard)
		if r == nil || records[r.key()] != "" || (d.Revision > 0 && d.Places[shard].Replicas[r.Replica] == nil) {
			continue
		}
		text, err := json.Marshal(r)
		if err != nil {
			return err
		}
		records[r.key()], added[r.key()] = string(text), string(text)
	}
	return n.storage.SetRecords(added)
}

// startRecorded starts the replicas that were started before, and those that a
// first node begins with.
func (n *Node) startRecorded() error {
	records, err := n.storage.Records(replicaKey)
	if err != nil {
		return err
	}
	if len(records) > 0 {
		n.awaitLeaders()
	}
	defer n.running.Store(true)
	if err := n.recordFirst(records); err != nil {
		return err
	}
	for key, text := range records {
		r := &replicaRecord{}
		if err := json.Unmarshal([]byte(text), r); err != nil {
			return fmt.Errorf("record %s: %w", key, err)
		}
		if r.Removing {
			n.removing[r.Shard] = r
			continue
		}
		if err := n.startReplica(r); err != nil {
			return fmt.Errorf("shard %d: %w", r.Shard, err)
		}
	}
	return nil
}

const (
	greetTime = 500 * time.Millisecond // For the other nodes to answer.
	awaitTime = 5 * time.Second        // For messages of the leaders.
)

// awaitLeaders waits until a message of its leader has come for each shard of this
// node. Its replicas would otherwise miss their heartbeats, begin elections, and
// interrupt everybody's requests.
func (n *Node) awaitLeaders() {
	begin := time.Now()
	for n.wait(10*time.Millisecond) && time.Since(begin) < awaitTime {
		waiting := false
		d := n.Directory() // The others may tell a newer one.
		for number := range d.Nodes {
			if _, asked := n.asked.Load(number); !asked && number != n.number {
				waiting = waiting || time.Since(begin) < greetTime
				continue
			}
			if !n.alive(number) {
				continue
			}
			for shard, other := range n.lastOf(number).status.Shards {
				place := d.Places[shard]
				if place == nil || other.Leader != other.Replica || n.led[shard].Load() {
					continue
				}
				if id, replica := d.replicaOn(shard, n.number); id != 0 && replica.State != Adding {
					waiting = true
				}
			}
		}
		if !waiting {
			return
		}
	}
}

// noteLeaders notes which leaders send messages, before the replicas run.
func (n *Node) noteLeaders(messages []pb.Message) {
	if n.running.Load() {
		return
	}
	for _, m := range messages {
		shard := shardOf(m.ClusterId)
		if shard < uint64(len(n.led)) && (m.Type == pb.Heartbeat || m.Type == pb.Replicate) {
			n.led[shard].Store(true)
		}
	}
}

const electionTicks = 10

// startReplica has dragonboat run a replica that is recorded.
func (n *Node) startReplica(r *replicaRecord) error {
	c := config.Config{
		NodeID: r.Replica, ClusterID: clusterOf(r.Shard), CheckQuorum: true,
		ElectionRTT: electionTicks, HeartbeatRTT: 1, OrderedConfigChange: true,
		SnapshotEntries:    n.options.SnapshotEntries,
		CompactionOverhead: n.options.SnapshotEntries / 2,
		MaxInMemLogSize:    n.queueLimit(),
	}
	// Without a vote at first. The group's members say when it has one.
	c.IsObserver = len(r.Members) == 0
	running := &localReplica{id: r.Replica}
	n.current[r.Shard].Store(0)
	var err error
	if r.Shard == directoryShard {
		c.SnapshotEntries, c.CompactionOverhead = 100, 20
		err = n.host.StartCluster(r.Members, len(r.Members) == 0,
			func(uint64, uint64) sm.IStateMachine {
				return &directoryMachine{&Directory{}, n.adopt}
			}, c)
	} else {
		running.machine = machine.New(n.storage, r.Shard)
		running.machine.Fatal = n.options.Fatal
		err = n.host.StartOnDiskCluster(r.Members, len(r.Members) == 0,
			func(uint64, uint64) sm.IOnDiskStateMachine { return running.machine }, c)
	}
	if err != nil {
		return err
	}
	n.mutex.Lock()
	n.local[r.Shard] = running
	n.mutex.Unlock()
	slog.Info("replica started", "shard", r.Shard, "replica", r.Replica, "joins", c.IsObserver)
	return nil
}

// stopReplica ends a replica that is no longer in the directory, for good.
func (n *Node) stopReplica(shard uint64, replica uint64) error {
	r := &replicaRecord{Shard: shard, Replica: replica, Removing: true}
	if err := n.writeRecord(r); err != nil {
		return err
	}
	n.mutex.Lock()
	delete(n.local, shard)
	n.mutex.Unlock()
	// It has stopped by itself if it has seen its removal.
	if err := n.host.StopNode(clusterOf(shard), replica); err != nil {
		slog.Debug("stopping a replica", "shard", shard, "replica", replica, "error", err)
	}
	n.removing[shard] = r
	return n.finishRemoval(shard)
}

// finishRemoval removes the data of a replica that was stopped here, if there
// is one. It fails while a stream of the data is read.
func (n *Node) finishRemoval(shard uint64) error {
	r := n.removing[shard]
	if r == nil {
		return nil
	}
	if err := n.removeData(r); err != nil {
		return err
	}
	delete(n.removing, shard)
	slog.Info("replica removed", "shard", shard, "replica", r.Replica)
	return nil
}

func (n *Node) removeData(r *replicaRecord) error {
	ctx, cancel := context.WithTimeout(n.life, 30*time.Second)
	defer cancel()
	if err := n.host.SyncRemoveData(ctx, clusterOf(r.Shard), r.Replica); err != nil {
		return err
	}
	if r.Shard != directoryShard {
		if err := n.storage.Forget(r.Shard); err != nil {
			return err
		}
	}
	return n.storage.SetRecord(r.key(), "")
}

const followPause = 100 * time.Millisecond

// follow starts and removes replicas as the directory says.
func (n *Node) follow() {
	for n.wait(followPause) {
		if d := n.Directory(); d.Revision > 0 { // Not only what a first node has computed.
			n.followAll(d)
		}
	}
}

func (n *Node) followAll(d *Directory) {
	for shard := uint64(0); shard <= n.Shards(); shard++ {
		if err := n.followShard(d, shard); err != nil && !n.stopped() {
			n.lines.Log(fmt.Sprint("follow ", shard), slog.LevelError, "following the directory", "shard", shard, "error", err)
		}
	}
}

func (n *Node) followShard(d *Directory, shard uint64) error {
	if err := n.finishRemoval(shard); err != nil {
		return err
	}
	n.mutex.RLock()
	running := n.local[shard]
	n.mutex.RUnlock()
	if running != nil {
		if replica := d.Places[shard].Replicas[running.id]; replica != nil && replica.Node == n.number {
			return nil
		}
		return n.stopReplica(shard, running.id)
	}
	id, replica := d.replicaOn(shard, n.number)
	if replica == nil || replica.State == Leaving {
		return nil
	}
	r := &replicaRecord{Shard: shard, Replica: id}
	if id < firstReplica {
		// It is a member from the begin, and would wait for ever to be added.
		if r = n.firstRecord(shard); r == nil || r.Replica != id {
			n.warnOnce(fmt.Sprintf("replica %d of shard %d cannot be started without the first members: "+
				"start this node with its first --peers, --shards and --replicas", id, shard))
			return nil
		}
	}
	if err := n.writeRecord(r); err != nil {
		return err
	}
	return n.startReplica(r)
}

// wait says whether to go on after a pause.
func (n *Node) wait(pause time.Duration) bool {
	select {
	case <-n.stop:
		return false
	case <-time.After(pause):
		return true
	}
}

var errStopping = errors.New("the node is stopping")

// begin begins a task that may take long and watches `stop`. Stop waits for the
// end of it, n.tasks.Done.
func (n *Node) begin() error {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	if n.stopping.Load() {
		return errStopping
	}
	n.tasks.Add(1)
	return nil
}

func (n *Node) awaitTasks() {
	n.mutex.Lock() // Each one has begun by now, or is refused.
	n.mutex.Unlock()
	n.tasks.Wait()
}

// stopped says whether tasks are to end.
func (n *Node) stopped() bool {
	select {
	case <-n.stop:
		return true
	default:
		return false
	}
}

// status is what this node tells the others.
func (n *Node) status() Status {
	s := Status{
		Node: n.number, Cluster: n.cluster, Client: n.options.Client, Token: n.token,
		Announce: n.options.Announce,
		Revision: n.Directory().Revision, Shards: map[uint64]ShardStatus{},
		Stopping: n.stopping.Load(), Converts: n.options.Convert, Room: n.room.Load(),
	}
	n.noteVotes()
	n.mutex.RLock()
	defer n.mutex.RUnlock()
	for shard, running := range n.local {
		s.Shards[shard] = n.statusHere(shard, running)
	}
	return s
}

// noteVotes notes which replicas of this node know of their vote. They have applied the
// change that gave it to them, and know it after a restart, too.
func (n *Node) noteVotes() {
	info := n.host.GetNodeHostInfo(dragonboat.NodeHostInfoOption{SkipLogInfo: true})
	if info == nil {
		return // It is closed.
	}
	votes := map[uint64]uint64{}
	for _, group := range info.ClusterInfoList {
		if _, one := group.Nodes[group.NodeID]; one {
			votes[group.ClusterID] = group.NodeID
		}
	}
	n.votes.Store(&votes)
}

func (n *Node) statusHere(shard uint64, running *localReplica) ShardStatus {
	one := ShardStatus{Replica: running.id, Steady: n.steady(shard, running)}
	votes := n.votes.Load()
	one.Observes = votes == nil || (*votes)[clusterOf(shard)] != running.id
	if leader, known, err := n.host.GetLeaderID(clusterOf(shard)); err == nil && known {
		one.Leader = leader
	}
	if running.machine != nil {
		one.Applied = running.machine.Applied()
	}
	if w := running.weight.Load(); w != nil {
		one.Weighed, one.Bytes, one.Rate = true, uint64(w.bytes), uint64(w.rate)
	}
	return one
}

// heard takes over what another node says of itself, or returns why it does not:
// it may be of another cluster, or have lost its directory.
func (n *Node) heard(s *Status) (refused string) {
	if s.Cluster != n.cluster {
		return n.otherCluster(s.Cluster)
	}
	if s.Node == 0 {
		return ""
	}
	record := n.Directory().Nodes[s.Node]
	if (s.Node == n.number && s.Token != n.token) ||
		(record != nil && record.Token != "" && record.Token != s.Token) {
		return fmt.Sprintf("node %d of this cluster is another one, or has lost its directory", s.Node)
	}
	if s.Node == n.number {
		return ""
	}
	last := *s
	last.Newer = nil
	n.mutex.Lock()
	n.heardOf[s.Node] = heard{time.Now(), last}
	n.mutex.Unlock()
	if s.Newer != nil {
		n.adopt(s.Newer)
	}
	return ""
}

const (
	exchangePause = 250 * time.Millisecond
	silentAfter   = 3 * time.Second
	goodbyeTime   = 100 * time.Millisecond
)

// exchange tells all other nodes of this one, and hears of them.
func (n *Node) exchange() {
	busy := map[uint64]chan struct{}{}
	pause := func() time.Duration {
		if n.running.Load() {
			return exchangePause
		}
		return exchangePause / 10
	}
	for n.wait(pause()) {
		d := n.Directory()
		mine := n.status()
		for number := range d.Nodes {
			if number == n.number {
				continue
			}
			if last := busy[number]; last != nil {
				select {
				case <-last:
				default:
					continue // It has not answered yet.
				}
			}
			done := make(chan struct{})
			busy[number] = done
			go func() {
				defer close(done)
				defer n.asked.Store(number, true)
				var theirs Status
				told := mine
				if n.revisionOf(number) < d.Revision {
					told.Newer = d // A node that knows of no others cannot ask.
				}
				if n.call(number, "Exchange", told, &theirs, silentAfter) != nil {
					return
				}
				if theirs.Cluster != n.cluster && n.follows(&theirs) {
					return
				}
				if theirs.Refused != "" && theirs.Cluster == n.cluster {
					n.refused(theirs.Refused)
				} else if refused := n.heard(&theirs); refused != "" {
					n.warnOnce("another node is not heard: " + refused)
				}
			}()
		}
	}
}

// alive says whether a node was heard of lately.
func (n *Node) alive(number uint64) bool {
	if number == n.number {
		return true
	}
	last := n.lastOf(number)
	return time.Since(last.at) < silentAfter && !last.status.Stopping
}

// lastOf is what another node has last said of itself.
func (n *Node) lastOf(number uint64) heard {
	n.mutex.RLock()
	defer n.mutex.RUnlock()
	return n.heardOf[number]
}

// sayGoodbye has the other nodes send their requests elsewhere, and waits for
// those that are on their way.
func (n *Node) sayGoodbye() {
	mine := n.status()
	var group sync.WaitGroup
	for number := range n.Directory().Nodes {
		if number != n.number && n.alive(number) {
			group.Add(1)
			go func() {
				defer group.Done()
				n.call(number, "Exchange", mine, &Status{}, time.Second)
			}()
		}
	}
	group.Wait()
	time.Sleep(goodbyeTime)
}

// statusOf is what is known of a replica of a node that is alive.
func (n *Node) statusOf(number, shard uint64) (ShardStatus, bool) {
	n.mutex.RLock()
	defer n.mutex.RUnlock()
	if number == n.number {
		running := n.local[shard]
		if running == nil {
			return ShardStatus{}, false
		}
		return n.statusHere(shard, running), true
	}
	last := n.heardOf[number]
	one, ok := last.status.Shards[shard]
	return one, ok && time.Since(last.at) < silentAfter && !last.status.Stopping
}

// leaderNode is the node that leads a shard, 0 if it is not known.
func (n *Node) leaderNode(shard uint64) uint64 {
	place := n.Directory().Places[shard]
	if place == nil {
		return 0
	}
	var votes = map[uint64]int{}
	var best uint64
	for _, replica := range place.Replicas {
		one, known := n.statusOf(replica.Node, shard)
		leader := place.Replicas[one.Leader]
		if !known || leader == nil {
			continue
		}
		votes[leader.Node]++
		if leader.Node == replica.Node {
			votes[leader.Node] += 10 // It says so itself.
		}
		if best == 0 || votes[leader.Node] > votes[best] {
			best = leader.Node
		}
	}
	return best
}

// describe is a line on each shard, for operators.
func (n *Node) describe() []string {
	d := n.Directory()
	var lines []string
	for _, number := range d.numbers() {
		record, state := d.Nodes[number], "up"
		if !n.alive(number) {
			state = "silent"
		}
		held := len(d.holds(number))
		if record.Draining {
			state += ",draining"
			if held == 0 {
				state = "drained"
			}
		}
		led := 0
		for shard := range d.Places {
			if n.leaderNode(shard) == number {
				led++
			}
		}
		bytes := uint64(0)
		for shard := range d.Places {
			one, _ := n.statusOf(number, shard)
			bytes += one.Bytes
		}
		lines = append(lines, fmt.Sprintf("node=%d address=%s clients=%s state=%s replicas=%d leads=%d bytes=%d",
			number, record.Address, record.Client, state, held, led, bytes))
	}
	for _, shard := range d.shardNumbers() {
		place := d.Places[shard]
		var replicas []string
		for _, id := range sortedKeys(place.Replicas) {
			replica := place.Replicas[id]
			applied := "-"
			if one, known := n.statusOf(replica.Node, shard); known {
				applied = fmt.Sprint(one.Applied)
			}
			replicas = append(replicas, fmt.Sprintf("%d:%s:%s", replica.Node, replica.State, applied))
		}
		lines = append(lines, fmt.Sprintf("shard=%d leader=%d targets=%s replicas=%s", shard,
			n.leaderNode(shard), strings.Trim(strings.ReplaceAll(fmt.Sprint(place.Targets), " ", ","), "[]"),
			strings.Join(replicas, ",")))
	}
	if d.Move != nil {
		lines = append(lines, "moving "+d.Move.String())
	}
	return append(lines, fmt.Sprintf("revision=%d settled=%t", d.Revision, d.settled()))
}

func sortedKeys[V any](of map[uint64]V) []uint64 {
	var keys []uint64
	for key := range of {
		keys = append(keys, key)
	}
	sortNumbers(keys)
	return keys
}
