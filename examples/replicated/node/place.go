// Varve: a key-value storage engine. MIT licence, see LICENSE.
package node

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
)

// place is where backups are, as files with names such as "monday/manifest.json".
type place interface {
	// put stores a file, which was written below the folder of spool.
	put(name string, from *os.File) error
	// get reads a file. An error may come as late as Close returns.
	get(name string) (io.ReadCloser, error)
	// list has the names that begin with a prefix.
	list(prefix string) ([]string, error)
	remove(name string) error
	// spool is a folder for files before they are put.
	spool() string
}

// directory is a place on a file system of this machine.
type directory struct{ path string }

func (d directory) spool() string { return d.path }

// put fails if there is a file of that name. After a crash there is a whole file
// or none.
func (d directory) put(name string, from *os.File) error {
	path := filepath.Join(d.path, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	if err := from.Sync(); err != nil {
		return err
	}
	if err := os.Link(from.Name(), path); err != nil {
		return err
	}
	if err := syncDir(filepath.Dir(path)); err != nil {
		return err
	}
	return syncDir(d.path)
}

func (d directory) get(name string) (io.ReadCloser, error) {
	return os.Open(filepath.Join(d.path, name))
}

func (d directory) list(prefix string) (names []string, err error) {
	err = filepath.WalkDir(filepath.Join(d.path, filepath.Dir(prefix)), func(path string, entry fs.DirEntry, err error) error {
		name, _ := filepath.Rel(d.path, path)
		switch {
		case errors.Is(err, fs.ErrNotExist): // It was removed just now.
		case err != nil:
			return err
		case entry.IsDir() && path != d.path && strings.HasPrefix(entry.Name(), "."):
			return filepath.SkipDir
		case !entry.IsDir() && strings.HasPrefix(name, prefix):
			names = append(names, name)
		}
		return nil
	})
	return names, err
}

func (d directory) remove(name string) error {
	path := filepath.Join(d.path, name)
	err := os.Remove(path)
	os.Remove(filepath.Dir(path)) // If it is empty by now.
	return err
}

// command is a place that a program of the operator reaches. It is called with a
// verb and a name: "put" stores its standard input, "get" writes a file to its
// standard output, "list" the names with a prefix, a line each, and "delete"
// removes a file.
type command struct {
	words []string
	dir   string // For spool.
	stop  <-chan struct{}
}

func (c command) spool() string { return c.dir }

// start begins a call, which is killed when the node stops.
func (c command) start(verb, name string, input io.Reader, output io.Writer) (wait func() error, err error) {
	ctx, cancel := context.WithCancel(context.Background())
	call := exec.CommandContext(ctx, c.words[0], append(append([]string(nil), c.words[1:]...), verb, name)...)
	var complaint bytes.Buffer
	call.Stdin, call.Stdout, call.Stderr = input, output, &limited{&complaint, 1000}
	call.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	call.Cancel = func() error { return syscall.Kill(-call.Process.Pid, syscall.SIGKILL) }
	if err := call.Start(); err != nil {
		cancel()
		return nil, fmt.Errorf("--backup-to: %w", err)
	}
	ended := make(chan struct{})
	go func() {
		select {
		case <-c.stop:
			cancel()
		case <-ended:
		}
	}()
	return func() error {
		err := call.Wait()
		close(ended)
		cancel()
		if err != nil {
			err = fmt.Errorf("--backup-to: %s %s: %w %s", verb, name, err, strings.TrimSpace(complaint.String()))
		}
		return err
	}, nil
}

// limited keeps the first bytes that are written to it.
type limited struct {
	to   *bytes.Buffer
	left int
}

func (l *limited) Write(text []byte) (int, error) {
	kept := text[:min(l.left, len(text))]
	l.left -= len(kept)
	l.to.Write(kept)
	return len(text), nil
}

func (c command) call(verb, name string, input io.Reader) ([]byte, error) {
	var output bytes.Buffer
	wait, err := c.start(verb, name, input, &output)
	if err == nil {
		err = wait()
	}
	return output.Bytes(), err
}

func (c command) put(name string, from *os.File) error {
	if _, err := from.Seek(0, io.SeekStart); err != nil {
		return err
	}
	_, err := c.call("put", name, from)
	return err
}

func (c command) get(name string) (io.ReadCloser, error) {
	reader, writer, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	wait, err := c.start("get", name, nil, writer)
	writer.Close()
	if err != nil {
		reader.Close()
		return nil, err
	}
	return &output{reader, wait}, nil
}

// output is what a program writes. Its end is read before its status is known.
type output struct {
	*os.File
	wait func() error
}

func (o *output) Close() error {
	_, err := io.Copy(io.Discard, o.File)
	return errors.Join(err, o.wait(), o.File.Close())
}

func (c command) list(prefix string) (names []string, err error) {
	text, err := c.call("list", prefix, nil)
	for _, name := range strings.Fields(string(text)) {
		if strings.HasPrefix(name, prefix) {
			names = append(names, name)
		}
	}
	return names, err
}

func (c command) remove(name string) error {
	_, err := c.call("delete", name, nil)
	return err
}
