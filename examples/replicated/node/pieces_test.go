// Varve: a key-value storage engine. MIT licence, see LICENSE.

// Goal: a backup that continues from another one has only what is new, and is
// whole; what is damaged or missing is named, and nothing of it is restored; a
// program that stores backups may fail. All shards are of one point in time only if
// requests wait.
// Method: clusters of one node in this process, files that are changed.

package node

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"varve.example/replicated/check"
	"varve.example/replicated/machine"
)

func backup(t *testing.T, n *Node, name, base string) (m *Manifest, written int64) {
	t.Helper()
	m, err := n.Backup(name, base)
	check.OK(t, err)
	for _, part := range m.Parts {
		written += part.Bytes
	}
	return m, written
}

// expectRestored restores a backup into a new cluster.
func expectRestored(t *testing.T, options Options, name string, want machine.Contents) {
	t.Helper()
	n := single(t, options)
	check.OK(t, check.Err(n.Restore(name)))
	if got := checksum(t, n); got.Sum != want.Sum || got.Entries != want.Entries {
		t.Fatalf("%v, not %v", got, want)
	}
	n.Stop()
}

func filesIn(t *testing.T, dir string) []string {
	t.Helper()
	files, err := directory{dir}.list("")
	check.OK(t, err)
	return files
}

// storeProgram is a program that stores backups in a directory.
func storeProgram(t *testing.T, dir string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "store")
	text := fmt.Sprintf(`#!/bin/sh
cd %q || exit 1
[ ! -e fail-"$1" ] || { echo "no $1 today" >&2; exit 3; }
[ ! -e hang-"$1" ] || sleep 600
case $1 in
put) mkdir -p "$(dirname "$2")" && cat >"$2" ;;
get) cat "$2" ;;
list) find . -type f | sed 's,^\./,,' ;;
delete) rm "$2" ;;
esac
`, dir)
	check.OK(t, os.WriteFile(path, []byte(text), 0o700))
	return path
}

func TestABackupContinuesFromAnother(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"directory", "program"} {
		t.Run(kind, func(t *testing.T) {
			dir := t.TempDir()
			options := Options{Shards: 3, Backups: dir}
			if kind == "program" {
				options.BackupTo, options.Backups = storeProgram(t, dir), t.TempDir()
			}
			n := single(t, options)
			for i := 0; i < 300; i++ { // Some hundred pieces.
				set(t, n, fmt.Sprint("key-", i), fmt.Sprint(i, strings.Repeat("v", 30_000)))
			}
			_, all := backup(t, n, "monday", "")
			set(t, n, "key-7", "changed")
			set(t, n, "new", "value")
			want := checksum(t, n)
			_, some := backup(t, n, "tuesday", "monday")
			m, none := backup(t, n, "wednesday", "tuesday")
			t.Logf("%d bytes, then %d, then %d", all, some, none)
			check.FatalIf(t, some == 0 || some > all/10 || none != 0, "%d bytes, then %d, then %d", all, some, none)
			check.FatalIf(t, m.Base != "tuesday" || !m.Moment || m.Total.Sum != want.Sum, "%+v", m.Total)
			if _, err := n.Backup("thursday", "friday"); err == nil || err.Error() != "there is no backup friday" {
				t.Fatal("a backup continues from none: ", err)
			}
			lines, err := n.Backups()
			if err != nil || len(lines) != 3 || !strings.HasPrefix(lines[1], "name=tuesday ") || !strings.Contains(lines[1], " base=monday ") {
				t.Fatal(lines, err)
			}
			before := len(filesIn(t, dir))
			check.OK(t, check.Err(n.DropBackup("monday")))
			if left := len(filesIn(t, dir)); left != before-1 {
				t.Fatalf("of %d files, %d are left", before, left)
			}
			options.Shards = 2
			expectRestored(t, options, "wednesday", want)
			for _, name := range []string{"tuesday", "wednesday"} {
				check.OK(t, check.Err(n.Verify(name)))
				check.OK(t, check.Err(n.DropBackup(name)))
			}
			if left := filesIn(t, dir); len(left) > 0 {
				t.Fatal("files are left: ", left)
			}
			check.FatalIf(t, check.Err(n.DropBackup("monday")) == nil, "a backup was deleted twice")
			// What a backup that was not completed has left.
			check.OK(t, os.MkdirAll(filepath.Join(dir, "half"), 0o700))
			check.OK(t, os.WriteFile(filepath.Join(dir, "half", "shard-0001-1"), nil, 0o600))
			if _, err := n.DropBackup("half"); err != nil || len(filesIn(t, dir)) > 0 {
				t.Fatal(err, filesIn(t, dir))
			}
		})
	}
}

func TestAChangedEntryMovesNoPieces(t *testing.T) {
	t.Parallel()
	n := single(t, Options{Shards: 1})
	for i := 0; i < 300; i++ {
		set(t, n, fmt.Sprint("key-", i), strings.Repeat("v", 10_000))
	}
	pieces := func() map[string]bool {
		w, err := newBackupWriter(directory{t.TempDir()}, "one", "me", 1)
		check.OK(t, err)
		err = w.shard(1, func(to io.Writer) (machine.Contents, error) { return n.stream(1, nil, to) })
		check.OK(t, w.finish(err))
		sums := map[string]bool{}
		for _, piece := range w.m.Parts[0].Pieces {
			sums[string(piece.Sum)] = true
		}
		return sums
	}
	all := pieces()
	check.FatalIf(t, len(all) < 25, "only %d pieces", len(all))
	for _, change := range []func(){
		func() { set(t, n, "key-100", strings.Repeat("w", 20_000)) },
		func() { set(t, n, "more", "value") },
		func() {
			proposal := machine.AppendDelete(machine.NewProposal(nil, 1), []byte("key-200"))
			check.OK(t, check.Err(n.Propose(1, proposal)))
		},
	} {
		change()
		now, others := pieces(), 0
		for sum := range now {
			if !all[sum] {
				others++
			}
		}
		check.FatalIf(t, others > 2, "%d of %d pieces are others", others, len(now))
		all = now
	}
}

func TestDamageIsNamedAndNotRestored(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	n := single(t, Options{Shards: 2, Backups: dir})
	fill(t, n, 200, 5000)
	backup(t, n, "old", "")
	set(t, n, "key-1", "changed")
	m, _ := backup(t, n, "new", "old")
	var files []string
	for _, file := range m.Files {
		files = append(files, filepath.Join(dir, file))
	}
	empty := single(t, Options{Shards: 3, Backups: dir})
	for _, path := range files {
		good, err := os.ReadFile(path)
		check.OK(t, err)
		flipped := append([]byte(nil), good...)
		flipped[len(good)/2] ^= 4
		for name, bad := range map[string][]byte{"flipped": flipped, "truncated": good[:len(good)-1], "missing": nil} {
			check.OK(t, os.Remove(path))
			if bad != nil {
				check.OK(t, os.WriteFile(path, bad, 0o600))
			}
			expected := "of " + strings.TrimPrefix(path, dir+"/")
			if bad == nil {
				expected = strings.TrimPrefix(path, dir+"/")
			}
			for _, do := range []func(string) (*Manifest, error){n.Verify, empty.Restore} {
				_, err := do("new")
				// Not all of an older file is in use.
				if !strings.HasPrefix(expected, "of old/") && err == nil || err != nil && !strings.Contains(err.Error(), expected) {
					t.Errorf("%s: %s: %v", name, path, err)
				}
			}
			check.OK(t, os.WriteFile(path, good, 0o600))
		}
	}
	if got := checksum(t, empty); got.Entries != 0 {
		t.Fatalf("of damaged backups there is %v", got)
	}
	// A manifest with another checksum, that leads elsewhere, or has a piece of none.
	path := filepath.Join(dir, "new", manifestName)
	good, err := os.ReadFile(path)
	check.OK(t, err)
	for at := range good {
		bad := append([]byte(nil), good...)
		bad[at] ^= 1
		if err := new(Manifest).decode(bad); !errors.Is(err, errManifest) {
			t.Errorf("byte %d of a manifest was changed: %v", at, err)
		}
	}
	good, _, _ = bytes.Cut(good, []byte("\n")) // As older programs have written them.
	check.OK(t, os.WriteFile(path, good, 0o600))
	checkBackup(t, n, "new")
	for _, change := range []func(m *Manifest){
		func(m *Manifest) { m.Total.LastingSum++ },
		func(m *Manifest) { m.Files[0] = "../../etc/passwd" },
		func(m *Manifest) { m.Parts[0].Pieces[0].File = 99 },
		func(m *Manifest) { m.Parts[0].Pieces[0].At = -5 },
		func(m *Manifest) { m.Parts[0].Pieces[0].Size = 1 << 60 },
		func(m *Manifest) { m.Parts[0].Pieces = m.Parts[0].Pieces[1:] },
		func(m *Manifest) { m.Parts = m.Parts[1:] },
		func(m *Manifest) { m.Format = 3 },
	} {
		var m Manifest
		check.OK(t, json.Unmarshal(good, &m))
		change(&m)
		text, _ := json.Marshal(m)
		check.OK(t, os.WriteFile(path, text, 0o600))
		check.ErrorIf(t, check.Err(n.Verify("new")) == nil, "a damaged manifest is whole: %.200s", text)
	}
}

func TestABackupOfFormat1IsRestored(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	n := single(t, Options{Shards: 2, Backups: dir})
	fill(t, n, 100, 100)
	want := checksum(t, n)
	m := &Manifest{Format: oldBackupFormat, Shards: 2, Total: want}
	check.OK(t, os.Mkdir(filepath.Join(dir, "old"), 0o700))
	for shard := uint64(1); shard <= 2; shard++ {
		var text bytes.Buffer
		contents, err := n.stream(shard, nil, &text)
		check.OK(t, err)
		part := Part{Shard: shard, File: fmt.Sprintf("shard-%04d", shard), Contents: contents}
		m.Parts = append(m.Parts, part)
		check.OK(t, os.WriteFile(filepath.Join(dir, "old", part.File), text.Bytes(), 0o600))
	}
	write := func() {
		check.OK(t, writeFile(filepath.Join(dir, "old", manifestName), m))
	}
	m.Total.Sum++
	write()
	check.FatalIf(t, check.Err(n.Verify("old")) == nil, "a manifest with another total is whole")
	m.Total.Sum--
	write()
	expectRestored(t, Options{Shards: 3, Backups: dir}, "old", want)
	path := filepath.Join(dir, "old", "shard-0002")
	check.OK(t, os.Truncate(path, 100))
	other := single(t, Options{Shards: 1, Backups: dir})
	check.Says(t, check.Err(other.Restore("old")), "shard-0002")
}

func TestAProgramThatStoresBackupsMayFail(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	n := single(t, Options{Shards: 2, Backups: t.TempDir(), BackupTo: storeProgram(t, dir)})
	fill(t, n, 100, 1000)
	mark := func(name string) (path string) {
		path = filepath.Join(dir, name)
		check.OK(t, os.WriteFile(path, nil, 0o600))
		return path
	}
	backup(t, n, "good", "")
	for _, verb := range []string{"put", "list"} {
		path := mark("fail-" + verb)
		if _, err := n.Backup("one", ""); err == nil || !strings.Contains(err.Error(), "no "+verb+" today") {
			t.Error(verb, err)
		}
		os.Remove(path)
	}
	// Of a program that fails after the manifest, too.
	m, err := readManifest(directory{dir}, "good")
	check.OK(t, err)
	path := mark("fail-get")
	from, _ := n.backups()
	if err := readBackup(from, m, nil); err == nil || strings.Contains(err.Error(), errPiece.Error()) {
		t.Error(err)
	}
	if _, err := n.Verify("good"); err == nil || !strings.Contains(err.Error(), "no get today") ||
		strings.Contains(err.Error(), errPiece.Error()) {
		t.Error(err)
	}
	os.Remove(path)
	if _, err := n.Verify("good"); err != nil {
		t.Error(err)
	}
	for _, file := range filesIn(t, dir) {
		check.ErrorIf(t, !strings.HasPrefix(file, "good/"), "a backup that has failed has left %v", file)
	}
	mark("hang-put")
	ended := make(chan error)
	go func() {
		_, err := n.Backup("late", "")
		ended <- err
	}()
	time.Sleep(time.Second)
	n.Stop()
	select {
	case err := <-ended:
		check.ErrorIf(t, err == nil, "a backup was written that was not stored")
	case <-time.After(10 * time.Second):
		t.Fatal("a node that stops waits for a program")
	}
	wrong := single(t, Options{Shards: 1, Backups: t.TempDir(), BackupTo: "/nonexistent/program"})
	check.FatalIf(t, check.Err(wrong.Backup("one", "")) == nil, "a backup was stored by no program")
}

func TestAMomentNeedsAllRequestsToWait(t *testing.T) {
	n := single(t, Options{Shards: 2, Backups: t.TempDir()})
	n.gates[1].hold(5, time.Minute) // As while a leadership moves.
	if at, _, err := n.tryMoment(); err == nil {
		t.Fatal("requests of a shard did not wait: ", at)
	}
	n.gates[1].release(5)
	at, paused, err := n.tryMoment()
	check.OK(t, err)
	t.Log("paused ", paused)
	set(t, n, "key", "late")
	for shard := uint64(1); shard <= 2; shard++ {
		if contents, err := n.stream(shard, at, io.Discard); err != nil || contents.Entries != 0 {
			t.Fatal(contents, err)
		}
	}
	n.dropMoment(at)
	check.FatalIf(t, check.Err(n.stream(1, at, io.Discard)) == nil, "a moment was read that has ended")
	g := &gate{}
	check.FatalIf(t, !g.holdNew(1, time.Minute) || g.holdNew(2, time.Minute), "a hold replaced another one")
	g.hold(3, time.Minute)
	check.FatalIf(t, g.release(1) || !g.release(3) || g.release(3), "it is not said whether requests have waited")
}

func TestAPieceIsReadAtItsPlace(t *testing.T) {
	reader := bufio.NewReader(strings.NewReader("0123456789"))
	if _, err := readPiece(reader, Piece{At: 4, Size: 7}, 0, nil); !errors.Is(err, errPiece) || !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Fatal(err)
	}
}

func TestTheErrorOfAStreamIsNotThatOfTheReader(t *testing.T) {
	lost := errors.New("lost")
	for visits := 0; visits < 2; visits++ {
		_, err := eachStreamed(func(to io.Writer) (machine.Contents, error) {
			if visits > 0 {
				machine.EmptyStream(to)
			}
			return machine.Contents{}, lost
		}, nil)
		check.ErrorIf(t, err != lost, "%v %v", visits, err)
	}
	here, there := net.Pipe()
	go func() {
		bufio.NewReader(there).ReadString('\n')
		there.Close()
	}()
	n := single(t, Options{Shards: 1, Backups: t.TempDir()})
	if _, err := n.streamFrom(here, 1, 0, io.Discard); err == nil || strings.Contains(err.Error(), "damaged") {
		t.Error(err)
	}
}
