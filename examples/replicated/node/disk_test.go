// Varve: a key-value storage engine. MIT licence, see LICENSE.

// Goal: a node ends before its disk is full, and its files are for this user alone.
// Method: directories by hand, and the files of a node.
package node

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestAFullDiskEndsTheNode(t *testing.T) {
	dir := t.TempDir()
	if err := checkDisk(dir, 0); err != nil {
		t.Error(err)
	}
	if err := checkDisk(filepath.Join(dir, "none"), 0); err == nil {
		t.Error("a directory that is missing is good")
	}
	n := &Node{stop: make(chan struct{}), failed: make(chan error, 1)}
	n.options.Dir = filepath.Join(dir, "gone")
	n.watchDisk()
	if err := <-n.Failed(); err == nil {
		t.Error("the node goes on")
	}
}

func TestFilesAreForOneUser(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "node")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	backups := filepath.Join(t.TempDir(), "backups")
	n := single(t, Options{Shards: 1, Dir: dir, Backups: backups})
	set(t, n, "key", "value")
	if _, err := n.Backup("one", ""); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"a\nb", "-rf", "", ".", "..", "a/b", ".a", strings.Repeat("a", 101)} {
		if _, err := n.Backup(name, ""); err == nil {
			t.Errorf("%q is the name of a backup", name)
		}
	}
	for _, root := range []string{n.options.Dir, backups} {
		files := 0
		filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
			if err != nil {
				return nil // It has been removed meanwhile.
			}
			if info, err := entry.Info(); err == nil {
				if files++; info.Mode().Perm()&0o077 != 0 {
					t.Errorf("%s: %v", path, info.Mode())
				}
			}
			return nil
		})
		if files < 3 {
			t.Errorf("%d files in %s", files, root)
		}
	}
}
