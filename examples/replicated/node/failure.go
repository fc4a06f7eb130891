// Varve: a key-value storage engine. MIT licence, see LICENSE.
package node

import (
	"errors"
	"fmt"
	"log/slog"

	"github.com/lni/dragonboat/v3"

	"varve.example/replicated/storage"
)

// Failure is why a request of a client has failed. The code is one of Redis, by
// which client libraries decide what to do. The text has no address of a node.
type Failure struct{ code, text string }

func (f *Failure) Error() string { return f.text }

// Code is the first word of the answer.
func (f *Failure) Code() string { return f.code }

// The codes of failures. After all but UnknownOutcome, nothing was done.
const (
	Loading        = "LOADING"     // The node does not know its cluster yet.
	ClusterDown    = "CLUSTERDOWN" // The shard has no leader.
	TryAgain       = "TRYAGAIN"    // The shard is busy, or its nodes do not answer.
	ReadOnly       = "READONLY"    // The node is stopping, and could not pass on a write.
	MasterDown     = "MASTERDOWN"  // A stale read is older than --max-staleness.
	OutOfMemory    = "OOM"         // The memory for proposals is used up.
	UnknownOutcome = "UNKNOWNOUTCOME"
)

// errNotTaken says that updates were certainly not applied, and never will be.
var errNotTaken = errors.New("the updates were not taken")

// errTooOld says that a replica was not current for longer than a stale read may be.
var errTooOld = errors.New("the replica is not current")

// notTaken says whether dragonboat has refused updates without giving them to Raft.
// A leader drops what comes while it hands over; a follower without a leader does
// too. Both say so only to their own node.
func notTaken(err error) bool {
	for _, one := range []error{dragonboat.ErrSystemBusy, dragonboat.ErrClusterNotReady,
		dragonboat.ErrClusterNotInitialized, dragonboat.ErrTimeoutTooSmall, dragonboat.ErrInvalidDeadline,
		dragonboat.ErrPayloadTooBig} {
		if errors.Is(err, one) {
			return true
		}
	}
	return false
}

// explain makes an error for a client of one of a request.
func (n *Node) explain(shard uint64, write bool, err error) error {
	var known *Failure
	if err == nil || errors.Is(err, storage.ErrTooLarge) || errors.Is(err, errRefused) || errors.As(err, &known) {
		return err
	}
	slog.Debug("a request has failed", "shard", shard, "write", write, "error", err)
	certain := !write || errors.Is(err, errNotTaken) || errors.Is(err, errNotHere) || errors.Is(err, errNotSent)
	switch {
	case errors.Is(err, errTooOld):
		return &Failure{MasterDown, fmt.Sprintf("shard %d has no leader, and what this node has is older than --max-staleness", shard)}
	case !certain:
		return &Failure{UnknownOutcome, fmt.Sprintf("shard %d has not answered: the write may have been applied, or may be applied later", shard)}
	case errors.Is(err, errNoMemory):
		return &Failure{OutOfMemory, "there is no memory left for writes; nothing was done"}
	case n.Directory().Revision == 0:
		return &Failure{Loading, "this node does not know its cluster yet; nothing was done"}
	case n.leaderNode(shard) == 0:
		return &Failure{ClusterDown, fmt.Sprintf("shard %d has no leader; nothing was done", shard)}
	case write && n.stopping.Load():
		return &Failure{ReadOnly, "this node is stopping; nothing was done"}
	}
	return &Failure{TryAgain, fmt.Sprintf("shard %d does not take requests; nothing was done", shard)}
}
