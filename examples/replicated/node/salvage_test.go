// Varve: a key-value storage engine. MIT licence, see LICENSE.

// Goal: what a stopped node has left is brought back, its log included, and the
// node's directory stays as it is. Method: a node whose directory is copied while
// it runs, as if it were killed then; logs with entries that were never committed.

package node

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble"
	pb "github.com/lni/dragonboat/v3/raftpb"

	"varve.example/replicated/check"
	"varve.example/replicated/machine"
	"varve.example/replicated/storage"
)

// kill copies a node's directory as it is now. A file that is deleted meanwhile makes
// for another copy.
func kill(t *testing.T, n *Node) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "node")
	for _, name := range []string{"data", "raft"} {
		for tries := 0; ; tries++ {
			err := copyTree(filepath.Join(n.options.Dir, name), filepath.Join(dir, name), (&Salvage{}).stopped)
			if err == nil {
				break
			}
			check.FatalIf(t, !errors.Is(err, fs.ErrNotExist) || tries == 100 || os.RemoveAll(filepath.Join(dir, name)) != nil, "%v", err)
		}
	}
	text, err := os.ReadFile(filepath.Join(n.options.Dir, identityFile))
	check.OK(t, err)
	check.OK(t, os.WriteFile(filepath.Join(dir, identityFile), text, 0o600))
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
	check.OK(t, err)
	return fmt.Sprintf("%x", sum.Sum(nil))
}

// withLog changes the part of a log that has a shard.
func withLog(t *testing.T, dir string, shard uint64, change func(log *pebble.DB, batch *pebble.Batch, last uint64)) {
	t.Helper()
	paths, _ := filepath.Glob(filepath.Join(dir, "raft", "*", "*", "logdb-*"))
	changed := 0
	for _, path := range paths {
		log, err := pebble.Open(path, &pebble.Options{Logger: quiet{}})
		check.OK(t, err)
		r := &remains{shard: shard, replica: 1}
		check.OK(t, r.inspect(log))
		if r.log != nil {
			changed++
			batch := log.NewBatch()
			change(log, batch, r.last)
			check.OK(t, batch.Commit(pebble.Sync))
		}
		check.OK(t, log.Close())
	}
	check.FatalIf(t, changed != 1, "%d parts of the log have shard %d", changed, shard)
}

// withRecords changes the records of a node's directory.
func withRecords(t *testing.T, dir string, change func(records *storage.Node)) {
	t.Helper()
	engine, err := storage.OpenEngine(filepath.Join(dir, "data"), storage.DefaultOptions)
	check.OK(t, err)
	me := identityOf(t, dir)
	records, err := storage.OpenNode(engine, int(me.Shards))
	check.OK(t, err)
	change(records)
	check.OK(t, records.Close())
}

func record(t *testing.T, records *storage.Node, key string, value interface{}) {
	t.Helper()
	text, err := json.Marshal(value)
	if err == nil {
		err = records.SetRecord(key, string(text))
	}
	check.OK(t, err)
}

func identityOf(t *testing.T, dir string) (me identity) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, identityFile))
	if err == nil {
		err = json.Unmarshal(text, &me)
	}
	check.OK(t, err)
	return me
}

// as makes a copy of node 1's directory that of another node, with replicas of
// that number.
func as(t *testing.T, number uint64, dir string) string {
	t.Helper()
	me := identityOf(t, dir)
	withRecords(t, dir, func(records *storage.Node) {
		for shard := uint64(1); shard <= me.Shards; shard++ {
			r := &replicaRecord{Shard: shard, Replica: 1}
			check.OK(t, records.SetRecord(r.key(), ""))
			r.Replica = number
			record(t, records, r.key(), r)
		}
		d := &Directory{}
		if text, err := records.Record(directoryKey); err != nil || json.Unmarshal([]byte(text), d) != nil {
			t.Fatal(err)
		}
		for other := uint64(2); other <= 5; other++ {
			d.Nodes[other] = &NodeRecord{Token: me.Token}
		}
		d.Revision++
		record(t, records, directoryKey, d)
	})
	me.Number = number
	text, err := json.Marshal(me)
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, identityFile), text, 0o600)
	}
	check.OK(t, err)
	paths, _ := filepath.Glob(filepath.Join(dir, "raft", "*", "*", "logdb-*"))
	for _, path := range paths {
		log, err := pebble.Open(path, &pebble.Options{Logger: quiet{}})
		check.OK(t, err)
		batch := log.NewBatch()
		iterator := log.NewIter(nil)
		for iterator.First(); iterator.Valid(); iterator.Next() {
			if key := append([]byte(nil), iterator.Key()...); len(key) >= 20 {
				binary.BigEndian.PutUint64(key[12:], number)
				batch.Set(key, iterator.Value(), nil)
			}
		}
		check.OK(t, errors.Join(iterator.Close(), batch.Commit(pebble.Sync), log.Close()))
	}
	return dir
}

// addEntries adds entries of a term after the last one of a log.
func addEntries(t *testing.T, dir string, shard, term uint64, entries ...pb.Entry) {
	t.Helper()
	withLog(t, dir, shard, func(_ *pebble.DB, batch *pebble.Batch, last uint64) {
		for _, entry := range entries {
			last++
			entry.Index, entry.Term = last, term
			text, err := entry.Marshal()
			check.OK(t, err)
			batch.Set(logKey(logEntry, shard, 1, last), text, nil)
		}
		batch.Set(logKey(logLast, shard, 1), binary.BigEndian.AppendUint64(nil, last), nil)
	})
}

// putEntry is a write that no client makes.
func putEntry(key string) pb.Entry {
	proposal := machine.AppendPut(machine.NewProposal(nil, 1), []byte(key), []byte("v"), 0)
	return pb.Entry{Type: pb.EncodedEntry, ClientID: 1, Cmd: append([]byte{0}, proposal...)}
}

// receiveSnapshot writes to a log that a snapshot was received.
func receiveSnapshot(t *testing.T, dir string, shard, ahead, onDisk, term uint64) {
	t.Helper()
	withLog(t, dir, shard, func(_ *pebble.DB, batch *pebble.Batch, last uint64) {
		snapshot := pb.Snapshot{Index: last + ahead, OnDiskIndex: last + onDisk, Term: term, ClusterId: shard}
		text, err := snapshot.Marshal()
		check.OK(t, err)
		batch.Set(logKey(logSnapshot, shard, 1, snapshot.Index), text, nil)
	})
}

// salvaged makes a backup. Without Partial it fails if anything may be missing,
// and leaves nothing.
func salvaged(t *testing.T, partial bool, dirs ...string) (*Manifest, string, error) {
	t.Helper()
	to := filepath.Join(t.TempDir(), "backup")
	m, lines, err := (&Salvage{Dirs: dirs, To: to, Partial: partial}).Run()
	if left, _ := os.ReadDir(filepath.Dir(to)); (err == nil) != (len(left) == 1) {
		t.Error(left, err)
	}
	return m, strings.Join(lines, "\n"), err
}

func TestWhatAStoppedNodeHasLeftIsBroughtBack(t *testing.T) {
	t.Parallel()
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
	check.OK(t, err)
	t.Log(strings.Join(lines, "\n"))
	check.FatalIf(t, sumOf(t, dir) != before, "the node's directory was changed")
	check.FatalIf(t, m.Total.Entries != want.Entries || m.Total.Sum != want.Sum, "%v, not %v", m.Total, want)
	if left, _ := filepath.Glob(filepath.Join(backups, ".*")); len(left) > 0 {
		t.Fatal("copies are left: ", left)
	}
	if _, _, err := (&Salvage{Dirs: []string{dir}, To: filepath.Join(backups, "found")}).Run(); err == nil {
		t.Fatal("a backup was replaced")
	}
	check.OK(t, check.Err(other.Restore("found")))
	if got := checksum(t, other); got.Sum != want.Sum {
		t.Fatalf("%v, not %v", got, want)
	}
}

func TestUncommittedEntriesAreBroughtBackOrLeftOut(t *testing.T) {
	t.Parallel()
	n := single(t, Options{Shards: 1})
	fill(t, n, 50, 100)
	want := checksum(t, n)
	dir, later := as(t, 2, kill(t, n)), kill(t, n)
	// It begins as that of a new leader.
	addEntries(t, later, 1, 9, pb.Entry{Type: pb.ApplicationEntry}, putEntry("late-2"), putEntry("late-3"))
	// The third one is what another leader's entries have replaced.
	withLog(t, later, 1, func(_ *pebble.DB, batch *pebble.Batch, last uint64) {
		batch.Set(logKey(logLast, 1, 1), binary.BigEndian.AppendUint64(nil, last-1), nil)
	})
	backups := t.TempDir()
	for name, s := range map[string]*Salvage{
		"one": {Dirs: []string{dir}}, "later": {Dirs: []string{later}}, "both": {Dirs: []string{dir, later}},
		"turned": {Dirs: []string{later, dir}}, "committed": {Dirs: []string{later}, Committed: true},
	} {
		s.To = filepath.Join(backups, name)
		m, lines, err := s.Run()
		check.FatalIf(t, err != nil, "%v %v", name, err)
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
	want := checksum(t, n)
	dir, other, equal := kill(t, n), as(t, 2, kill(t, n)), kill(t, n)
	receiveSnapshot(t, dir, 2, 1000, 1000, 5)
	if _, _, err := salvaged(t, false, dir); err == nil || !strings.Contains(err.Error(), "the database ends at entry") {
		t.Fatal(err)
	}
	m, lines, err := salvaged(t, true, dir)
	if err != nil || m.Parts[0].Contents.Entries == 0 || !strings.Contains(lines, "shard=2 is not whole") {
		t.Fatal(m, lines, err)
	}
	// A replica whose log is older does not replace it.
	if _, lines, err = salvaged(t, false, dir, other); err == nil || !strings.Contains(lines, "shard=2 is not whole: the replica of node 1: the database ends") {
		t.Fatal(lines, err)
	}
	if m, lines, err = salvaged(t, true, other, dir); err != nil || m.Total.Sum != want.Sum || !strings.Contains(lines, "shard=2 node=") {
		t.Fatal(m, lines, err)
	}
	// One whose log is equal does.
	receiveSnapshot(t, equal, 2, 0, 1000, 2)
	if m, lines, err = salvaged(t, false, equal, other); err != nil || m.Total.Sum != want.Sum || !strings.Contains(lines, "shard=2: the replica of node 1: the database ends") {
		t.Fatal(m, lines, err)
	}
	// A log that lacks what is known to be committed.
	withLog(t, equal, 1, func(_ *pebble.DB, batch *pebble.Batch, last uint64) {
		text, err := (&pb.State{Term: 2, Commit: last + 1}).Marshal()
		check.OK(t, err)
		batch.Set(logKey(logState, 1, 1), text, nil)
	})
	if _, lines, err = salvaged(t, false, equal, other); err == nil || !strings.Contains(lines, "shard=1 is not whole: entries up to") {
		t.Fatal(lines, err)
	}
}

func TestOnlyLogsOfVotersCount(t *testing.T) {
	t.Parallel()
	n := single(t, Options{Shards: 1})
	fill(t, n, 20, 100)
	var dirs []string
	for number := uint64(1); number <= 5; number++ {
		dir := kill(t, n)
		var entries []pb.Entry
		withLog(t, dir, 1, func(_ *pebble.DB, _ *pebble.Batch, last uint64) {
			change := uint64(1) // Node 1 is added by the first entry.
			for _, changed := range []pb.ConfigChange{
				{Type: pb.AddNode, NodeID: 2}, {Type: pb.AddNode, NodeID: 3}, {Type: pb.AddObserver, NodeID: 4},
				{Type: pb.RemoveNode, NodeID: 3}, {Type: pb.RemoveNode, NodeID: 2, ConfigChangeId: 1}, // The last one is refused.
			} {
				last++
				if changed.ConfigChangeId == 0 {
					changed.ConfigChangeId, change = change, last
				}
				text, err := changed.Marshal()
				check.OK(t, err)
				entries = append(entries, pb.Entry{Type: pb.ConfigChangeEntry, Cmd: text})
			}
		})
		addEntries(t, dir, 1, 9, entries...)
		if number > 1 {
			as(t, number, dir)
		}
		dirs = append(dirs, dir)
	}
	expect := func(logs string, used ...string) {
		t.Helper()
		if _, lines, err := salvaged(t, false, used...); err != nil || !strings.Contains(lines, " logs="+logs+"\n") {
			t.Fatal(lines, err)
		}
	}
	expect("1/2", dirs[0])
	expect("2/2", dirs...)
	expect("1/2", dirs[0], dirs[2], dirs[3], dirs[4])
	refused := func(text string, used ...string) {
		t.Helper()
		if _, _, err := salvaged(t, true, used...); err == nil || !strings.Contains(err.Error(), text) {
			t.Fatal(err)
		}
	}
	refused("it is of node 1, as "+dirs[0], dirs[0], dirs[0])
	refused("it is of node 1, as "+dirs[0], dirs[0], kill(t, n))

	// One that has no log.
	withLog(t, dirs[1], 1, func(_ *pebble.DB, batch *pebble.Batch, _ uint64) {
		batch.Delete(logKey(logState, 1, 2), nil)
	})
	expect("1/2", dirs...)
	// One that a newer directory knows with another token.
	withRecords(t, dirs[2], func(records *storage.Node) {
		record(t, records, directoryKey, &Directory{Revision: 1 << 40, Nodes: map[uint64]*NodeRecord{1: {}, 3: {}, 2: {Token: "other"}}})
	})
	expect("1/2", dirs[0], dirs[2])
	refused("has another directory of it", dirs[0], dirs[1], dirs[2])
	refused("the cluster of the others has no node 4", dirs[0], dirs[2], dirs[3])
	withRecords(t, dirs[3], func(records *storage.Node) {
		record(t, records, directoryKey, &Directory{Revision: 1, Nodes: map[uint64]*NodeRecord{1: {}}})
	})
	expect("0/2", dirs[3])
}

func TestMembersThatHaveChangedAreCounted(t *testing.T) {
	t.Parallel()
	var nodes []*Node
	peers := peersOf(t, 3)
	for id := uint64(1); id <= 3; id++ {
		options := firstOptions(t, peers, id)
		options.SnapshotEntries = 50
		n := startNode(t, options)
		t.Cleanup(n.Stop)
		nodes = append(nodes, n)
	}
	awaitServing(t, nodes[0])
	joined := startNode(t, Options{Address: freeAddress(t), Join: peers[1], Dir: t.TempDir(), SnapshotEntries: 50})
	t.Cleanup(joined.Stop)
	drained := nodes[2].number
	check.OK(t, check.Err(nodes[0].Admin([]string{"node.drain", fmt.Sprint(drained)})))
	await(t, "the replicas have moved", func() bool {
		d := nodes[0].Directory()
		_, replica := d.replicaOn(1, joined.number)
		return d.settled() && replica != nil
	})
	expect := func(logs string, dirs ...string) {
		t.Helper()
		if _, lines, err := salvaged(t, false, dirs...); err != nil || !strings.Contains(lines, " logs="+logs+"\n") {
			t.Fatal(lines, err)
		}
	}
	one := kill(t, nodes[0])
	expect("1/3", one)
	expect("3/3", one, kill(t, nodes[1]), kill(t, nodes[2]), kill(t, joined))
	fill(t, nodes[0], 200, 10) // Snapshots have the members then.
	one = kill(t, nodes[0])
	expect("1/3", one)
	expect("2/3", one, kill(t, nodes[2]), kill(t, joined))
}

func TestWhatIsDamagedIsPassedOver(t *testing.T) {
	t.Parallel()
	n := single(t, Options{Shards: 2})
	fill(t, n, 50, 100)
	want := checksum(t, n)
	fine := as(t, 2, kill(t, n))
	whole := func(partial bool, text string, dirs ...string) {
		t.Helper()
		m, lines, err := salvaged(t, partial, dirs...)
		if err != nil || m.Total.Sum != want.Sum || !strings.Contains(lines, text) || strings.Contains(lines, "not whole") != partial {
			t.Fatal(m, lines, err)
		}
	}
	fails := func(text string, dirs ...string) {
		t.Helper()
		if _, lines, err := salvaged(t, false, dirs...); err == nil || !strings.Contains(lines+err.Error(), text) {
			t.Fatal(lines, err)
		}
	}
	// A database. Another replica with the same log makes up for it.
	broken := kill(t, n)
	withRecords(t, broken, func(records *storage.Node) {
		check.OK(t, records.SetRecord("shard-1", "shard-1-99"))
	})
	fails("shard=1 is not whole: the replica of node 1: storage: database shard-1-99 is missing", broken)
	m, lines, err := salvaged(t, true, broken)
	check.FatalIf(t, err != nil || m.Parts[0].Contents.Entries != 0 || m.Parts[1].Contents.Entries == 0, "%v %v %v", m, lines, err)
	whole(false, "shard=1: the replica of node 1: storage", broken, fine)

	// A part of a log. Nobody knows what it has.
	broken = kill(t, n)
	var part string
	paths, _ := filepath.Glob(filepath.Join(broken, "raft", "*", "*", "logdb-*"))
	for _, path := range paths {
		log, err := pebble.Open(path, &pebble.Options{Logger: quiet{}})
		check.OK(t, err)
		r := &remains{shard: 1, replica: 1}
		check.OK(t, errors.Join(r.inspect(log), log.Close()))
		if r.log != nil {
			part = path
		}
	}
	check.OK(t, os.Remove(filepath.Join(part, "CURRENT")))
	fails("shard=1 is not whole: the replica of node 1: logdb-", broken)
	fails("shard=1 is not whole: the replica of node 1: logdb-", broken, fine)
	whole(true, "shard=1 node=2", broken, fine)

	// A log that is newer, with a gap. The one that gets furthest is taken.
	gap := kill(t, n)
	addEntries(t, gap, 1, 9, putEntry("late-1"), putEntry("late-2"), putEntry("late-3"))
	withLog(t, gap, 1, func(_ *pebble.DB, batch *pebble.Batch, last uint64) {
		batch.Delete(logKey(logEntry, 1, 1, last-1), nil)
	})
	fails("shard=1 is not whole: the replica of node 1: after entry", gap, fine)
	m, lines, err = salvaged(t, true, gap, fine)
	if err != nil || m.Total.Entries != want.Entries+1 || !strings.Contains(lines, "shard=1 node=1") || !strings.Contains(lines, " uncertain=1 ") {
		t.Fatal(m, lines, err)
	}
	withLog(t, gap, 1, func(_ *pebble.DB, batch *pebble.Batch, last uint64) {
		batch.DeleteRange(logKey(logEntry, 1, 1, 0), logKey(logEntry, 1, 1, last), nil)
	})
	whole(true, "shard=1 node=2", gap, fine)

	// All of a directory.
	withRecords(t, broken, func(records *storage.Node) {
		record(t, records, directoryKey, "damaged")
	})
	fails(broken, broken, fine)
	if m, lines, err = salvaged(t, true, broken, fine); err != nil || m.Total.Sum != want.Sum || !strings.Contains(lines, "not all was read of "+broken) {
		t.Fatal(m, lines, err)
	}
	if described := strings.Join(m.lines(), "\n"); !strings.Contains(described, "not all was read of ") {
		t.Fatal(described)
	}

	// Data on another disk.
	elsewhere := filepath.Join(t.TempDir(), "data")
	data := filepath.Join(gap, "data")
	check.OK(t, errors.Join(os.Rename(data, elsewhere), os.Symlink(elsewhere, data)))
	fails("is neither a file nor a directory", gap)

	// What is interrupted leaves nothing, and does not pass for damage.
	stop := make(chan struct{})
	close(stop)
	to := filepath.Join(t.TempDir(), "backup")
	for _, partial := range []bool{false, true} {
		_, _, err = (&Salvage{Dirs: []string{fine}, To: to, Partial: partial, Stop: stop}).Run()
		if left, _ := os.ReadDir(filepath.Dir(to)); err == nil || len(left) > 0 {
			t.Fatal(left, err)
		}
	}

	// A cluster that was lost during a restore.
	set(t, n, restoreMark, "v")
	if _, _, err = salvaged(t, true, kill(t, n)); err == nil || !strings.Contains(err.Error(), "was being restored") {
		t.Fatal(err)
	}
}
