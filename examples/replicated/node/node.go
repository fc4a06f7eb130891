// Varve: a key-value storage engine. MIT licence, see LICENSE.

// Package node is one process of a cluster: dragonboat's groups, one for each
// shard, over the databases of a storage engine.
package node

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/lni/dragonboat/v3"
	"github.com/lni/dragonboat/v3/config"
	"github.com/lni/dragonboat/v3/raftio"
	sm "github.com/lni/dragonboat/v3/statemachine"

	"varve.example/replicated/machine"
	"varve.example/replicated/storage"
)

// Options of a node.
type Options struct {
	ID      uint64
	Address string            // Where other nodes reach it.
	Peers   map[uint64]string // Of a new cluster, with itself; none to join one.
	Shards  uint64
	Dir     string
	RoundMS uint64 // Ticks; an election begins after 10 of them in silence.
	// Entries applied between two snapshots, behind which the log is cut.
	SnapshotEntries uint64
	Timeout         time.Duration // Of a request of a client.
}

// Node implements redis.Store.
type Node struct {
	options Options
	storage *storage.Node
	host    *dragonboat.NodeHost
	events  events
}

// Start opens the directory and takes part in the cluster.
func Start(options Options) (*Node, error) {
	if err := os.MkdirAll(options.Dir, 0o755); err != nil {
		return nil, err
	}
	engine, err := storage.OpenEngine(filepath.Join(options.Dir, "data"), storage.DefaultOptions)
	if err != nil {
		return nil, err
	}
	n := &Node{options: options}
	if n.storage, err = storage.OpenNode(engine, int(options.Shards)); err != nil {
		engine.Close()
		return nil, err
	}
	host := config.NodeHostConfig{
		NodeHostDir: filepath.Join(options.Dir, "raft"), RTTMillisecond: options.RoundMS,
		RaftAddress: options.Address, SystemEventListener: &n.events,
		// Keys hash to as many shards as there are: who has another number of
		// them is not heard.
		DeploymentID: options.Shards,
	}
	host.Expert.LogDB = config.GetTinyMemLogDBConfig()
	host.Expert.LogDB.Shards = 4 // Fewer logs, whose writes are synced together.
	host.Expert.Engine = config.GetDefaultEngineConfig()
	host.Expert.Engine.ExecShards = 4
	if n.host, err = dragonboat.NewNodeHost(host); err != nil {
		n.storage.Close()
		return nil, err
	}
	for shard := uint64(1); shard <= options.Shards; shard++ {
		if err := n.startShard(shard); err != nil {
			n.Stop()
			return nil, fmt.Errorf("shard %d: %w", shard, err)
		}
	}
	return n, nil
}

func (n *Node) startShard(shard uint64) error {
	create := func(shard, _ uint64) sm.IOnDiskStateMachine { return machine.New(n.storage, shard) }
	return n.host.StartOnDiskCluster(n.options.Peers, len(n.options.Peers) == 0, create,
		config.Config{
			NodeID: n.options.ID, ClusterID: shard, CheckQuorum: true,
			ElectionRTT: 10, HeartbeatRTT: 1,
			SnapshotEntries:    n.options.SnapshotEntries,
			CompactionOverhead: n.options.SnapshotEntries / 2,
		})
}

// Stop ends it; all that was acknowledged is safe without.
func (n *Node) Stop() {
	n.host.Stop()
	n.storage.Close()
}

// Shards is how many there are.
func (n *Node) Shards() uint64 { return n.options.Shards }

var errRefused = errors.New("the updates were refused")

const retryPause = 20 * time.Millisecond

// Propose has a shard apply updates. An error does not say that they will not
// be applied, unless it is that the cluster is not ready or busy: then they
// were not taken, and it was tried again until the time was over.
func (n *Node) Propose(shard uint64, updates []byte) ([]byte, error) {
	ctx, cancel := context.WithTimeout(context.Background(), n.options.Timeout)
	defer cancel()
	session := n.host.GetNoOPSession(shard)
	for {
		result, err := n.host.SyncPropose(ctx, session, updates)
		if err == nil && result.Value == 0 {
			return nil, errRefused
		}
		notTaken := errors.Is(err, dragonboat.ErrSystemBusy) ||
			errors.Is(err, dragonboat.ErrClusterNotReady) ||
			errors.Is(err, dragonboat.ErrClusterNotInitialized)
		if !notTaken || !pause(ctx) {
			return result.Data, err
		}
	}
}

// Read asks a machine, if need be again until the time is over: what was on its
// way to a leader that has died is not answered, and is asked again soon.
func (n *Node) Read(shard uint64, query interface{}, stale bool) (interface{}, error) {
	ctx, cancel := context.WithTimeout(context.Background(), n.options.Timeout)
	defer cancel()
	for {
		var answer interface{}
		var err error
		if stale {
			answer, err = n.host.StaleRead(shard, query)
		} else {
			attempt, done := context.WithTimeout(ctx, n.options.Timeout/4)
			answer, err = n.host.SyncRead(attempt, shard, query)
			done()
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

// Replace takes a replica that will not come back out of all shards, and takes
// a new one in, which may be at the same address. It can be done again.
func (n *Node) Replace(oldID, newID uint64, address string) error {
	for shard := uint64(1); shard <= n.options.Shards; shard++ {
		if err := n.replaceIn(shard, oldID, newID, address); err != nil {
			return fmt.Errorf("shard %d: %w", shard, err)
		}
	}
	return nil
}

// replaceIn asks again what was lost with a leader that has just died.
func (n *Node) replaceIn(shard, oldID, newID uint64, address string) error {
	for end := time.Now().Add(10 * n.options.Timeout); ; time.Sleep(retryPause) {
		done, err := n.replaceStep(shard, oldID, newID, address)
		if done || (err != nil && !dragonboat.IsTempError(err)) || time.Now().After(end) {
			return err
		}
	}
}

func (n *Node) replaceStep(shard, oldID, newID uint64, address string) (bool, error) {
	ctx, cancel := context.WithTimeout(context.Background(), n.options.Timeout)
	defer cancel()
	members, err := n.host.SyncGetClusterMembership(ctx, shard)
	if err != nil {
		return false, err
	}
	if err := checkReplacement(members, oldID, newID, address); err != nil {
		return false, err
	}
	_, isOld := members.Nodes[oldID]
	_, isNew := members.Nodes[newID]
	switch {
	case isOld:
		err = n.host.SyncRequestDeleteNode(ctx, shard, oldID, 0)
	case !isNew:
		err = n.host.SyncRequestAddNode(ctx, shard, newID, address, 0)
	default:
		return true, nil
	}
	return false, err
}

// checkReplacement refuses what would leave a shard with fewer nodes or more. A
// number that was removed can never come back.
func checkReplacement(members *dragonboat.Membership, oldID, newID uint64, address string) error {
	_, isOld := members.Nodes[oldID]
	newAddress, isNew := members.Nodes[newID]
	_, wasOld := members.Removed[oldID]
	_, wasNew := members.Removed[newID]
	switch {
	case oldID == newID:
		return fmt.Errorf("node %d cannot replace itself", oldID)
	case !isOld && !wasOld:
		return fmt.Errorf("there was never a node %d", oldID)
	case wasNew:
		return fmt.Errorf("node %d was removed; numbers are not used again", newID)
	case isNew && (isOld || newAddress != address):
		return fmt.Errorf("node %d is there already, at %s", newID, newAddress)
	}
	for id, other := range members.Nodes {
		if other == address && id != oldID && id != newID {
			return fmt.Errorf("%s is the address of node %d", address, id)
		}
	}
	return nil
}

// Info is for INFO.
func (n *Node) Info() string {
	var text strings.Builder
	line := func(format string, arguments ...interface{}) {
		fmt.Fprintf(&text, format+"\r\n", arguments...)
	}
	line("# Server\r\nredis_version:varve-node\r\nengine:%s", n.storage.Describe())
	line("node_id:%d\r\nraft_address:%s\r\nshards:%d", n.options.ID, n.options.Address, n.options.Shards)
	line("\r\n# Replication\r\nsnapshots_sent:%d\r\nsnapshots_received:%d",
		n.events.sent.Load(), n.events.received.Load())
	for shard := uint64(1); shard <= n.options.Shards; shard++ {
		leader, known, err := n.host.GetLeaderID(shard)
		if err != nil || !known {
			leader = 0
		}
		line("shard_%d_leader:%d", shard, leader)
	}
	return text.String()
}

// events counts snapshots that went from node to node.
type events struct{ sent, received atomic.Uint64 }

func (e *events) SendSnapshotCompleted(raftio.SnapshotInfo) { e.sent.Add(1) }
func (e *events) SnapshotReceived(raftio.SnapshotInfo)      { e.received.Add(1) }

func (e *events) NodeHostShuttingDown()                       {}
func (e *events) NodeUnloaded(raftio.NodeInfo)                {}
func (e *events) NodeReady(raftio.NodeInfo)                   {}
func (e *events) MembershipChanged(raftio.NodeInfo)           {}
func (e *events) ConnectionEstablished(raftio.ConnectionInfo) {}
func (e *events) ConnectionFailed(raftio.ConnectionInfo)      {}
func (e *events) SendSnapshotStarted(raftio.SnapshotInfo)     {}
func (e *events) SendSnapshotAborted(raftio.SnapshotInfo)     {}
func (e *events) SnapshotRecovered(raftio.SnapshotInfo)       {}
func (e *events) SnapshotCreated(raftio.SnapshotInfo)         {}
func (e *events) SnapshotCompacted(raftio.SnapshotInfo)       {}
func (e *events) LogCompacted(raftio.EntryInfo)               {}
func (e *events) LogDBCompacted(raftio.EntryInfo)             {}
