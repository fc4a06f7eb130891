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

	"github.com/lni/dragonboat/v3/config"
	"github.com/lni/dragonboat/v3/raftio"
	"github.com/lni/dragonboat/v3/raftpb"
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

// dragonboat's log writes, uses files again, and has what was written when it is opened.
func TestTheLogIsOnTheseFiles(t *testing.T) {
	files := New(func(err error) { t.Error(err) })
	dir := t.TempDir()
	host := config.NodeHostConfig{}
	host.Expert.LogDB, host.Expert.Engine = config.GetTinyMemLogDBConfig(), config.GetDefaultEngineConfig()
	host.Expert.LogDB.Shards, host.Expert.FS = 1, files
	open := func() raftio.ILogDB {
		log, err := Log(files).Create(host, func(config.LogDBInfo) {}, []string{dir}, []string{dir})
		check.OK(t, err)
		return log
	}
	log := open()
	const entries = 1000
	command := bytes.Repeat([]byte("c"), 50000)
	for i := uint64(1); i <= entries; i++ {
		update := raftpb.Update{ClusterID: 1, NodeID: 2, State: raftpb.State{Term: 1, Commit: i},
			EntriesToSave: []raftpb.Entry{{Index: i, Term: 1, Cmd: command}}}
		check.OK(t, log.SaveRaftState([]raftpb.Update{update}, 1))
	}
	log.Close()
	log = open()
	defer log.Close()
	state, err := log.ReadRaftState(1, 2, 0)
	check.OK(t, err)
	check.ErrorIf(t, state.State.Commit != entries || state.EntryCount != entries, "%+v", state)
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
	// What has a descriptor, Pebble syncs by itself.
	log, err := files.Create(filepath.Join(dir, "3.log"))
	check.OK(t, err)
	for _, path := range []string{"4.log", "5.sst"} {
		check.OK(t, log.Close())
		log, err = files.ReuseForWrite(log.(*file).of.Name(), filepath.Join(dir, path))
		check.OK(t, err)
		_, has := log.(interface{ Fd() uintptr })
		check.ErrorIf(t, has, "%s has a descriptor", path)
	}
	check.OK(t, log.Close())
	opened, err := files.OpenDir(dir)
	check.OK(t, err)
	check.OK(t, opened.Sync())
	check.OK(t, opened.Close())
}
