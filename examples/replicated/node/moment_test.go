// Varve: a key-value storage engine. MIT licence, see LICENSE.

// Goal: a moment of a backup is kept as long as the backup needs it, and not much
// longer, and requests wait only while one is taken. Method: a node in this process.

package node

import (
	"io"
	"net"
	"net/rpc"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"varve.example/replicated/check"
)

func TestAHoldThatHasExpiredWasNone(t *testing.T) {
	g := &gate{}
	g.holdNew(1, time.Millisecond)
	g.enter() // It opens by itself.
	g.shutDown()
	check.FatalIf(t, g.release(1), "a request has passed, and it is said that none has")
	g = &gate{}
	g.holdNew(1, time.Minute)
	g.shutDown()
	check.FatalIf(t, !g.release(1) || g.release(1), "no request has passed, and it is said that one has")
}

func TestStepsThatArriveLateDoNothing(t *testing.T) {
	n := single(t, Options{Shards: 2, Backups: t.TempDir()})
	step := func(step momentKind) error {
		return (&Service{n}).Moment(MomentRequest{n.cluster, 7, step, []uint64{1, 2}, n.Directory().Revision}, nil)
	}
	for _, one := range []momentKind{holdRequests, takeShards, letRequestsGo, dropShards} {
		if err := step(one); err != nil {
			t.Fatal(one, err)
		}
	}
	for _, one := range []momentKind{holdRequests, takeShards} {
		if err := step(one); err != errLateStep {
			t.Error(one, err)
		}
	}
	if n.gates[1].release(7) || len(heldShards(n)) > 0 {
		t.Fatal("requests wait, or snapshots are held: ", heldShards(n))
	}
}

// older is a node of an older program.
type older struct{}

func (older) Exchange(Status, *Status) error { return nil }

func TestAMomentIsTriedOnceWithAnOlderProgram(t *testing.T) {
	server := rpc.NewServer()
	check.OK(t, server.RegisterName("Service", older{}))
	here, there := net.Pipe()
	go server.ServeConn(there)
	client := rpc.NewClient(here)
	defer client.Close()
	err := client.Call("Service.Moment", MomentRequest{}, &struct{}{})
	check.FatalIf(t, !lacksMethod(err) || lacksMethod(errLateStep) || lacksMethod(nil), "%v", err)
}

// heldShards are those of which a snapshot is held.
func heldShards(n *Node) (shards []uint64) {
	n.held.Range(func(key, _ any) bool {
		shards = append(shards, key.(heldKey).shard)
		return true
	})
	return shards
}

// awaitHeld waits until snapshots of these shards are held.
func awaitHeld(t *testing.T, n *Node, shards ...uint64) {
	t.Helper()
	for end := time.Now().Add(10 * time.Minute); !slices.Equal(heldShards(n), shards); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("of shards %v, snapshots are held", heldShards(n))
		}
	}
}

func TestAMomentIsKeptWhileItIsNeeded(t *testing.T) {
	old := momentLease
	t.Cleanup(func() { momentLease = old })
	momentLease = 2 * time.Second
	n := single(t, Options{Shards: 2, Backups: t.TempDir()})
	at, err := n.takeMoment()
	check.OK(t, err)
	time.Sleep(2 * momentLease)
	check.OK(t, check.Err(n.stream(1, at, io.Discard)))
	close(at.dropped) // As if this node had died.
	awaitHeld(t, n)
	check.Says(t, check.Err(n.stream(1, at, io.Discard)), momentLease.String())
}

func TestASnapshotIsDroppedOnceItsShardIsWritten(t *testing.T) {
	dir := t.TempDir()
	n := single(t, Options{Shards: 2, Backups: t.TempDir(), BackupTo: storeProgram(t, dir)})
	set(t, n, "key", "value")
	check.OK(t, os.WriteFile(filepath.Join(dir, "hang-put"), nil, 0o600))
	ended := make(chan error)
	go func() {
		_, err := n.Backup("one", "")
		ended <- err
	}()
	awaitHeld(t, n, n.ShardOf([]byte("key"))) // Of the other shard, nothing has to be stored.
	n.Stop()
	check.FatalIf(t, <-ended == nil, "a backup was written that was not stored")
}
