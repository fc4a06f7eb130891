// Varve: a key-value storage engine. MIT licence, see LICENSE.

// Goal: what is written to a disk without space is never said to be written, and other
// files are as usual. Method: /dev/full, and files of all the ways to open one.
package raftfiles

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/lni/goutils/vfs"

	"varve.example/replicated/check"
)

func TestAWriteWithoutSpaceDoesNotReturn(t *testing.T) {
	for name, write := range map[string]func(vfs.File) error{
		"Write":   func(file vfs.File) error { return check.Err(file.Write([]byte("data"))) },
		"WriteAt": func(file vfs.File) error { return check.Err(file.WriteAt([]byte("data"), 0)) },
	} {
		fatal, waiting := make(chan error), make(chan struct{})
		files := New(func(err error) {
			fatal <- err
			<-waiting
		})
		file, err := files.ReuseForWrite("/dev/full", "/dev/full")
		check.OK(t, err)
		wrote := make(chan error, 1)
		go func() { wrote <- write(file) }()
		err = <-fatal
		check.ErrorIf(t, !errors.Is(err, syscall.ENOSPC), "%s: %v", name, err)
		check.ErrorIf(t, len(wrote) > 0, "%s has returned", name)
		close(waiting)
		<-wrote
	}
}

func TestOtherErrorsAreReturned(t *testing.T) {
	files := New(func(err error) { t.Error(err) })
	missing := filepath.Join(t.TempDir(), "none", "file")
	for name, err := range map[string]error{
		"Create":        check.Err(files.Create(missing)),
		"OpenDir":       check.Err(files.OpenDir(missing)),
		"OpenForAppend": check.Err(files.OpenForAppend(missing)),
		"ReuseForWrite": check.Err(files.ReuseForWrite(missing, missing+"2")),
		"Link":          files.Link(missing, missing+"2"),
		"Remove":        files.Remove(missing),
		"Rename":        files.Rename(missing, missing+"2"),
		"Lock":          check.Err(files.Lock(missing)),
	} {
		check.ErrorIf(t, !errors.Is(err, fs.ErrNotExist), "%s: %v", name, err)
	}
}

func TestFilesHaveWhatWasWritten(t *testing.T) {
	files := New(func(err error) { t.Error(err) })
	dir := filepath.Join(t.TempDir(), "a", "b")
	check.OK(t, files.MkdirAll(dir, 0o700))
	whole := bytes.Repeat([]byte("0123456789"), 1<<20) // Longer than what is allocated at once.
	for _, name := range []string{"1.log", "2.sst"} {
		path := filepath.Join(dir, name)
		file, err := files.Create(path)
		check.OK(t, err)
		for at := 0; at < len(whole); at += 1 << 19 {
			check.OK(t, check.Err(file.Write(whole[at:min(at+1<<19, len(whole))])))
			check.OK(t, file.Sync())
		}
		check.OK(t, file.Close())
		more, err := files.OpenForAppend(path)
		check.OK(t, err)
		check.OK(t, check.Err(more.Write([]byte("end"))))
		check.OK(t, more.Close())
		again := path + ".again"
		over, err := files.ReuseForWrite(path, again)
		check.OK(t, err)
		check.OK(t, check.Err(over.WriteAt([]byte("X"), 3)))
		check.OK(t, over.Close())
		read, err := os.ReadFile(again)
		check.OK(t, err)
		want := append(bytes.Clone(whole), "end"...)
		want[3] = 'X'
		check.ErrorIf(t, !bytes.Equal(read, want), "%s has %d bytes that are not as written", name, len(read))
	}
	opened, err := files.OpenDir(dir)
	check.OK(t, err)
	check.OK(t, opened.Sync())
	check.OK(t, opened.Close())
}
