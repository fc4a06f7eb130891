// Varve: a key-value storage engine. MIT licence, see LICENSE.

// Package raftfiles has dragonboat's files fail in order. dragonboat panics when one
// cannot be written. With these, whoever writes it waits for good instead, so that what
// was not written is never answered, while the rest of the node ends.
package raftfiles

import (
	"errors"
	"io"
	"os"
	"strings"
	"syscall"

	"github.com/lni/goutils/vfs"
)

// Files is a file system. Fatal is called when the disk is full or fails, and must not
// return. All methods may be called at the same time.
type Files struct {
	vfs.FS
	Fatal func(error)
}

// New returns the files of the system.
func New(fatal func(error)) Files { return Files{FS: vfs.Default, Fatal: fatal} }

// losses are errors of a disk, or of a file system that is damaged or gone.
var losses = []error{syscall.ENOSPC, syscall.EDQUOT, syscall.EIO, syscall.EROFS,
	syscall.EUCLEAN, syscall.EBADMSG, syscall.ESTALE}

// check passes on an error of a call that changes a directory, unless the disk is lost.
func (f Files) check(err error) error {
	for _, loss := range losses {
		if errors.Is(err, loss) {
			f.Fatal(err)
		}
	}
	return err
}

func (f Files) file(opened vfs.File, err error) (vfs.File, error) {
	if f.check(err) != nil {
		return nil, err
	}
	return &file{File: opened, of: opened.(*os.File), files: f}, nil
}

// Create makes a file and empties it.
func (f Files) Create(name string) (vfs.File, error) { return f.file(f.FS.Create(name)) }

// OpenDir opens a directory, to be synced.
func (f Files) OpenDir(name string) (vfs.File, error) {
	opened, err := f.FS.OpenDir(name)
	if f.check(err) != nil {
		return nil, err
	}
	return directory{opened, f}, nil
}

// OpenForAppend opens a file to write behind its end.
func (f Files) OpenForAppend(name string) (vfs.File, error) {
	return f.file(f.FS.OpenForAppend(name))
}

// ReuseForWrite gives a file another name, to write over what it has.
func (f Files) ReuseForWrite(from, to string) (vfs.File, error) {
	return f.file(f.FS.ReuseForWrite(from, to))
}

// Link gives a file a second name.
func (f Files) Link(from, to string) error { return f.check(f.FS.Link(from, to)) }

// Remove removes a file or an empty directory.
func (f Files) Remove(name string) error { return f.check(f.FS.Remove(name)) }

// RemoveAll removes a directory with what it has.
func (f Files) RemoveAll(name string) error { return f.check(f.FS.RemoveAll(name)) }

// Rename gives a file another name.
func (f Files) Rename(from, to string) error { return f.check(f.FS.Rename(from, to)) }

// MkdirAll makes a directory, and those that it is in.
func (f Files) MkdirAll(name string, mode os.FileMode) error {
	return f.check(f.FS.MkdirAll(name, mode))
}

// Lock makes a file that one process holds.
func (f Files) Lock(name string) (io.Closer, error) {
	lock, err := f.FS.Lock(name)
	return lock, f.check(err)
}

type directory struct {
	vfs.File
	files Files
}

func (d directory) Sync() error { return written(d.files, d.File.Sync()) }

// written is for the calls after which nobody knows what the disk has. All their errors
// are losses, but that a file was closed before.
func written(f Files, err error) error {
	if err != nil && !errors.Is(err, os.ErrClosed) {
		f.Fatal(err)
	}
	return err
}

// file is a file that is written, by one goroutine. It has no method Fd, because Pebble
// syncs by itself what has one, and panics if that fails.
type file struct {
	vfs.File
	of        *os.File // The same.
	files     Files
	end       int64 // Of what Write has written.
	allocated int64 // Bytes from the file's beginning that have blocks.
	begun     bool  // A table's bytes are on their way to the disk.
}

// ahead is how many bytes behind a log's end have blocks. A sync that has to record new
// blocks takes longer.
const ahead = 4 << 20

func (f *file) is(kind string) bool { return strings.HasSuffix(f.of.Name(), kind) }

func (f *file) Write(data []byte) (int, error) {
	const keepSize = 1 // Of fallocate: the file does not become longer.
	if end := f.end + int64(len(data)); end > f.allocated && f.is(".log") {
		// Write does it if this fails.
		syscall.Fallocate(int(f.of.Fd()), keepSize, f.allocated, end+ahead-f.allocated)
		f.allocated = end + ahead
	}
	n, err := f.File.Write(data)
	f.end += int64(n)
	return n, written(f.files, err)
}

func (f *file) WriteAt(data []byte, at int64) (int, error) {
	n, err := f.File.WriteAt(data, at)
	return n, written(f.files, err)
}

// Sync makes safe what was written and what is needed to read it, such as the length. Of
// a table it only begins to write: Pebble syncs one after each 512 KiB, and has closed it
// before anything names it.
func (f *file) Sync() error {
	if f.is(".sst") {
		const write = 2 // Of sync_file_range: it does not wait.
		syscall.SyncFileRange(int(f.of.Fd()), 0, 0, write)
		f.begun = true
		return nil
	}
	return f.sync()
}

func (f *file) sync() error {
	for {
		if err := syscall.Fdatasync(int(f.of.Fd())); err != syscall.EINTR {
			return written(f.files, os.NewSyscallError("fdatasync "+f.of.Name(), err))
		}
	}
}

// Close makes a table safe that was synced.
func (f *file) Close() error {
	if f.begun {
		f.begun = false
		if err := f.sync(); err != nil {
			return err
		}
	}
	return f.File.Close()
}
