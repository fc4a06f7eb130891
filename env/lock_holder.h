// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

#include <string>

namespace varve {

// Returns true if a process holds the lock on a database's LOCK file, and sets
// *holder to its name, such as "process 17". Neither takes nor disturbs the
// lock. Only for programs that have no database open themselves: closing a file
// drops the record locks that the calling process has on it.
bool FindLockHolder(const std::string& lock_path, std::string* holder);

}  // namespace varve
