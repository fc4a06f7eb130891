// Varve: a key-value storage engine. MIT licence, see LICENSE.
package node

import (
	"errors"
	"sync/atomic"
	"time"

	"varve.example/replicated/storage"
)

// A replica is current at a time if it has applied all that was acknowledged
// before it. Each answer of a leader shows that, at the time of the question. How
// long ago that was is the most that a stale read can be behind. Only this node's
// steady clock is used, which does not jump.

// UnknownAge is of a replica that was not current since the node was started.
const UnknownAge = time.Duration(-1)

// noteCurrent notes that a replica here has all that there was at a time, which
// is since `clock`.
func (n *Node) noteCurrent(shard uint64, at time.Duration) {
	for {
		last := n.current[shard].Load()
		if last >= int64(at) || n.current[shard].CompareAndSwap(last, int64(at)) {
			return
		}
	}
}

// age is how long ago a replica here was last known to be current.
func (n *Node) age(shard uint64) time.Duration {
	if at := n.current[shard].Load(); at != 0 {
		return time.Since(clock) - time.Duration(at)
	}
	return UnknownAge
}

// refreshPause is the time between two questions to the leader of a shard that no
// reads ask.
func (n *Node) refreshPause() time.Duration {
	pause := time.Second
	if n.options.MaxStaleness > 0 {
		pause = min(pause, n.options.MaxStaleness/4)
	}
	return max(pause, 10*time.Millisecond)
}

// refresh keeps the replicas here known to be current while they have leaders.
func (n *Node) refresh() {
	asking := make([]atomic.Bool, n.Shards()+1)
	for n.wait(n.refreshPause()) {
		for shard := uint64(1); shard <= n.Shards(); shard++ {
			if age := n.age(shard); n.voting(shard) == nil || age >= 0 && age < n.refreshPause() {
				continue
			}
			asked := time.Since(clock)
			n.askLeader(shard, &asking[shard], n.round()*electionTicks, func() { n.noteCurrent(shard, asked) })
		}
	}
}

// staleHere reads what this node's replica has, and returns how old that is at
// most. Neither a leader nor the gate of the shard matters.
func (n *Node) staleHere(shard uint64, query interface{}, oldest time.Duration) (interface{}, time.Duration, error) {
	if n.voting(shard) == nil {
		return nil, 0, errNotHere
	}
	at := n.current[shard].Load()
	answer, err := n.host.StaleRead(clusterOf(shard), query)
	if err != nil && !errors.Is(err, storage.ErrTooLarge) {
		return nil, 0, errNotHere // Such as a replica that is just being removed.
	}
	// Only now, because the node may have been stopped during the read.
	age := UnknownAge
	if at != 0 {
		age = time.Since(clock) - time.Duration(at)
	}
	// A replica that lags behind a conversion would lack keys that were there all the time.
	if oldest > 0 && (age < 0 || age > oldest) || age < 0 && n.Directory().Conversion != nil && n.hasSlots() {
		return nil, 0, errTooOld
	}
	return answer, age, err
}

// readStale reads this node's replica, or else one of another node. What is too
// old is asked of the leader.
func (n *Node) readStale(shard uint64, query interface{}, oldest time.Duration) (interface{}, time.Duration, error) {
	answer, age, err := n.staleHere(shard, query, oldest)
	if errors.Is(err, errNotHere) {
		reply, failure := n.forward(Request{Shard: shard, Query: query, Stale: true, Oldest: oldest})
		if age = reply.Age; !reply.Aged {
			age = UnknownAge // Of an older program.
		}
		return unpack(reply.Answer), age, failure
	}
	if errors.Is(err, errTooOld) {
		if answer, err = n.readCurrent(shard, query); err != nil && !errors.Is(err, storage.ErrTooLarge) {
			err = errTooOld
		}
		return answer, 0, err
	}
	return answer, age, err
}
