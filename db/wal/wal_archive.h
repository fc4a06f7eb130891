// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// The folder archive/ of a database's directory, with the obsolete logs that
// GetUpdatesSince may still read. Its form is RocksDB's: the logs have their
// names, and nothing else is in it. A log comes here by a rename, so a reader
// that has it open goes on, and it leaves by its age, and by the size of all.
// The age counts from the file's last change.
//
// Thread-safety: functions called ...Locked require the DB mutex. The others
// are thread-safe.

#include <cstdint>
#include <string>
#include <vector>

#include "db/options/db_mutex.h"
#include "varve/env.h"
#include "varve/options.h"
#include "varve/status.h"

namespace varve {

// Returns the path of the folder, and of a log in it.
std::string ArchiveDirectory(const std::string& db_path);
std::string ArchivedWalFileName(const std::string& db_path, uint64_t number);
// Stores the numbers of the logs in a directory, in increasing order.
Status ListLogs(Env* env, const std::string& directory,
                std::vector<uint64_t>* numbers);
// Does so for the archived logs. There are none without the folder.
Status ListArchive(Env* env, const std::string& db_path,
                   std::vector<uint64_t>* numbers);

class WalArchive {
 public:
  static constexpr uint64_t kNever = UINT64_MAX;

  // `env` must outlive this object.
  WalArchive(Env* env, const std::string& db_path, const DBOptions& options);
  WalArchive(const WalArchive&) = delete;
  WalArchive& operator=(const WalArchive&) = delete;

  // Returns whether obsolete logs are to be archived.
  bool keeps_logs() const { return ttl_s_ != 0 || limit_bytes_ != 0; }
  // Moves a log of the database's directory here.
  Status Add(uint64_t number) const;
  // Removes what is too old or too much. Returns when the next log gets too
  // old, in seconds since 1970, or kNever.
  uint64_t Purge(Logger* log) const;

  // Returns the seconds after which an archived log gets too old, or 0.
  uint64_t ttl_s() const { return ttl_s_; }
  // Returns when Purge has something to do, as it does.
  uint64_t next_due_s() const { return next_due_s_; }
  // Returns whether Purge has something to do.
  bool IsDueLocked() const VARVE_REQUIRES(kDbMutex);
  // Returns whether Purge is to be called, which needs no mutex, and then
  // EndPurgeLocked. `added`: logs are being archived.
  bool BeginPurgeLocked(bool added) VARVE_REQUIRES(kDbMutex);
  void EndPurgeLocked(uint64_t next_due_s) VARVE_REQUIRES(kDbMutex);
  // Makes Purge due: the archive of an earlier process may have old logs.
  void MakeDueLocked() VARVE_REQUIRES(kDbMutex) {
    if (keeps_logs()) next_due_s_ = 0;
  }

 private:
  Env* const env_;
  const std::string db_path_;
  const uint64_t ttl_s_;
  const uint64_t limit_bytes_;
  bool purge_runs_ = false;
  bool runs_again_ = false;  // Logs came while it ran.
  uint64_t next_due_s_ = kNever;
};

}  // namespace varve
