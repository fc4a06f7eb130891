// Varve: a key-value storage engine. MIT licence, see LICENSE.

// Goal: deleting a backup deletes no file that another one needs, and leaves
// none that nobody needs, and a backup that has failed leaves none, also if what
// stores the backups fails. Method: a node
// in this process, and a place for backups that fails when it is told to.

package node

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"varve.example/replicated/check"
	"varve.example/replicated/machine"
)

// wrongPlace is a directory that changes what it does.
type wrongPlace struct {
	directory
	onList   func(names []string) ([]string, error)
	onRemove func(name string) error
	onPut    func(name string) error // After it was stored.
}

func (w *wrongPlace) list(prefix string) ([]string, error) {
	names, err := w.directory.list(prefix)
	if err == nil && w.onList != nil {
		return w.onList(names)
	}
	return names, err
}

func (w *wrongPlace) remove(name string) error {
	if w.onRemove != nil {
		if err := w.onRemove(name); err != nil {
			return err
		}
	}
	return w.directory.remove(name)
}

func (w *wrongPlace) put(name string, from *os.File) error {
	err := w.directory.put(name, from)
	if err == nil && w.onPut != nil {
		err = w.onPut(name)
	}
	return err
}

// mondayAndTuesday are backups of one node, of which the later one continues the
// earlier one.
func mondayAndTuesday(t *testing.T) (n *Node, dir string) {
	dir = t.TempDir()
	n = single(t, Options{Shards: 2, Backups: dir})
	fill(t, n, 100, 1000)
	backup(t, n, "monday", "")
	set(t, n, "key-1", "changed")
	backup(t, n, "tuesday", "monday")
	return n, dir
}

func TestAListThatLacksBackupsDeletesNothingOfThem(t *testing.T) {
	n, dir := mondayAndTuesday(t)
	lists := 0
	where := &wrongPlace{directory: directory{dir}, onList: func(names []string) ([]string, error) {
		if lists++; lists > 1 {
			return nil, nil
		}
		return names, nil
	}}
	check.Says(t, check.Err(n.dropBackup(where, "monday")), "tuesday is no longer listed")
	checkBackup(t, n, "tuesday")
}

func TestADropThatHasFailedIsRepeated(t *testing.T) {
	n, dir := mondayAndTuesday(t)
	check.OK(t, check.Err(n.DropBackup("monday")))
	all, err := survey(directory{dir})
	if m := all.manifests["tuesday"]; err != nil || m.Parts[0].Pieces != nil {
		t.Fatal("all pieces of all backups are in memory: ", err)
	}
	files := len(filesIn(t, dir))
	refused := errors.New("refused")
	left := 0
	where := &wrongPlace{directory: directory{dir}, onRemove: func(string) error {
		if left--; left < 0 {
			return refused
		}
		return nil
	}}
	for done := 0; done < files+1; done++ { // Each time, one more is deleted.
		left = 1
		if _, err := n.dropBackup(where, "tuesday"); done < files && !errors.Is(err, refused) || done == files && err != nil {
			t.Fatal(done, err, filesIn(t, dir))
		}
		if _, err := n.Backup("tuesday", ""); done < files && err == nil {
			t.Fatal("a backup was written over one that is being deleted")
		}
	}
	n.DropBackup("tuesday")
	if names := filesIn(t, dir); len(names) > 0 {
		t.Fatal("files are left: ", names)
	}
}

func TestTheProgramOfThePageFailsIfItsListDoes(t *testing.T) {
	page, err := os.ReadFile("../operating.md")
	check.OK(t, err)
	_, script, found := strings.Cut(string(page), "```sh\n#!/bin/sh\ncase $1 in")
	script, _, ended := strings.Cut(script, "```")
	check.FatalIf(t, !found || !ended, "the page has no program")
	dir := t.TempDir()
	path := filepath.Join(dir, "aws")
	list := func(aws string) (string, error) {
		check.OK(t, os.WriteFile(path, []byte("#!/bin/sh\n"+aws), 0o700))
		call := exec.Command("sh", "-c", "case $1 in"+script, "program", "list", "")
		call.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"))
		output, err := call.Output()
		return string(output), err
	}
	for aws, want := range map[string]string{"echo None": "", "echo a/b; echo a/c": "a/b\na/c\n"} {
		if got, err := list(aws); err != nil || got != want {
			t.Errorf("%q: %q %v", aws, got, err)
		}
	}
	if got, err := list("exit 3"); err == nil {
		t.Errorf("a list that failed is one of %q", got)
	}
}

func TestABackupNeedsTheOneThatItContinuesFrom(t *testing.T) {
	dir := t.TempDir()
	n := single(t, Options{Shards: 2, Backups: dir})
	fill(t, n, 20, 100)
	m, _ := backup(t, n, "one", "")
	check.OK(t, writeTo(t, n, &wrongPlace{directory: directory{dir}}, "two", "one"))
	// It is replaced by another one of its name while the third is written.
	where := &wrongPlace{directory: directory{dir}, onPut: func(name string) error {
		if name != manifestOf("three") {
			return nil
		}
		if _, err := n.dropBackup(directory{dir}, "one"); err != nil {
			return err
		}
		return writeTo(t, n, directory{dir}, "one", "")
	}}
	if err := writeTo(t, n, where, "three", "one"); err == nil || err.Error() != "the backup one was deleted" {
		t.Fatal(err)
	}
	checkBackup(t, n, "two")
	check.OK(t, os.Remove(filepath.Join(dir, m.Files[1])))
	check.Says(t, check.Err(n.Backup("four", "two")), m.Files[1]+" is missing")
	for _, name := range filesIn(t, dir) {
		if strings.HasPrefix(name, "three/") || strings.HasPrefix(name, "four/") {
			t.Error("a backup that has failed has left ", name)
		}
	}
}

func TestABackupWithADamagedManifestIsListedAndDeleted(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	n := single(t, Options{Shards: 2, Backups: dir})
	fill(t, n, 20, 100)
	for _, name := range []string{"bad", "good"} {
		backup(t, n, name, "")
	}
	check.OK(t, os.Truncate(filepath.Join(dir, manifestOf("bad")), 100))
	lines, err := n.Backups()
	if err != nil || len(lines) != 2 || !strings.HasPrefix(lines[0], "name=bad error=") || !strings.HasPrefix(lines[1], "name=good created=") {
		t.Fatal(lines, err)
	}
	check.Says(t, check.Err(n.DropBackup("good")), "first delete that one by NODE.DROPBACKUP bad")
	for _, name := range []string{"bad", "good"} {
		check.OK(t, check.Err(n.DropBackup(name)))
	}
	if names := filesIn(t, dir); len(names) > 0 {
		t.Fatal("files are left: ", names)
	}
	// What is removed while it is listed is no error.
	lists := 0
	where := &wrongPlace{directory: directory{dir}, onList: func(names []string) ([]string, error) {
		if lists++; lists == 1 {
			names = []string{manifestOf("gone")}
		}
		return names, nil
	}}
	if all, err := survey(where); err != nil || lists != 2 || len(all.unread) != 0 {
		t.Fatal(all, err)
	}
}

// writeTo writes a backup to a place.
func writeTo(t *testing.T, n *Node, to place, name, base string) error {
	t.Helper()
	w, err := newBackupWriter(to, name, "me", n.Shards())
	check.OK(t, err)
	if base != "" {
		m, err := readManifest(to, base)
		check.OK(t, err)
		w.continueFrom(base, m)
	}
	return w.finish(n.eachShard(func(shard uint64) error {
		return w.shard(shard, func(to io.Writer) (machine.Contents, error) { return n.stream(shard, nil, to) })
	}))
}

func TestNoManifestIsLeftWithoutItsFiles(t *testing.T) {
	dir := t.TempDir()
	n := single(t, Options{Shards: 2, Backups: dir})
	fill(t, n, 20, 100)
	refused := errors.New("refused")
	refuse := func(name string) error {
		if filepath.Base(name) == manifestName {
			return refused
		}
		return nil
	}
	where := &wrongPlace{directory: directory{dir}, onPut: refuse}
	if err := writeTo(t, n, where, "one", ""); !errors.Is(err, refused) || len(filesIn(t, dir)) > 0 {
		t.Fatal(err, filesIn(t, dir))
	}
	where.onRemove = refuse
	if err := writeTo(t, n, where, "one", ""); !errors.Is(err, refused) || !strings.Contains(err.Error(), "NODE.DROPBACKUP one") {
		t.Fatal(err)
	}
	checkBackup(t, n, "one")
	// That of another one, which was written meanwhile, stays.
	w, err := newBackupWriter(where, "one", "me", 2)
	check.OK(t, err)
	where.onRemove = nil
	w.complete = true
	if err := w.finish(refused); err != refused {
		t.Fatal(err)
	}
	checkBackup(t, n, "one")
}
