// Varve: a key-value storage engine. MIT licence, see LICENSE.
package node

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"sort"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lni/dragonboat/v3"
	"golang.org/x/sync/errgroup"

	"varve.example/replicated/machine"
	"varve.example/replicated/storage"
)

var (
	errRefused = errors.New("the updates were refused")
	errNotHere = errors.New("this node does not serve the shard")
)

const retryPause = 20 * time.Millisecond

// voting returns the replica of a shard here, if it votes.
func (n *Node) voting(shard uint64) *localReplica {
	n.mutex.RLock()
	running := n.local[shard]
	n.mutex.RUnlock()
	place := n.Directory().Places[shard]
	if running == nil || place == nil {
		return nil
	}
	replica := place.Replicas[running.id]
	if replica == nil || replica.State != Voting {
		return nil
	}
	return running
}

// here returns the replica of a shard that serves requests of this node. One
// that is not steady is passed over: what it passes on to its leader may get
// lost, and its client would have to wait for the end of the time.
func (n *Node) here(shard uint64) *localReplica {
	running := n.voting(shard)
	if running == nil || n.stopping.Load() || !n.steady(shard, running) {
		return nil
	}
	return running
}

// steady says whether a replica leads, or a message has gone to its leader and
// back since that leads.
func (n *Node) steady(shard uint64, running *localReplica) bool {
	l := n.leaders[shard].Load()
	return l != nil && l.replica == running.id && l.leader != 0 &&
		(l.leader == running.id || l.proved.Load())
}

const provePause = 20 * time.Millisecond

// prove sends a message to each leader that is new. dragonboat notices that a
// connection has been lost only when it writes to it, twice.
func (n *Node) prove() {
	trying := make([]atomic.Bool, n.Shards()+1)
	for n.wait(provePause) {
		for shard := range n.leaders {
			l := n.leaders[shard].Load()
			if l != nil && l.leader != 0 && l.leader != l.replica && !l.proved.Load() {
				n.askLeader(uint64(shard), &trying[shard], n.round()*electionTicks/2, func() { l.proved.Store(true) })
			}
		}
	}
}

// askLeader has a message go to the leader of a shard, and calls done if one comes back
// in time. It does nothing while the last question has no answer yet.
func (n *Node) askLeader(shard uint64, asking *atomic.Bool, limit time.Duration, done func()) {
	if asking.Swap(true) {
		return
	}
	go func() {
		defer asking.Store(false)
		request, err := n.host.ReadIndex(clusterOf(shard), limit)
		if err != nil {
			return
		}
		result := <-request.ResultC()
		if result.Completed() {
			done()
		}
		request.Release()
	}()
}

// enter lets a request of a shard pass to this node's replica.
func (n *Node) enter(shard uint64) bool {
	if !n.gates[shard].enter() {
		return false
	}
	// Only now: the replica is not removed while there is a request under way.
	if n.here(shard) == nil {
		n.gates[shard].leave()
		return false
	}
	return true
}

// Propose has a shard apply updates. A Failure says whether they may have been
// applied. What was certainly not taken is tried again until the time is over. The
// leader's node proposes: only there does dragonboat say what it has dropped.
func (n *Node) Propose(shard uint64, updates []byte) (data []byte, err error) {
	if n.isConverting() && shard != directoryShard {
		return nil, errConverting
	}
	return n.proposeAny(shard, updates)
}

func (n *Node) proposeAny(shard uint64, updates []byte) (data []byte, err error) {
	begin := time.Now()
	// A conversion has few proposals, and one may be larger than what clients may send now.
	if n.options.Memory.Total > 0 && shard != directoryShard && !n.isConverting() {
		ctx, cancel := context.WithTimeout(n.life, n.options.Timeout)
		defer cancel()
		if !n.takeMemory(ctx, int64(len(updates))) {
			n.meters[shard].proposals.add(time.Since(begin), errNoMemory)
			return nil, n.explain(shard, true, errNoMemory)
		}
		defer n.use.proposals.Add(-int64(len(updates)))
	}
	if leader := n.leaderNode(shard); n.here(shard) != nil && (leader == n.number || !n.alive(leader)) {
		data, err = n.proposeHere(shard, updates)
	} else {
		err = errNotHere
	}
	if errors.Is(err, errNotHere) {
		var reply Reply
		reply, err = n.forward(Request{Shard: shard, Updates: updates})
		data = reply.Data
	}
	n.meters[shard].proposals.add(time.Since(begin), err)
	return data, n.explain(shard, true, err)
}

// Read asks a machine, if need be again until the time is over: what was on its
// way to a leader that has died is not answered, and is asked again soon. The age
// is how much older than all acknowledged updates a stale answer is at most, or
// UnknownAge.
func (n *Node) Read(shard uint64, query interface{}, stale bool) (answer interface{}, age time.Duration, err error) {
	if n.isConverting() && shard != directoryShard {
		return nil, 0, errConverting
	}
	begin := time.Now()
	if stale {
		answer, age, err = n.readStale(shard, query, n.options.MaxStaleness)
	} else {
		answer, err = n.readCurrent(shard, query)
	}
	n.meters[shard].reads.add(time.Since(begin), err)
	return answer, age, n.explain(shard, false, err)
}

func (n *Node) readCurrent(shard uint64, query interface{}) (interface{}, error) {
	if n.here(shard) != nil {
		if answer, err := n.readHere(shard, query); !errors.Is(err, errNotHere) {
			return answer, err
		}
	}
	reply, err := n.forward(Request{Shard: shard, Query: query})
	return unpack(reply.Answer), err
}

// proposeHere proposes through this node's replica.
func (n *Node) proposeHere(shard uint64, updates []byte) ([]byte, error) {
	if !n.enter(shard) {
		return nil, errNotHere
	}
	defer n.gates[shard].leave()
	ctx, cancel := context.WithTimeout(n.life, n.options.Timeout)
	defer cancel()
	session := n.host.GetNoOPSession(clusterOf(shard))
	for {
		result, err := n.host.SyncPropose(ctx, session, updates)
		if err == nil && result.Value == 0 {
			return nil, errRefused
		}
		if errors.Is(err, dragonboat.ErrClusterNotFound) {
			return nil, errNotHere
		}
		if !notTaken(err) {
			return result.Data, err
		}
		if errors.Is(err, dragonboat.ErrPayloadTooBig) || !pause(ctx) {
			return nil, fmt.Errorf("%w: %v", errNotTaken, err)
		}
	}
}

// readHere asks this node's replica for what was acknowledged before.
func (n *Node) readHere(shard uint64, query interface{}) (interface{}, error) {
	if !n.enter(shard) {
		return nil, errNotHere
	}
	defer n.gates[shard].leave()
	ctx, cancel := context.WithTimeout(n.life, n.options.Timeout)
	defer cancel()
	for {
		attempt, done := context.WithTimeout(ctx, max(n.options.Timeout/4, 2*n.round()))
		asked := time.Since(clock)
		answer, err := n.host.SyncRead(attempt, clusterOf(shard), query)
		done()
		if err == nil {
			n.noteCurrent(shard, asked)
		}
		if errors.Is(err, dragonboat.ErrClusterNotFound) {
			return nil, errNotHere
		}
		if err == nil || !dragonboat.IsTempError(err) || !pause(ctx) {
			return answer, err
		}
	}
}

// pause says whether there is time to try again.
func pause(ctx context.Context) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(retryPause):
	}
	deadline, _ := ctx.Deadline()
	return time.Until(deadline) > retryPause
}

// candidates are the other nodes that serve a shard: the leader first, then
// those that were heard of lately.
func (n *Node) candidates(shard uint64) []uint64 {
	place := n.Directory().Places[shard]
	if place == nil {
		return nil
	}
	leader := n.leaderNode(shard)
	var first, alive, silent []uint64
	for _, id := range sortedKeys(place.Replicas) {
		replica := place.Replicas[id]
		switch {
		case replica.Node == n.number || replica.State != Voting:
		case !n.alive(replica.Node):
			silent = append(silent, replica.Node)
		case replica.Node == leader:
			first = append(first, replica.Node)
		default:
			alive = append(alive, replica.Node)
		}
	}
	return append(append(first, alive...), silent...)
}

// forward sends a request to a node that serves the shard. A read is sent to
// the next one if it fails. An update is only if it certainly was not taken.
func (n *Node) forward(request Request) (Reply, error) {
	ctx, cancel := context.WithTimeout(n.life, n.options.Timeout)
	defer cancel()
	last := fmt.Errorf("%w: no node serves shard %d", errNotTaken, request.Shard)
	request.Cluster = n.cluster
	for {
		for _, number := range n.candidates(request.Shard) {
			var reply Reply
			err := n.call(number, "Do", request, &reply, n.options.Timeout+time.Second)
			if err == nil && reply.Error == "" {
				return reply, nil
			}
			if err == nil && reply.Error == storage.ErrTooLarge.Error() {
				return reply, storage.ErrTooLarge
			}
			if err == nil && reply.Error == errRefused.Error() {
				return reply, errRefused
			}
			if certain := reply.NotHere || reply.NotTaken || errors.Is(err, errNotSent); !certain && request.Query == nil {
				if err == nil {
					err = errors.New(reply.Error)
				}
				return reply, err
			}
			last = fmt.Errorf("%w: node %d: %v %s", errNotTaken, number, err, reply.Error)
			switch {
			case reply.TooOld:
				last = errTooOld
			case reply.NoMemory:
				last = errNoMemory
			}
			if ctx.Err() != nil {
				return Reply{}, last
			}
		}
		if n.here(request.Shard) != nil && request.Query == nil {
			// Perhaps the leader is here by now, or can be reached by Raft's messages.
			data, err := n.proposeHere(request.Shard, request.Updates)
			if !errors.Is(err, errNotHere) && !errors.Is(err, errNotTaken) {
				return Reply{Data: data}, err
			}
			last = errNotTaken
		}
		if !pause(ctx) {
			return Reply{}, last
		}
	}
}

// voters are the nodes whose replicas of a shard vote.
func (n *Node) voters(shard uint64) map[uint64]uint64 {
	voters := map[uint64]uint64{}
	if place := n.Directory().Places[shard]; place != nil {
		for id, replica := range place.Replicas {
			if replica.State != Adding {
				voters[id] = replica.Node
			}
		}
	}
	return voters
}

// transferTime is after how long an attempt to move a leadership has ended. It
// ends after the time of an election.
func (n *Node) transferTime() time.Duration {
	return n.round()*electionTicks*3/2 + 200*time.Millisecond
}

var errNotLeader = errors.New("this node does not lead the shard")

// leadsNow says whether this node's replica of a shard leads, as far as it knows.
func (n *Node) leadsNow(shard uint64) bool {
	n.mutex.RLock()
	running := n.local[shard]
	n.mutex.RUnlock()
	if running == nil {
		return false
	}
	leader, known, err := n.host.GetLeaderID(clusterOf(shard))
	return err == nil && known && leader == running.id
}

// transfer moves the leadership of a shard from this node to a replica. Requests
// wait until it has moved. One move of a shard is done after the other.
func (n *Node) transfer(shard, replica uint64) error {
	n.moves[shard].Lock()
	defer n.moves[shard].Unlock()
	if !n.leadsNow(shard) {
		return fmt.Errorf("shard %d: %w", shard, errNotLeader)
	}
	wait := n.transferTime()
	hold := Hold{shard, rand.Uint64(), wait + drainTime + catchUpTime}
	begin := time.Now()
	err := n.holdAll(hold)
	defer func() {
		hold.Time = 0
		n.holdAll(hold)
	}()
	// What a node that does not answer has under way could get lost. A node that
	// stops moves all the same: without a move, more would get lost.
	if err != nil && !n.stopping.Load() {
		return err
	}
	if err := n.awaitTarget(shard, replica); err != nil {
		return err
	}
	if time.Since(begin) > drainTime+catchUpTime {
		return fmt.Errorf("shard %d: requests would not wait long enough", shard)
	}
	cluster := clusterOf(shard)
	if err := n.host.RequestLeaderTransfer(cluster, replica); err != nil {
		return err
	}
	for end := time.Now().Add(wait); time.Now().Before(end); time.Sleep(2 * time.Millisecond) {
		if leader, known, err := n.host.GetLeaderID(cluster); err == nil && known && leader == replica {
			slog.Info("leadership moved", "shard", shard, "replica", replica)
			return nil
		}
	}
	return fmt.Errorf("shard %d: the leadership has not moved", shard)
}

// holdAll has the requests of a shard wait on all nodes, those that stop too:
// they may have some under way.
func (n *Node) holdAll(h Hold) error {
	var group errgroup.Group
	for _, number := range n.voters(h.Shard) {
		last := n.lastOf(number)
		if number == n.number || time.Since(last.at) >= silentAfter {
			continue
		}
		group.Go(func() error {
			if err := n.call(number, "Hold", h, &struct{}{}, time.Second); err != nil && !last.status.Stopping {
				return fmt.Errorf("shard %d: node %d does not wait: %w", h.Shard, number, err)
			}
			return nil
		})
	}
	n.hold(h)
	return group.Wait()
}

// hold has the requests of a shard wait here.
func (n *Node) hold(h Hold) {
	if h.Time > 0 {
		n.gates[h.Shard].hold(h.Holder, h.Time)
	} else {
		n.gates[h.Shard].release(h.Holder)
	}
}

const catchUpTime = time.Second

// awaitTarget waits until a replica has applied all that this node's has. No
// requests come meanwhile.
func (n *Node) awaitTarget(shard, replica uint64) error {
	number := n.voters(shard)[replica]
	for end := time.Now().Add(catchUpTime); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		var theirs Status
		if err := n.call(number, "Exchange", n.status(), &theirs, time.Second); err != nil {
			return err
		}
		if one := theirs.Shards[shard]; one.Replica == replica && one.Steady && !theirs.Stopping &&
			one.Applied >= n.status().Shards[shard].Applied {
			return nil
		}
	}
	return fmt.Errorf("shard %d: node %d does not catch up", shard, number)
}

// HandOver is for a node that ends without Stop, because something in it does not
// go on. It lets no further requests in, and moves the shards that it leads.
func (n *Node) HandOver() {
	if n.ended.Swap(true) || n.stopping.Swap(true) {
		return
	}
	for _, gate := range n.gates {
		gate.shutDown()
	}
	n.handOver()
	n.sayGoodbye()
}

// handOver gives other nodes the leadership of the shards that this one leads.
func (n *Node) handOver() {
	var group sync.WaitGroup
	for shard := uint64(0); shard <= n.Shards(); shard++ {
		if !n.leadsNow(shard) {
			continue
		}
		group.Add(1)
		go func() {
			defer group.Done()
			// Those that have applied the most come first.
			targets := map[uint64]uint64{}
			for id, number := range n.voters(shard) {
				if one, known := n.statusOf(number, shard); number != n.number && known && one.Steady {
					targets[id] = one.Applied
				}
			}
			ids := sortedKeys(targets)
			sort.SliceStable(ids, func(i, j int) bool { return targets[ids[i]] > targets[ids[j]] })
			for _, id := range ids {
				err := n.transfer(shard, id)
				if err == nil || errors.Is(err, errNotLeader) {
					return
				}
				slog.Warn("handing over", "shard", shard, "error", err)
			}
		}()
	}
	group.Wait()
}

// awaitRequests waits for requests that are under way, but not for long.
func (n *Node) awaitRequests() {
	for end := time.Now().Add(drainTime); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		under := 0
		for _, gate := range n.gates {
			under += gate.count()
		}
		if under == 0 {
			return
		}
	}
}

// streamHere writes the contents of a shard at one moment, which is after all
// that was acknowledged before.
func (n *Node) streamHere(shard uint64, to io.Writer) (machine.Contents, error) {
	if n.here(shard) == nil {
		return machine.Contents{}, errNotHere
	}
	if err := n.begin(); err != nil {
		return machine.Contents{}, err
	}
	defer n.tasks.Done()
	// It takes long, and does not pass the gate: a move of the leadership does
	// not wait for it.
	ctx, cancel := context.WithTimeout(n.life, n.options.Timeout)
	defer cancel()
	answer, err := n.host.SyncRead(ctx, clusterOf(shard), machine.Stream{To: to, Stop: n.stop})
	if err != nil {
		return machine.Contents{}, err
	}
	return answer.(machine.Contents), nil
}

// streamSilence is how long nothing may come of a stream: its source may wait for
// a disk, but not for ever for a node that has gone.
const streamSilence = 30 * time.Second

// stream is streamHere of a node that serves the shard, or what there was at a
// moment if that is not nil.
func (n *Node) stream(shard uint64, at *moment, to io.Writer) (machine.Contents, error) {
	numbers, id := n.candidates(shard), uint64(0)
	switch {
	case at != nil && at.nodes[shard] == n.number:
		return n.streamHeld(shard, at.id, to)
	case at != nil:
		numbers, id = []uint64{at.nodes[shard]}, at.id
	case n.here(shard) != nil:
		return n.streamHere(shard, to)
	}
	err := fmt.Errorf("no node serves shard %d", shard)
	for _, number := range numbers {
		record := n.Directory().Nodes[number]
		if record == nil {
			continue
		}
		var conn net.Conn
		if conn, err = n.dialNode(record.Address, kindStream); err == nil {
			return n.streamFrom(conn, shard, id, to)
		}
	}
	return machine.Contents{}, err
}

// streamFrom reads a shard's stream of another node. The connection is closed
// at the end, or when this node stops.
func (n *Node) streamFrom(plain net.Conn, shard, at uint64, to io.Writer) (contents machine.Contents, err error) {
	done := make(chan struct{})
	defer close(done)
	go func() {
		select {
		case <-n.stop:
		case <-done:
		}
		plain.Close()
	}()
	conn := &watchedConn{Conn: plain, silence: streamSilence}
	if _, err = io.WriteString(conn, n.streamRequest(shard, at)); err != nil {
		return contents, err
	}
	reader := bufio.NewReaderSize(conn, 1<<16)
	if err = machine.CopyStream(to, reader); err == nil {
		_, err = fmt.Fscanf(reader, "%d %d %d %d %d\n", &contents.Applied, &contents.Entries, &contents.Sum,
			&contents.Lasting, &contents.LastingSum)
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = fmt.Errorf("the node at %s has not sent all of shard %d; its log says why", plain.RemoteAddr(), shard)
	}
	return contents, err
}
