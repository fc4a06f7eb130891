// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Exclusive file locks, against other processes and against all other callers
// in this process.
//
// A lock belongs to the open file description (fcntl F_OFD_SETLK). No other
// open and close of the file in the process drops it. A second copy of this
// library in the process cannot take it. It and the record locks (F_SETLK) of
// RocksDB and LevelDB exclude each other. A forked child shares the lock. It is
// held until the holder unlocks it, or until the last of these processes has
// ended.
//
// A child that is about to execute another program has the lock for some
// milliseconds more, or longer on a busy machine. So if the process that took
// the lock was killed while it started programs, its lock is waited for.
//
// If the kernel has no such locks (EINVAL), a record lock is used. It belongs
// to the process, and is lost as soon as the process closes any descriptor of
// the file. So a table of the files locked in this way, by device and inode, is
// checked before a file is opened. FileLock::Caveat reports it.
//
// The kernel does not report the holder of an open file description lock. So
// the holder writes its pid into the file and empties the file when it unlocks.
// That text decides about messages and waits only. It is written under the lock
// to a file that has no other name. A LOCK file with several names comes from a
// copy of the directory by hard links, and its lock would exclude the original.
// The name here is then removed and a new file created. Thread-safety:
// thread-safe.

#include <memory>

#include "env/posix_file.h"
#include "varve/env.h"
#include "varve/status.h"

namespace varve {

// See Env::LockFile and Env::UnlockFile. The place's directory must stay open
// as long as the lock is held. If the process that holds the lock by the name
// in the file has ended, sleeps by `clock` for up to a second before it returns
// Busy. A process of another pid namespace counts as ended.
Status LockPosixFile(const FilePlace& place, Env* clock,
                     std::unique_ptr<FileLock>* lock);
Status UnlockPosixFile(std::unique_ptr<FileLock> lock);

}  // namespace varve
