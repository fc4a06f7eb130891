// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "db/recovery/unlocked_recovery.h"

#include <map>
#include <memory>
#include <string>
#include <utility>

#include "db/directory/buffering_logger.h"
#include "db/recovery/directory_observation.h"
#include "table/reader/file_pool.h"

namespace varve {

namespace {

// Each attempt keeps the tables of the previous one open, so a few attempts are
// enough. If a writer is faster than all of them, nothing can be read.
constexpr int kMaxAttempts = 200;
// The same error this often means damage, not a race with a writer.
constexpr int kMaxSameErrors = 8;
// A writer needs less to complete a record that it has begun, though it may
// have to wait for the processor. Each wait is twice as long as the one before,
// half a second together.
constexpr int kTailAttempts = 10;
constexpr uint64_t kTailWaitUs = 1000;

class UnlockedRecovery {
 public:
  UnlockedRecovery(const Options& options, const std::string& db_path,
                   std::span<const RecoveryFamily> families, Logger* logger,
                   bool with_logs)
      : options_(options),
        db_path_(db_path),
        families_(families),
        logger_(logger),
        with_logs_(with_logs) {}

  Status Run(std::unique_ptr<RecoveredState>* state) {
    before_ = ObserveDirectory(options_.env, db_path_);
    Status status;
    for (int attempt = 1; attempt <= kMaxAttempts; ++attempt) {
      *state = std::make_unique<RecoveredState>();
      bool settled = false;
      // What is found wrong while a writer changes it need not be wrong.
      BufferingLogger log;
      status = Attempt(&log, state->get(), &settled);
      if (settled) {
        log.SetTarget({std::shared_ptr<void>(), logger_});  // Not owned.
        return status;
      }
      Log(LogLevel::kInfo, logger_, "read again, since it changed: %s",
          status.ToString().c_str());
    }
    return Status::Busy(
        db_path_, "another process changes it faster than it can be read: " +
                      status.ToString());
  }

 private:
  // *settled: whether the result counts.
  Status Attempt(Logger* log, RecoveredState* state, bool* settled) {
    UnlockedRead read;
    read.on_manifest = [this](const ManifestState& manifest) {
      ForgetOtherTables(manifest);
    };
    read.tail_is_in_flight = tail_is_in_flight_;
    Recovery recovery(options_, db_path_, families_, log, &read);
    Status status = recovery.ReadTables(state);
    if (status.ok() && with_logs_) status = recovery.ReplayLogs(state, nullptr);
    const DirectoryObservation after = ObserveDirectory(options_.env, db_path_);
    *settled = Counts(status, *state, read, after);
    if (before_.identity != after.identity) replaced_ = true;
    before_ = after;
    return status;
  }

  bool Counts(const Status& status, const RecoveredState& state,
              const UnlockedRead& read, const DirectoryObservation& after) {
    if (status.ok()) {
      if (state.logs_incomplete && read.torn_log != 0) {
        return HoleIsLasting(read);
      }
      if (after == before_) return true;
      // A listing may miss a file that was renamed in the meantime.
      if (!state.exists) return before_.current.empty();
      if (before_.identity != after.identity) return false;
      if (!read.inconsistency.empty()) return IsLasting(read.inconsistency);
      if (!with_logs_) return true;
      // Varve's logs show by themselves whether one is missing.
      if (state.manifest.logs_are_files || read.logs.empty()) return true;
      // A log that was there before the listing began has all that are older
      // and needed beside it in the listing.
      return (read.logs_join && before_.log_bytes.contains(read.logs[0])) ||
             before_.SameUpTo(after, read.logs.front(), read.logs.back());
    }
    if (!status.IsNotFound() && !status.IsCorruption() &&
        !FilePool::IsRemovedError(status)) {
      return true;
    }
    if (read.torn_log != 0) return TailIsDamaged(read);
    return after == before_ || IsLasting(status.ToString());
  }

  // Whether what is wrong was found so often that it is no writer's doing.
  bool IsLasting(const std::string& text) {
    same_errors_ = text == last_error_ ? same_errors_ + 1 : 1;
    last_error_ = text;
    return same_errors_ >= kMaxSameErrors;
  }

  // Whether the last attempt found the same hole. A writer fills a log in
  // order. If there are records after a hole, it was filled just after it was
  // read, and the next attempt finds it filled. The size of a mapped log does
  // not show that it has changed.
  bool HoleIsLasting(const UnlockedRead& read) {
    const std::pair<uint64_t, uint64_t> place(read.torn_log, read.torn_at);
    return std::exchange(hole_, place) == place;
  }

  // If a record was cut off at the last attempt and is complete at this one, it
  // was being written.
  bool TailIsDamaged(const UnlockedRead& read) {
    const std::pair<uint64_t, uint64_t> place(read.torn_log, read.torn_at);
    if (tail_attempts_ > 0 && place > tail_) tail_is_in_flight_ = true;
    tail_ = place;
    if (++tail_attempts_ >= kTailAttempts && !tail_is_in_flight_) return true;
    options_.env->SleepForMicroseconds(kTailWaitUs << (tail_attempts_ - 1));
    return false;
  }

  // Tables of earlier attempts are still open.
  void ForgetOtherTables(const ManifestState& manifest) {
    std::map<uint64_t, TableIdentity> tables;
    manifest.ForEachFile([&tables](const FileMetaData* file) {
      tables[file->number] = file->Identity();
    });
    for (const auto& [number, table] : tables_) {
      const auto now = tables.find(number);
      if (!replaced_ && now != tables.end() && now->second == table) continue;
      for (const RecoveryFamily& family : families_) {
        family.table_cache->Evict(number);
      }
    }
    replaced_ = false;
    tables_ = std::move(tables);
  }

  const Options& options_;
  const std::string& db_path_;
  const std::span<const RecoveryFamily> families_;
  Logger* const logger_;
  const bool with_logs_;
  DirectoryObservation before_;
  // From the last attempt.
  std::map<uint64_t, TableIdentity> tables_;
  bool replaced_ = false;  // Another database has replaced this one.
  std::string last_error_;
  int same_errors_ = 0;
  bool tail_is_in_flight_ = false;
  int tail_attempts_ = 0;
  // The number of a log, and the end of its records before what is wrong.
  std::pair<uint64_t, uint64_t> tail_;
  std::pair<uint64_t, uint64_t> hole_;
};

}  // namespace

Status RecoverUnlocked(const Options& options, const std::string& db_path,
                       std::span<const RecoveryFamily> families, Logger* logger,
                       std::unique_ptr<RecoveredState>* state, bool with_logs) {
  return UnlockedRecovery(options, db_path, families, logger, with_logs)
      .Run(state);
}

}  // namespace varve
