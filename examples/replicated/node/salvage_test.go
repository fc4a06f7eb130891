// Varve: a key-value storage engine. MIT licence, see LICENSE.

// Goal: what a stopped node has left is brought back, its log included, and the
// node's directory stays as it is. Method: a node whose directory is copied while
// it runs, as if it were killed then; logs with entries that were never committed.

package node

import (
	"crypto/sha256"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble"
	pb "github.com/lni/dragonboat/v3/raftpb"

	"varve.example/replicated/machine"
)

// kill copies a node's directory as it is now.
func kill(t *testing.T, n *Node) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "node")
	for _, name := range []string{"data", "raft"} {
		if err := copyTree(filepath.Join(n.options.Dir, name), filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(filepath.Join(n.options.Dir, identityFile))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, identityFile), text, 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

func sumOf(t *testing.T, dir string) string {
	t.Helper()
	sum := sha256.New()
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			var text []byte
			text, err = os.ReadFile(path)
			fmt.Fprintf(sum, "%s %x\n", path, sha256.Sum256(text))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%x", sum.Sum(nil))
}

// withLog changes the part of a log that has a shard.
func withLog(t *testing.T, dir string, shard uint64, change func(log *pebble.DB, batch *pebble.Batch, last uint64)) {
	t.Helper()
	paths, _ := filepath.Glob(filepath.Join(dir, "raft", "*", "*", "logdb-*"))
	changed := 0
	for _, path := range paths {
		log, err := pebble.Open(path, &pebble.Options{Logger: quiet{}})
		if err != nil {
			t.Fatal(err)
		}
		r := &remains{replica: 1}
		if err := r.inspect(log, shard); err != nil {
			t.Fatal(err)
		}
		if r.log != nil {
			changed++
			batch := log.NewBatch()
			change(log, batch, r.last)
			if err := batch.Commit(pebble.Sync); err != nil {
				t.Fatal(err)
			}
		}
		if err := log.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if changed != 1 {
		t.Fatalf("%d parts of the log have shard %d", changed, shard)
	}
}

func TestWhatAStoppedNodeHasLeftIsBroughtBack(t *testing.T) {
	n := single(t, Options{Shards: 3, SnapshotEntries: 100})
	fill(t, n, 1000, 100)
	want := checksum(t, n)
	dir := kill(t, n)
	running := n.options.Dir
	backups := t.TempDir()

	if _, _, err := (&Salvage{Dirs: []string{running + "-none"}, To: filepath.Join(backups, "none")}).Run(); err == nil {
		t.Fatal("a directory that does not exist was salvaged")
	}
	other := single(t, Options{Shards: 2, Backups: backups})
	both := []string{dir, kill(t, other)}
	if _, _, err := (&Salvage{Dirs: both, To: filepath.Join(backups, "both")}).Run(); err == nil || !strings.Contains(err.Error(), "with 2 shards") {
		t.Fatal("nodes of two clusters were salvaged together: ", err)
	}
	if _, _, err := (&Salvage{Dirs: []string{dir}, To: filepath.Join(backups, "-rf")}).Run(); err == nil {
		t.Fatal("a backup has a name that no restore takes")
	}
	before := sumOf(t, dir)
	m, lines, err := (&Salvage{Dirs: []string{dir}, To: filepath.Join(backups, "found")}).Run()
	if err != nil {
		t.Fatal(err)
	}
	t.Log(strings.Join(lines, "\n"))
	if sumOf(t, dir) != before {
		t.Fatal("the node's directory was changed")
	}
	if m.Total.Entries != want.Entries || m.Total.Sum != want.Sum {
		t.Fatalf("%v, not %v", m.Total, want)
	}
	if left, _ := filepath.Glob(filepath.Join(backups, ".*")); len(left) > 0 {
		t.Fatal("copies are left: ", left)
	}
	if _, _, err := (&Salvage{Dirs: []string{dir}, To: filepath.Join(backups, "found")}).Run(); err == nil {
		t.Fatal("a backup was replaced")
	}
	if _, err := other.Restore("found"); err != nil {
		t.Fatal(err)
	}
	if got := checksum(t, other); got.Sum != want.Sum {
		t.Fatalf("%v, not %v", got, want)
	}
}

func TestUncommittedEntriesAreBroughtBackOrLeftOut(t *testing.T) {
	n := single(t, Options{Shards: 1})
	fill(t, n, 50, 100)
	want := checksum(t, n)
	dir, later := kill(t, n), kill(t, n)
	withLog(t, later, 1, func(_ *pebble.DB, batch *pebble.Batch, last uint64) {
		for i := uint64(1); i <= 3; i++ {
			entry := pb.Entry{Index: last + i, Term: 9, Type: pb.EncodedEntry, ClientID: 1}
			if i == 1 {
				entry.Type, entry.ClientID = pb.ApplicationEntry, 0 // As a new leader begins.
			} else {
				proposal := machine.AppendPut(machine.NewProposal(nil, 1), []byte(fmt.Sprint("late-", i)), []byte("v"), 0)
				entry.Cmd = append([]byte{0}, proposal...)
			}
			text, err := entry.Marshal()
			if err != nil {
				t.Fatal(err)
			}
			batch.Set(logKey(logEntry, 1, 1, entry.Index), text, nil)
		}
		// The third one is what another leader's entries have replaced.
		end := make([]byte, 8)
		end[6], end[7] = byte((last+2)>>8), byte(last+2)
		batch.Set(logKey(logLast, 1, 1), end, nil)
	})
	backups := t.TempDir()
	for name, s := range map[string]*Salvage{
		"one": {Dirs: []string{dir}}, "later": {Dirs: []string{later}}, "both": {Dirs: []string{dir, later}},
		"turned": {Dirs: []string{later, dir}}, "committed": {Dirs: []string{later}, Committed: true},
	} {
		s.To = filepath.Join(backups, name)
		m, lines, err := s.Run()
		if err != nil {
			t.Fatal(name, err)
		}
		expected, uncertain := want.Entries+1, " uncertain=2 "
		if name == "one" || name == "committed" {
			expected, uncertain = want.Entries, " uncertain="
		}
		if m.Total.Entries != expected || !strings.Contains(lines[0], uncertain) {
			t.Errorf("%s: %d entries: %s", name, m.Total.Entries, lines[0])
		}
	}
	// A log with a gap.
	withLog(t, later, 1, func(_ *pebble.DB, batch *pebble.Batch, last uint64) {
		batch.Delete(logKey(logEntry, 1, 1, last-1), nil)
	})
	gap := &Salvage{Dirs: []string{later}, To: filepath.Join(backups, "gap")}
	if _, _, err := gap.Run(); err == nil {
		t.Fatal("a log with a gap was salvaged")
	}
	gap = &Salvage{Dirs: []string{later}, To: filepath.Join(backups, "gap"), Partial: true}
	m, lines, err := gap.Run()
	if err != nil || !strings.Contains(strings.Join(lines, "\n"), "is not whole") || m.Total.Entries > want.Entries {
		t.Fatal(m, lines, err)
	}
}

func TestAReceivedSnapshotThatIsNotLoadedIsSaid(t *testing.T) {
	n := single(t, Options{Shards: 2})
	fill(t, n, 50, 100)
	dir := kill(t, n)
	withLog(t, dir, 2, func(_ *pebble.DB, batch *pebble.Batch, last uint64) {
		snapshot := pb.Snapshot{Index: last + 1000, OnDiskIndex: last + 1000, Term: 5, ClusterId: 2}
		text, err := snapshot.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		batch.Set(logKey(logSnapshot, 2, 1, snapshot.Index), text, nil)
	})
	to := filepath.Join(t.TempDir(), "one")
	if _, _, err := (&Salvage{Dirs: []string{dir}, To: to}).Run(); err == nil || !strings.Contains(err.Error(), "shard 2: the database ends at entry") {
		t.Fatal(err)
	}
	m, lines, err := (&Salvage{Dirs: []string{dir}, To: to, Partial: true}).Run()
	if err != nil || m.Parts[0].Contents.Entries == 0 || !strings.Contains(lines[1], "is not whole") {
		t.Fatal(m, lines, err)
	}
}
