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

	"varve.example/replicated/check"
)

func TestAFullDiskEndsTheNode(t *testing.T) {
	dir := t.TempDir()
	if err := checkDisk(dir, 0); err != nil {
		t.Error(err)
	}
	check.ErrorIf(t, checkDisk(filepath.Join(dir, "none"), 0) == nil, "a directory that is missing is good")
	n := &Node{stop: make(chan struct{}), failed: make(chan error, 1)}
	n.options.Dir = filepath.Join(dir, "gone")
	n.watchDisk()
	check.ErrorIf(t, <-n.Failed() == nil, "the node goes on")
}

func TestFilesAreForOneUser(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "node")
	check.OK(t, os.Mkdir(dir, 0o755))
	backups := filepath.Join(t.TempDir(), "backups")
	n := single(t, Options{Shards: 1, Dir: dir, Backups: backups})
	set(t, n, "key", "value")
	check.OK(t, check.Err(n.Backup("one", "")))
	for _, name := range []string{"a\nb", "-rf", "", ".", "..", "a/b", ".a", strings.Repeat("a", 101)} {
		check.ErrorIf(t, check.Err(n.Backup(name, "")) == nil, "%q is the name of a backup", name)
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
		check.ErrorIf(t, files < 3, "%d files in %s", files, root)
	}
}
