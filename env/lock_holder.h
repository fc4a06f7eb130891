// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

#include <cstdint>
#include <string>

namespace varve {

// A process that has a database open.
struct LockHolder {
  // Such as "process 17 (mysqld)", or "another process"; see process_name.h.
  std::string description;
  uint64_t pid = 0;  // 0 if it is not known to run.
};

// Returns true if a process holds the lock on a database's LOCK file, and sets
// *holder. Neither takes nor disturbs the lock. Only for programs that have no
// database open themselves: closing a file drops the record locks that the
// calling process has on it.
bool FindLockHolder(const std::string& lock_path, LockHolder* holder);

}  // namespace varve
