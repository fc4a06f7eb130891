// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Exclusive locks on files, against other processes and other callers in this
// one.
//
// Against processes it is a record lock (fcntl F_SETLK) over the whole file,
// the kind that RocksDB takes, so that both engines exclude each other. Such a
// lock belongs to the process and is lost as soon as the process closes *any*
// descriptor of the file. Hence a table of the files held, by device and inode
// so that no spelling of the path gets around it, which is asked before a file
// is opened.
// Thread-safety: thread-safe.

#include <memory>
#include <string>

#include "varve/env.h"
#include "varve/status.h"

namespace varve {

// See Env::LockFile and Env::UnlockFile.
Status LockPosixFile(const std::string& path, std::unique_ptr<FileLock>* lock);
Status UnlockPosixFile(std::unique_ptr<FileLock> lock);

}  // namespace varve
