// Varve: a key-value storage engine. MIT licence, see LICENSE.

// Goal: what is reported as a backup is one, a restore can be repeated and
// undoes no later write, and a node that stops waits for none of them. Method:
// clusters of one node, in this process.

package node

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"varve.example/replicated/check"
	"varve.example/replicated/machine"
	"varve.example/replicated/redis"
)

func set(t *testing.T, n *Node, key, value string) {
	t.Helper()
	proposal := machine.NewProposal(nil, time.Now().UnixMilli())
	proposal = machine.AppendPut(proposal, []byte(key), []byte(value), 0)
	check.OK(t, check.Err(n.Propose(redis.ShardOf([]byte(key), n.Shards()), proposal)))
}

func fill(t *testing.T, n *Node, count, size int) {
	for i := 0; i < count; i++ {
		set(t, n, fmt.Sprint("key-", i), strings.Repeat("v", size))
	}
}

func checksum(t *testing.T, n *Node) machine.Contents {
	t.Helper()
	contents, err := n.Checksum()
	check.OK(t, err)
	return contents
}

// checkBackup checks that a backup is whole.
func checkBackup(t *testing.T, n *Node, name string) {
	t.Helper()
	check.OK(t, check.Err(n.Verify(name)))
}

func TestOneOfManyBackupsOfOneNameIsWritten(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	first, second := single(t, Options{Shards: 2, Backups: dir}), single(t, Options{Shards: 3, Backups: dir}) // They share a directory.
	fill(t, first, 200, 1000)
	fill(t, second, 100, 1000)
	for round := 0; round < 5; round++ {
		name := fmt.Sprint("backup-", round)
		var group sync.WaitGroup
		results := make(chan error, 8)
		for i := 0; i < cap(results); i++ {
			group.Add(1)
			go func() {
				defer group.Done()
				_, err := []*Node{first, second}[i%2].Backup(name, "")
				results <- err
			}()
		}
		group.Wait()
		close(results)
		written := 0
		for err := range results {
			if err == nil {
				written++
			} else if err != errCopying && !strings.Contains(err.Error(), "there is a backup") {
				t.Fatal(err)
			}
		}
		check.FatalIf(t, written != 1, "%d backups of one name were written", written)
		checkBackup(t, first, name)
	}
	if left, err := filepath.Glob(filepath.Join(dir, ".*")); err != nil || len(left) > 0 {
		t.Fatal(left, err)
	}
}

func TestABackupReplacesNoOther(t *testing.T) {
	dir := t.TempDir()
	n := single(t, Options{Shards: 1, Backups: dir})
	fill(t, n, 10, 10)
	check.OK(t, check.Err(n.Backup("one", "")))
	// As if another node had written it after the first look.
	w, err := newBackupWriter(directory{dir}, "one", "other", 1)
	check.OK(t, err)
	if err := w.finish(nil); err == nil || err.Error() != "there is a backup one" {
		t.Fatal("a backup was replaced: ", err)
	}
	checkBackup(t, n, "one")
}

func TestARestoreThatHasFailedIsRepeated(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	from := single(t, Options{Shards: 2, Backups: dir})
	check.OK(t, check.Err(from.Backup("none", "")))
	fill(t, from, 500, 1000)
	m, err := from.Backup("all", "")
	check.OK(t, err)
	n := single(t, Options{Shards: 3, Backups: dir})
	seen, err := n.mayRestore(m)
	check.OK(t, err)
	marks := make([][]byte, n.Shards()+1)
	for shard := uint64(1); shard <= n.Shards(); shard++ {
		if marks[shard], err = n.mark(shard, m.backupID(), seen[shard]); err != nil {
			t.Fatal(err)
		}
	}
	half := func() error {
		return n.restoreEntries(marks, func(visit func(key, value []byte) error) error {
			return readFile(directory{dir}, m, 0, make([]machine.Contents, len(m.Parts)), visit)
		})
	}
	check.OK(t, half())
	// Here it fails.
	check.FatalIf(t, check.Err(n.Backup("half", "")) == nil, "a half of a backup was written as one")
	check.FatalIf(t, check.Err(n.Restore("none")) == nil, "another backup was restored over a half")
	check.OK(t, check.Err(n.Restore("all")))
	if got, want := checksum(t, n), checksum(t, from); got != want {
		t.Fatalf("%v, not %v", got, want)
	}
	if err := half(); !errors.Is(err, errMarkLost) {
		t.Fatal("the first attempt goes on after the second one: ", err)
	}
	check.FatalIf(t, check.Err(n.Restore("all")) == nil, "a backup was restored over contents")
}

func TestALateProposalOfARestoreUndoesNothing(t *testing.T) {
	n := single(t, Options{Shards: 1, Backups: t.TempDir()})
	mark, err := n.mark(1, "id ", nil)
	check.OK(t, err)
	key := machine.StoredKey([]byte("key"))
	late := machine.AppendStored(ifMark(mark), key, machine.AppendValue(nil, []byte("old"), 0))
	for i := 0; i < 2; i++ { // Again, as if the answer had got lost.
		check.OK(t, n.insist(1, late))
	}
	check.OK(t, n.unmark([][]byte{nil, mark}))
	value := func() string {
		answer, _, err := n.Read(1, machine.Get{Keys: [][]byte{key}}, false)
		check.OK(t, err)
		value, _, _ := machine.Value(answer.([][]byte)[0], 0)
		return string(value)
	}
	check.FatalIf(t, value() != "old", "nothing was restored")
	set(t, n, "key", "new")
	if err := n.insist(1, late); !errors.Is(err, errMarkLost) || value() != "new" {
		t.Fatalf("a write was undone by a late proposal: %q %v", value(), err)
	}
	// Nor after another restore has begun, which takes over only what it saw.
	second, err := n.mark(1, "id ", nil)
	check.OK(t, err)
	if err := n.insist(1, late); !errors.Is(err, errMarkLost) || value() != "new" {
		t.Fatalf("a write was undone by a late proposal: %q %v", value(), err)
	}
	if _, err := n.mark(1, "id ", mark); !errors.Is(err, errMarkLost) {
		t.Fatal("two restores have begun: ", err)
	}
	if third, err := n.mark(1, "id ", second); err != nil || string(third) == string(second) {
		t.Fatal("a restore was not taken over: ", err)
	}
}

// slowWriter takes its time.
type slowWriter struct{}

func (slowWriter) Write(bytes []byte) (int, error) {
	time.Sleep(500 * time.Millisecond)
	return len(bytes), nil
}

func TestAStoppingNodeWaitsForNoLongCommand(t *testing.T) {
	t.Parallel()
	n := single(t, Options{Shards: 1, Backups: t.TempDir()})
	fill(t, n, 40, 1<<20)
	streamed, traced := make(chan error), make(chan error)
	go func() {
		_, err := n.stream(1, nil, slowWriter{}) // 40 seconds.
		streamed <- err
	}()
	go func() {
		_, err := n.Trace(10 * time.Minute)
		traced <- err
	}()
	time.Sleep(time.Second)
	ended := make(chan struct{})
	go func() {
		n.Stop()
		close(ended)
	}()
	check.ErrorIf(t, <-streamed == nil, "the stream came to its end")
	<-traced // A short one is as good.
	select {
	case <-ended:
	case <-time.After(20 * time.Second):
		t.Fatal("it does not stop")
	}
	for _, do := range []func() error{
		func() error { _, err := n.Backup("late", ""); return err },
		func() error { _, err := n.Checksum(); return err },
		func() error { _, err := n.Trace(time.Second); return err },
	} {
		if err := do(); !errors.Is(err, errStopping) {
			t.Error("a node that has stopped takes a command: ", err)
		}
	}
}
