// Varve: a key-value storage engine. MIT licence, see LICENSE.

// Goal: the promises that dragonboat asks of a state machine on disk. Method:
// the machine alone, on databases in temporary directories; proposals are made
// of their index, so that what is there says which have been applied.
package machine

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	sm "github.com/lni/dragonboat/v3/statemachine"

	"varve.example/replicated/check"
	"varve.example/replicated/storage"
)

var small = storage.Options{CacheBytes: 8 << 20, WriteBufferBytes: 1 << 20, OpenFiles: 100}

type fixture struct {
	t       testing.TB
	dir     string
	node    *storage.Node
	machine *Machine
	index   uint64 // What Open has said.
}

func open(t testing.TB, dir string) *fixture {
	f := &fixture{t: t, dir: dir}
	engine, err := storage.OpenEngine(dir, small)
	f.must(err)
	f.node, err = storage.OpenNode(engine, 1)
	f.must(err)
	f.machine = New(f.node, 1)
	f.index, err = f.machine.Open(nil)
	f.must(err)
	return f
}

func (f *fixture) must(err error) {
	f.t.Helper()
	check.OK(f.t, err)
}

func (f *fixture) close() {
	f.must(f.machine.Close())
	f.must(f.node.Close())
}

func (f *fixture) reopen() *fixture {
	f.close()
	return open(f.t, f.dir)
}

// The proposer's time in most tests, in milliseconds.
const noon = 1000000

func proposal(operations ...[]byte) []byte {
	all := NewProposal(nil, noon)
	for _, operation := range operations {
		all = append(all, operation...)
	}
	return all
}

func putOf(key, value string) []byte { return AppendPut(nil, []byte(key), []byte(value), 0) }

func removeOf(key string) []byte { return AppendDelete(nil, []byte(key)) }

func put(key, value string) []byte { return proposal(putOf(key, value)) }

func remove(key string) []byte { return proposal(removeOf(key)) }

func (f *fixture) update(first uint64, commands ...[]byte) []sm.Entry {
	f.t.Helper()
	entries := make([]sm.Entry, len(commands))
	for i, command := range commands {
		entries[i] = sm.Entry{Index: first + uint64(i), Cmd: command}
	}
	entries, err := f.machine.Update(entries)
	f.must(err)
	return entries
}

func (f *fixture) get(keys ...string) []string {
	f.t.Helper()
	var query Get
	for _, key := range keys {
		query.Keys = append(query.Keys, StoredKey([]byte(key)))
	}
	answer, err := f.machine.Lookup(query)
	f.must(err)
	var values []string
	for _, stored := range answer.([][]byte) {
		if value, _, exists := Value(stored, noon); exists {
			values = append(values, string(value))
		} else {
			values = append(values, "(none)")
		}
	}
	return values
}

func (f *fixture) expect(what string, got, want interface{}) {
	f.t.Helper()
	check.FatalIf(f.t, fmt.Sprint(got) != fmt.Sprint(want), "%s: got %v, want %v", what, got, want)
}

func (f *fixture) summary() Summary {
	f.t.Helper()
	answer, err := f.machine.Lookup(Digest{})
	f.must(err)
	return answer.(Summary)
}

func TestAppliesBatchesAndRemembersTheIndex(t *testing.T) {
	f := open(t, t.TempDir())
	f.expect("index of a new one", f.index, 0)
	large := strings.Repeat("v", 100000)
	f.update(5, put("a", "1"), put("b", ""), put("c", large), put("a", "2"))
	f.expect("values", f.get("a", "b", "c", "d"), []string{"2", "", large, "(none)"})
	f.expect("one value", f.get("c"), []string{large})
	f = f.reopen()
	f.expect("index", f.index, 8)
	f.expect("values", f.get("a", "b", "d"), []string{"2", "", "(none)"})
	f.close()
}

func TestCountsWhatIsWrittenAndStored(t *testing.T) {
	f := open(t, t.TempDir())
	defer f.close()
	before := f.machine.Written()
	entries := f.update(1, put("a", "1"), put("b", strings.Repeat("v", 1000)))
	if written := f.machine.Written() - before; written != uint64(len(entries[0].Cmd)+len(entries[1].Cmd)) {
		t.Fatal(written)
	}
	f.must(f.machine.db.Flush())
	size, err := f.machine.Size()
	f.must(err)
	check.FatalIf(t, size == 0, "nothing is stored")
	f.must(f.machine.Close())
	check.FatalIf(t, check.Err(f.machine.Size()) == nil, "the size of a closed machine")
}

func TestDeletesSayWhatWasThereInOrder(t *testing.T) {
	f := open(t, t.TempDir())
	f.update(1, put("a", "1"))
	entries := f.update(2, remove("a"), remove("a"),
		proposal(putOf("b", "1"), removeOf("b"), removeOf("c")), put("a", "3"))
	f.expect("a", showReplies(t, entries[0]), "1")
	f.expect("a again", showReplies(t, entries[1]), "0")
	f.expect("b, c", showReplies(t, entries[2]), "1 0")
	f.expect("values", f.get("a", "b"), []string{"3", "(none)"})
	f.close()
}

func TestMalformedProposalsArePassedOver(t *testing.T) {
	f := open(t, t.TempDir())
	good := put("key", "value")
	for cut := 1; cut < len(good); cut++ {
		entries := f.update(uint64(cut), good[:cut])
		f.expect("result", entries[0].Result.Value, 0)
	}
	f.update(100, []byte{9, 9}, good, nil)
	f = f.reopen()
	f.expect("index", f.index, 102)
	f.expect("entries", f.summary().Entries, 1)
	f.close()
}

func TestScansFromKeyToKey(t *testing.T) {
	f := open(t, t.TempDir())
	for i := 0; i < 25; i++ {
		f.update(uint64(i+1), put(fmt.Sprintf("%02d", i), strings.Repeat("x", i*3000)))
	}
	found := map[string]bool{}
	scan := Scan{Count: 10, Now: noon}
	for calls := 1; ; calls++ {
		answer, err := f.machine.Lookup(scan)
		f.must(err)
		keys := answer.(Keys)
		for _, key := range keys.Keys {
			f.expect("seen before", found[string(key)], false)
			found[string(key)] = true
		}
		if scan.Bucket = keys.Next; !keys.More {
			f.expect("calls", calls, 3)
			break
		}
	}
	f.expect("keys", len(found), 25)
	f.close()
}

// stream is a snapshot, during which updates go on.
func (f *fixture) stream(meanwhile func()) []byte {
	f.t.Helper()
	moment, err := f.machine.PrepareSnapshot()
	f.must(err)
	meanwhile()
	var buffer bytes.Buffer
	f.must(f.machine.SaveSnapshot(moment, &buffer, nil))
	return buffer.Bytes()
}

func fill20000(f *fixture) {
	random := rand.New(rand.NewSource(1))
	for i := uint64(1); i <= 20000; i += 100 {
		var commands [][]byte
		for j := uint64(0); j < 100; j++ {
			value := make([]byte, random.Intn(300))
			random.Read(value)
			commands = append(commands, put(fmt.Sprint(i+j), string(value)))
		}
		f.update(i, commands...)
	}
}

func TestSnapshotIsTheMomentAndReplacesTheContents(t *testing.T) {
	from, to := open(t, t.TempDir()), open(t, t.TempDir())
	fill20000(from)
	from.update(20001, put("large", strings.Repeat("z", 3<<20)))
	want := from.summary()
	stream := from.stream(func() {
		for i := uint64(30000); i < 30100; i++ {
			from.update(i, put("late", "late"), remove("17"))
		}
	})
	to.update(7, put("old", "old"))
	to.must(to.machine.RecoverFromSnapshot(bytes.NewReader(stream), nil))
	to.expect("summary", to.summary(), want)
	to.expect("values", to.get("old", "late"), []string{"(none)", "(none)"})
	to = to.reopen()
	to.expect("index", to.index, 20001)
	to.expect("summary", to.summary(), want)
	to.update(20002, put("new", "new"))
	to.expect("values", to.get("new"), []string{"new"})
	from.close()
	to.close()
}

func TestDamagedSnapshotsChangeNothing(t *testing.T) {
	from, to := open(t, t.TempDir()), open(t, t.TempDir())
	fill20000(from)
	stream := from.stream(func() {})
	to.update(7, put("old", "old"))
	want := to.summary()
	random := rand.New(rand.NewSource(2))
	for i := 0; i < 20; i++ {
		damaged := append([]byte(nil), stream...)
		if i%2 == 0 {
			damaged = damaged[:random.Intn(len(damaged))]
		} else {
			damaged[random.Intn(len(damaged))] ^= 1 << random.Intn(8)
		}
		err := to.machine.RecoverFromSnapshot(bytes.NewReader(damaged), nil)
		check.FatalIf(t, !errors.Is(err, errDamaged), "%d: %v", i, err)
		to.expect("summary", to.summary(), want)
	}
	to = to.reopen()
	to.expect("summary", to.summary(), want)
	to.must(to.machine.RecoverFromSnapshot(bytes.NewReader(stream), nil))
	to.expect("summary", to.summary(), from.summary())
	from.close()
	to.close()
}

func TestStopsStreamsWhenAsked(t *testing.T) {
	f := open(t, t.TempDir())
	fill20000(f)
	stream := f.stream(func() {})
	stop := make(chan struct{})
	close(stop)
	moment, err := f.machine.PrepareSnapshot()
	f.must(err)
	f.expect("save", f.machine.SaveSnapshot(moment, &bytes.Buffer{}, stop), sm.ErrSnapshotStopped)
	f.expect("recover", f.machine.RecoverFromSnapshot(bytes.NewReader(stream), stop),
		sm.ErrSnapshotStopped)
	f.close()
}

func TestLookupsGoOnWhileContentsAreReplaced(t *testing.T) {
	from, to := open(t, t.TempDir()), open(t, t.TempDir())
	fill20000(from)
	from.update(20001, put("both", "new"))
	stream := from.stream(func() {})
	to.update(1, put("both", "old"))
	done := make(chan struct{})
	var group sync.WaitGroup
	for i := 0; i < 4; i++ {
		group.Add(1)
		go func() {
			defer group.Done()
			for {
				select {
				case <-done:
					return
				default:
				}
				answer, err := to.machine.Lookup(Get{[][]byte{StoredKey([]byte("both"))}, 0})
				if err != nil && err != errClosed {
					t.Error(err)
				} else if err == nil && answer.([][]byte)[0] == nil {
					t.Error("the contents were gone for a moment")
				}
			}
		}()
	}
	for i := 0; i < 3; i++ {
		to.must(to.machine.RecoverFromSnapshot(bytes.NewReader(stream), nil))
	}
	to.must(to.machine.Close())
	close(done)
	group.Wait()
	to.must(to.node.Close())
	from.close()
}

// gated is a writer that waits at its first bytes.
type gated struct {
	bytes.Buffer
	begun, pass chan struct{}
	once        sync.Once
}

func newGated() *gated { return &gated{begun: make(chan struct{}), pass: make(chan struct{})} }

func (g *gated) Write(text []byte) (int, error) {
	g.once.Do(func() { close(g.begun) })
	<-g.pass
	return g.Buffer.Write(text)
}

func TestNothingWaitsForAStream(t *testing.T) {
	from, to := open(t, t.TempDir()), open(t, t.TempDir())
	from.update(1, put("key", "new"))
	snapshot := from.stream(func() {})
	fill20000(to)
	want := to.contents()
	out := newGated()
	type result struct {
		answer interface{}
		err    error
	}
	ended := make(chan result)
	go func() {
		answer, err := to.machine.Lookup(Stream{To: out})
		ended <- result{answer, err}
	}()
	<-out.begun
	to.must(to.machine.RecoverFromSnapshot(bytes.NewReader(snapshot), nil))
	to.expect("value", to.get("key"), []string{"new"})
	to.must(to.machine.RecoverFromSnapshot(bytes.NewReader(snapshot), nil))
	to.must(to.machine.Close())
	// Its database lives as long as the stream, and is removed when it is asked
	// for again.
	if err := to.node.Forget(1); err == nil && strings.HasPrefix(to.node.Describe(), "varve") {
		t.Fatal("what is read was removed")
	}
	close(out.pass)
	stream := <-ended
	to.must(stream.err)
	to.expect("contents", stream.answer, want)
	read, err := ReadStream(&out.Buffer, func([]byte, []byte) error { return nil })
	to.must(err)
	to.expect("stream", read, want)
	to.must(to.node.Forget(1))
	_, err = to.machine.Lookup(Stream{To: &bytes.Buffer{}})
	to.expect("stream of a closed machine", err, errClosed)
	_, err = to.machine.Lookup(Digest{})
	to.expect("digest of a closed machine", err, errClosed)
	to.must(to.node.Close())
	from.close()
}

func TestStopsQueriesWhenAsked(t *testing.T) {
	f := open(t, t.TempDir())
	fill20000(f)
	stop := make(chan struct{})
	close(stop)
	for _, query := range []interface{}{Stream{To: &bytes.Buffer{}, Stop: stop}, Digest{stop}} {
		_, err := f.machine.Lookup(query)
		f.expect("error", err, sm.ErrSnapshotStopped)
	}
	f.close()
}

const killedDir = "VARVE_TEST_KILLED_DIR"

// TestIsAPrefixWhenKilled kills processes that run it with a directory.
func TestIsAPrefixWhenKilled(t *testing.T) {
	if dir := os.Getenv(killedDir); dir != "" {
		updateUntilKilled(open(t, dir))
	}
	dir := filepath.Join(t.TempDir(), "data")
	for round := 0; round < 3; round++ {
		child := exec.Command(os.Args[0], "-test.run=^TestIsAPrefixWhenKilled$")
		child.Env = append(os.Environ(), killedDir+"="+dir)
		var told bytes.Buffer
		child.Stdout = &told
		check.OK(t, child.Start())
		time.Sleep(time.Second)
		child.Process.Kill()
		child.Wait()
		lines := strings.Fields(told.String())
		f := open(t, dir)
		check.FatalIf(t, len(lines) < 2, "it never came to a sync")
		var synced uint64
		fmt.Sscan(lines[len(lines)-2], &synced)
		check.FatalIf(t, f.index < synced, "applied %d, but %d was synced", f.index, synced)
		f.expect("entries", f.summary().Entries, min(f.index, 1000))
		for i := uint64(1); i <= min(f.index, 1000); i++ {
			newest := f.index - (f.index-i)%1000
			f.expect("value", f.get(fmt.Sprint(i%1000)), []string{fmt.Sprint(newest)})
		}
		t.Logf("round %d: a prefix of %d", round, f.index)
		f.close()
	}
}

func updateUntilKilled(f *fixture) {
	for at := f.index + 1; ; {
		var commands [][]byte
		for i := uint64(0); i < at%7+1; i++ {
			commands = append(commands, put(fmt.Sprint((at+i)%1000), fmt.Sprint(at+i)))
		}
		f.update(at, commands...)
		at += uint64(len(commands))
		if at%50 < uint64(len(commands)) {
			f.must(f.machine.Sync())
			fmt.Println(at - 1)
		}
	}
}

// Entries of an Update, of 16 and 100 bytes.
func BenchmarkUpdate(b *testing.B) {
	for _, size := range []int{1, 8, 64, 512} {
		b.Run(fmt.Sprintf("entries=%d", size), func(b *testing.B) {
			f := open(b, b.TempDir())
			defer f.close()
			entries := make([]sm.Entry, size)
			for at := 0; at < b.N; at += size {
				for i := range entries {
					var key [16]byte
					binary.BigEndian.PutUint64(key[:], uint64(at+i)*0x9e3779b97f4a7c15)
					entries[i].Index = uint64(at + i + 1)
					entries[i].Cmd = AppendPut(NewProposal(nil, noon), key[:], make([]byte, 100), 0)
				}
				check.OK(b, check.Err(f.machine.Update(entries)))
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N), "ns/entry")
		})
	}
}
