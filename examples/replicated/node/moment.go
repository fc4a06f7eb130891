// Varve: a key-value storage engine. MIT licence, see LICENSE.
package node

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/rpc"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"varve.example/replicated/machine"
	"varve.example/replicated/storage"
)

// A moment is one point in time over all shards: a write that was begun after
// another one was acknowledged is in it only if the other one is. All nodes have
// all requests wait, then take a snapshot of each shard, and then let the requests
// go on. What is under way at the begin may be in it or not.
type moment struct {
	id      uint64
	nodes   map[uint64]uint64 // By shard: which has the snapshot.
	dropped chan struct{}
}

// held is a snapshot of a moment. One stream of it is read at a time. It is dropped
// unless whoever has taken the moment says time and again that it is needed.
type held struct {
	sync.Mutex
	snapshot storage.Snapshot // Nil once it was dropped.
	timer    *time.Timer
}

// lastTry is the moment for which requests were let go last. Steps of it that
// arrive later do nothing, because nobody would end what they begin.
type lastTry struct {
	sync.Mutex
	id uint64
}

var errLateStep = errors.New("the attempt to take a moment has ended")

var momentLease = time.Minute // Changed by tests.

type heldKey struct{ id, shard uint64 }

const (
	momentStep     = time.Second    // For a step of all nodes.
	momentPause    = 3 * momentStep // At most, for clients.
	momentAttempts = 5
)

// MomentRequest is a step of taking a moment.
type MomentRequest struct {
	Cluster  string
	Moment   uint64
	Step     momentKind
	Shards   []uint64 // Of takeShards and dropShard.
	Revision uint64   // Of the directory that the nodes are from.
}

type momentKind int

const (
	holdRequests momentKind = iota
	takeShards
	letRequestsGo // Fails if there were requests since holdRequests.
	dropShards
	dropShard // One of them; nodes of older programs keep it until dropShards.
	keepShards
)

// Moment does a step.
func (s *Service) Moment(request MomentRequest, _ *struct{}) error {
	n := s.n
	if request.Cluster != n.cluster {
		return errors.New(n.otherCluster(request.Cluster))
	}
	switch request.Step {
	case holdRequests:
		if n.Directory().Revision != request.Revision {
			return errors.New("the directory is changing")
		}
		n.lastTry.Lock()
		defer n.lastTry.Unlock()
		if n.lastTry.id == request.Moment {
			return errLateStep
		}
		for shard := uint64(1); shard <= n.Shards(); shard++ {
			if !n.gates[shard].holdNew(request.Moment, momentPause) {
				return fmt.Errorf("the leadership of shard %d is moving", shard)
			}
		}
	case takeShards:
		return n.takeShards(request)
	case letRequestsGo:
		n.lastTry.Lock()
		defer n.lastTry.Unlock()
		n.lastTry.id = request.Moment
		passed := false
		for shard := uint64(1); shard <= n.Shards(); shard++ {
			passed = !n.gates[shard].release(request.Moment) || passed
		}
		if passed {
			return errors.New("requests did not wait")
		}
	case dropShards:
		n.eachHeld(request.Moment, func(key heldKey, _ *held) { n.dropHeld(key) })
	case dropShard:
		for _, shard := range request.Shards {
			n.dropHeld(heldKey{request.Moment, shard})
		}
	case keepShards:
		n.eachHeld(request.Moment, func(_ heldKey, one *held) { one.timer.Reset(momentLease) })
	}
	return nil
}

// takeShards takes snapshots that have all that was acknowledged before.
func (n *Node) takeShards(request MomentRequest) error {
	if err := n.begin(); err != nil {
		return err
	}
	defer n.tasks.Done()
	// It ends before whoever asks stops waiting, and drops the moment.
	ctx, cancel := context.WithTimeout(n.life, momentStep*3/4)
	defer cancel()
	var group errgroup.Group
	for _, shard := range request.Shards {
		group.Go(func() error {
			answer, err := n.host.SyncRead(ctx, clusterOf(shard), machine.Moment{})
			if err == nil {
				err = n.holdSnapshot(heldKey{request.Moment, shard}, answer.(storage.Snapshot))
			}
			return err
		})
	}
	return group.Wait()
}

// holdSnapshot keeps one until it is dropped.
func (n *Node) holdSnapshot(key heldKey, snapshot storage.Snapshot) error {
	n.lastTry.Lock()
	defer n.lastTry.Unlock()
	if n.lastTry.id == key.id {
		snapshot.Close()
		return errLateStep
	}
	timer := time.AfterFunc(momentLease, func() { n.dropHeld(key) })
	n.held.Store(key, &held{snapshot: snapshot, timer: timer})
	return nil
}

func (n *Node) eachHeld(id uint64, do func(heldKey, *held)) {
	n.held.Range(func(key, value any) bool {
		if key.(heldKey).id == id {
			do(key.(heldKey), value.(*held))
		}
		return true
	})
}

func (n *Node) dropHeld(key heldKey) {
	if found, ok := n.held.LoadAndDelete(key); ok {
		one := found.(*held)
		one.timer.Stop()
		one.Lock() // A stream of it ends first.
		defer one.Unlock()
		one.snapshot.Close()
		one.snapshot = nil
	}
}

// dropAllHeld is for the end. No stream goes on.
func (n *Node) dropAllHeld() {
	n.held.Range(func(key, _ any) bool {
		n.dropHeld(key.(heldKey))
		return true
	})
}

// streamHeld writes what a shard had at a moment.
func (n *Node) streamHeld(shard, id uint64, to io.Writer) (machine.Contents, error) {
	if err := n.begin(); err != nil {
		return machine.Contents{}, err
	}
	defer n.tasks.Done()
	found, ok := n.held.Load(heldKey{id, shard})
	if !ok {
		return machine.Contents{}, fmt.Errorf("the moment of the backup has gone: "+
			"was the node restarted, or was there no word for %s that it is needed?", momentLease)
	}
	one := found.(*held)
	one.Lock()
	defer one.Unlock()
	if one.snapshot == nil {
		return machine.Contents{}, errors.New("the moment of the backup has ended")
	}
	return machine.StreamOf(one.snapshot, machine.Stream{To: to, Stop: n.stop})
}

// takeMoment takes one, or returns why it cannot be.
func (n *Node) takeMoment() (at *moment, err error) {
	for attempt := 0; attempt < momentAttempts && !n.stopped(); attempt++ {
		begin := time.Now()
		var paused time.Duration
		if at, paused, err = n.tryMoment(); err == nil {
			slog.Info("a moment of all shards was taken", "paused", paused.String(), "took", time.Since(begin).String())
			n.run(func() { n.keepMoment(at) })
			return at, nil
		}
		if lacksMethod(err) {
			break // Of an older program.
		}
		n.wait(200 * time.Millisecond)
	}
	return nil, err
}

// lacksMethod says whether a node does not know what it was called for.
func lacksMethod(err error) bool {
	var told rpc.ServerError
	return errors.As(err, &told) && strings.Contains(string(told), "can't find method")
}

func (n *Node) tryMoment() (*moment, time.Duration, error) {
	d := n.Directory()
	at := &moment{rand.Uint64() | 1, map[uint64]uint64{}, make(chan struct{})}
	shards := map[uint64][]uint64{} // By node: which it takes.
	for _, number := range d.numbers() {
		if len(d.holds(number)) == 0 {
			continue // No request is done there.
		}
		if !n.alive(number) {
			return nil, 0, fmt.Errorf("node %d does not answer or is stopping, and could do requests", number)
		}
		shards[number] = nil
	}
	for shard := uint64(1); shard <= n.Shards(); shard++ {
		number := n.number
		if n.here(shard) == nil {
			candidates := n.candidates(shard)
			if len(candidates) == 0 {
				return nil, 0, fmt.Errorf("no node serves shard %d", shard)
			}
			number = candidates[0]
		}
		at.nodes[shard], shards[number] = number, append(shards[number], shard)
	}
	all := func(step momentKind) error {
		var group errgroup.Group
		for number, mine := range shards {
			group.Go(func() error { return n.doMoment(number, MomentRequest{n.cluster, at.id, step, mine, d.Revision}) })
		}
		return group.Wait()
	}
	begin := time.Now()
	err := all(holdRequests)
	if err == nil {
		err = all(takeShards)
	}
	if failure := all(letRequestsGo); err == nil {
		err = failure
	}
	paused := time.Since(begin)
	if err != nil {
		all(dropShards)
		return nil, 0, err
	}
	return at, paused, nil
}

// doMoment has a node do a step.
func (n *Node) doMoment(number uint64, request MomentRequest) error {
	if number == n.number {
		return (&Service{n}).Moment(request, nil)
	}
	return n.call(number, "Moment", request, &struct{}{}, momentStep)
}

// keepMoment says that a moment is needed, until it is dropped.
func (n *Node) keepMoment(at *moment) {
	for {
		select {
		case <-at.dropped:
			return
		case <-n.stop:
			return
		case <-time.After(momentLease / 4):
			at.tell(n, keepShards)
		}
	}
}

// dropMoment lets the nodes forget a moment.
func (n *Node) dropMoment(at *moment) {
	if at != nil {
		close(at.dropped)
		at.tell(n, dropShards)
	}
}

// dropOfMoment lets a node forget a shard of a moment.
func (n *Node) dropOfMoment(at *moment, shard uint64) {
	if at != nil {
		n.doMoment(at.nodes[shard], MomentRequest{Cluster: n.cluster, Moment: at.id, Step: dropShard, Shards: []uint64{shard}})
	}
}

// tell has all nodes that hold shards of a moment do a step.
func (at *moment) tell(n *Node, step momentKind) {
	nodes := map[uint64]bool{}
	for _, number := range at.nodes {
		nodes[number] = true
	}
	for number := range nodes {
		if err := n.doMoment(number, MomentRequest{Cluster: n.cluster, Moment: at.id, Step: step}); err != nil {
			slog.Warn("a node does not hear whether a moment of a backup is needed", "node", number, "error", err)
		}
	}
}
