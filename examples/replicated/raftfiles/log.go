// Varve: a key-value storage engine. MIT licence, see LICENSE.
package raftfiles

import (
	_ "unsafe" // For go:linkname.

	_ "github.com/lni/dragonboat/v3" // Has what newLog is.
	"github.com/lni/dragonboat/v3/config"
	"github.com/lni/dragonboat/v3/raftio"
	"github.com/lni/goutils/vfs"
)

// Log makes dragonboat's usual log, on these files. It is a config.LogDBFactory.
type Log Files

// Name is what dragonboat's directories say of their log: the usual one's.
func (Log) Name() string { return "sharded-pebble" }

// Create opens the log. dragonboat's log takes no other file systems than the system's,
// one in memory, and those that inject errors. So it gets one of these, which injects none.
func (l Log) Create(host config.NodeHostConfig, callback config.LogDBCallback,
	dirs, walDirs []string) (raftio.ILogDB, error) {
	return newLog(host, callback, dirs, walDirs, vfs.Wrap(Files(l), noErrors{}))
}

type noErrors struct{}

func (noErrors) MaybeError(vfs.Op) error { return nil }

// newLog is what dragonboat itself calls. It is in an internal package, and the only way
// to have another file system for the log: as the host's own file system, one that
// injects errors would have dragonboat forget the panics of its workers.
//
//go:linkname newLog github.com/lni/dragonboat/v3/internal/logdb.NewDefaultLogDB
func newLog(config.NodeHostConfig, config.LogDBCallback, []string, []string, vfs.FS) (raftio.ILogDB, error)
