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

	"varve.example/replicated/machine"
	"varve.example/replicated/redis"
)

func set(t *testing.T, n *Node, key, value string) {
	t.Helper()
	proposal := machine.NewProposal(nil, time.Now().UnixMilli())
	proposal = machine.AppendPut(proposal, []byte(key), []byte(value), 0)
	if _, err := n.Propose(redis.ShardOf([]byte(key), n.Shards()), proposal); err != nil {
		t.Fatal(err)
	}
}

func fill(t *testing.T, n *Node, count, size int) {
	for i := 0; i < count; i++ {
		set(t, n, fmt.Sprint("key-", i), strings.Repeat("v", size))
	}
}

func checksum(t *testing.T, n *Node) machine.Contents {
	t.Helper()
	contents, err := n.Checksum()
	if err != nil {
		t.Fatal(err)
	}
	return contents
}

// checkBackup checks that a backup is whole.
func checkBackup(t *testing.T, n *Node, name string) {
	t.Helper()
	if _, err := n.Verify(name); err != nil {
		t.Fatal(err)
	}
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
		if written != 1 {
			t.Fatalf("%d backups of one name were written", written)
		}
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
	if _, err := n.Backup("one", ""); err != nil {
		t.Fatal(err)
	}
	// As if another node had written it after the first look.
	w, err := newBackupWriter(directory{dir}, "one", "other", 1)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.finish(nil); err == nil || err.Error() != "there is a backup one" {
		t.Fatal("a backup was replaced: ", err)
	}
	checkBackup(t, n, "one")
}

func TestARestoreThatHasFailedIsRepeated(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	from := single(t, Options{Shards: 2, Backups: dir})
	if _, err := from.Backup("none", ""); err != nil {
		t.Fatal(err)
	}
	fill(t, from, 500, 1000)
	m, err := from.Backup("all", "")
	if err != nil {
		t.Fatal(err)
	}
	n := single(t, Options{Shards: 3, Backups: dir})
	seen, err := n.mayRestore(m)
	if err != nil {
		t.Fatal(err)
	}
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
	if err := half(); err != nil {
		t.Fatal(err)
	}
	// Here it fails.
	if _, err := n.Backup("half", ""); err == nil {
		t.Fatal("a half of a backup was written as one")
	}
	if _, err := n.Restore("none"); err == nil {
		t.Fatal("another backup was restored over a half")
	}
	if _, err := n.Restore("all"); err != nil {
		t.Fatal(err)
	}
	if got, want := checksum(t, n), checksum(t, from); got != want {
		t.Fatalf("%v, not %v", got, want)
	}
	if err := half(); !errors.Is(err, errMarkLost) {
		t.Fatal("the first attempt goes on after the second one: ", err)
	}
	if _, err := n.Restore("all"); err == nil {
		t.Fatal("a backup was restored over contents")
	}
}

func TestALateProposalOfARestoreUndoesNothing(t *testing.T) {
	n := single(t, Options{Shards: 1, Backups: t.TempDir()})
	mark, err := n.mark(1, "id ", nil)
	if err != nil {
		t.Fatal(err)
	}
	key := machine.StoredKey([]byte("key"))
	late := machine.AppendStored(ifMark(mark), key, machine.AppendValue(nil, []byte("old"), 0))
	for i := 0; i < 2; i++ { // Again, as if the answer had got lost.
		if err := n.insist(1, late); err != nil {
			t.Fatal(err)
		}
	}
	if err := n.unmark([][]byte{nil, mark}); err != nil {
		t.Fatal(err)
	}
	value := func() string {
		answer, _, err := n.Read(1, machine.Get{Keys: [][]byte{key}}, false)
		if err != nil {
			t.Fatal(err)
		}
		value, _, _ := machine.Value(answer.([][]byte)[0], 0)
		return string(value)
	}
	if value() != "old" {
		t.Fatal("nothing was restored")
	}
	set(t, n, "key", "new")
	if err := n.insist(1, late); !errors.Is(err, errMarkLost) || value() != "new" {
		t.Fatalf("a write was undone by a late proposal: %q %v", value(), err)
	}
	// Nor after another restore has begun, which takes over only what it saw.
	second, err := n.mark(1, "id ", nil)
	if err != nil {
		t.Fatal(err)
	}
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
	if err := <-streamed; err == nil {
		t.Error("the stream came to its end")
	}
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
