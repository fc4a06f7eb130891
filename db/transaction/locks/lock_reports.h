// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Reports of a lock table: the locks with their holders, and past deadlocks.
// The names are RocksDB's.

#include <cstdint>
#include <string>
#include <vector>

namespace varve {

// A key that is locked.
struct KeyLockInfo {
  uint32_t family = 0;
  std::string key;
  std::vector<uint64_t> ids;  // The transactions that hold the lock.
  bool exclusive = false;
};

// A transaction, and the lock that it waits for. The next one of the path has
// it, or is before it in the queue.
struct DeadlockInfo {
  uint64_t m_txn_id = 0;
  uint32_t m_cf_id = 0;
  bool m_exclusive = false;
  std::string m_waiting_key;
};

// A cycle of transactions. The last one closed it and got the error. It would
// have waited for the first one.
struct DeadlockPath {
  std::vector<DeadlockInfo> path;
  // The search ended before it found a cycle; `path` is empty.
  bool limit_exceeded = false;
  int64_t deadlock_time = 0;  // Seconds since the epoch.

  bool empty() const { return path.empty() && !limit_exceeded; }
};

}  // namespace varve
