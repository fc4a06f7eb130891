// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Exclusive locks on files, against other processes and all other callers in
// this one.
//
// A lock belongs to the open file description (fcntl F_OFD_SETLK): no open and
// close of the file elsewhere in the process drops it, a second copy of this
// library in the process does not get it, and it excludes the record locks
// (F_SETLK) of RocksDB and LevelDB, as they exclude it. A child that was forked
// shares it: the lock is held until the holder unlocks it, or until the last of
// these processes has ended.
//
// Where the kernel has no such locks (EINVAL), it is a record lock. That
// belongs to the process, and is lost as soon as the process closes any
// descriptor of the file. Hence a table of the files held so, by device and
// inode, is asked before a file is opened; FileLock::Caveat tells.
//
// The kernel does not say who holds a lock of the first kind. So the holder
// writes its pid into the file and empties it when it unlocks. That text is for
// messages only, and is written under the lock to a file that has no other
// name. A file with several names is a directory's copy by hard links, whose
// lock would exclude the original: its name here is removed and a new file
// made.
// Thread-safety: thread-safe.

#include <memory>

#include "env/posix_file.h"
#include "varve/env.h"
#include "varve/status.h"

namespace varve {

// See Env::LockFile and Env::UnlockFile. The place's directory must stay open
// as long as the lock is held.
Status LockPosixFile(const FilePlace& place, std::unique_ptr<FileLock>* lock);
Status UnlockPosixFile(std::unique_ptr<FileLock> lock);

}  // namespace varve
