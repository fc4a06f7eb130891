// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Bounds the bytes of all logs (DBOptions::max_total_wal_size). A log is freed
// when no column family needs it any more. So the families with the oldest
// updates that no table has are flushed when the logs come near the bound, and
// writers wait when they have reached it. Thread-safety: guarded by the DB
// mutex.

#include <cstdint>
#include <string>
#include <vector>

#include "db/family/family_set.h"
#include "db/options/db_mutex.h"
#include "db/wal/prepared_set.h"
#include "db/wal/wal_set.h"
#include "varve/env.h"
#include "varve/options.h"

namespace varve {

class LogBound {
 public:
  // `options` are the database's; `log` is the info log. All must outlive this
  // object.
  LogBound(const Options* options, const FamilySet* families, WalSet* wals,
           const PreparedSet* prepared, Logger* log)
      : options_(options),
        families_(families),
        wals_(wals),
        prepared_(prepared),
        log_(log) {}
  LogBound(const LogBound&) = delete;
  LogBound& operator=(const LogBound&) = delete;

  // Returns the bound for the bytes of all logs.
  uint64_t MaxBytesLocked() const VARVE_REQUIRES(kDbMutex);
  // Sets the size at which a log is replaced. Call it when families or options
  // have changed. REQUIRES: leadership of the queue.
  void UpdateLogSizeLocked() VARVE_REQUIRES(kDbMutex);
  // Adds the families because of which the logs would soon exceed the bound,
  // unless they are among *families. REQUIRES: leadership of the queue.
  void AddHoldersLocked(std::vector<ColumnFamily*>* families) const
      VARVE_REQUIRES(kDbMutex);
  // Returns whether the logs would exceed the bound because of prepared
  // sections alone, and a copy of these would be much smaller. REQUIRES:
  // leadership of the queue.
  bool MustMovePreparedLocked() const VARVE_REQUIRES(kDbMutex);

  // Returns whether the logs have reached the bound, so that writers have to
  // wait until logs are freed. `frees`: whether a flush or removal is about to
  // free some.
  bool CheckLocked(bool frees) VARVE_REQUIRES(kDbMutex);
  // Returns the result of the last CheckLocked.
  bool holds_up() const { return holds_up_; }

  // Describes the oldest log, and who needs it, for a property.
  std::string DescribeOldestLocked() const VARVE_REQUIRES(kDbMutex);

 private:
  // Returns the bytes of all logs that makes a flush due. REQUIRES: leadership
  // of the queue.
  uint64_t LimitLocked() const VARVE_REQUIRES(kDbMutex);
  // Returns the bytes of the logs that only prepared sections need.
  uint64_t PreparedBytesLocked() const VARVE_REQUIRES(kDbMutex);

  const Options* const options_;
  const FamilySet* const families_;
  WalSet* const wals_;
  const PreparedSet* const prepared_;
  Logger* const log_;
  bool holds_up_ = false;
};

}  // namespace varve
