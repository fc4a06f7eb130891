// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Consistency checks of recovery. The MANIFEST, tables and logs refer to each
// other, so that missing parts are detected.

#include <algorithm>

#include "db/recovery/recovery.h"
#include "env/file_names.h"

namespace varve {

Status Recovery::CheckLevels(const RecoveredState& state) const {
  for (size_t i = 0; i < families_.size(); ++i) {
    if (state.families[i].manifest == nullptr) continue;
    const int num_levels = families_[i].options->num_levels;
    for (int level = num_levels; level < kNumLevels; ++level) {
      if (state.families[i].manifest->levels[level].empty()) continue;
      return Status::InvalidArgument(
          db_path_, (i == 0 ? "" : "column family " + families_[i].name + " ") +
                        "has tables in level " + std::to_string(level) +
                        ", and num_levels is " + std::to_string(num_levels));
    }
  }
  return Status::OK();
}

Status Recovery::CheckForLostEdits(const RecoveredState& state) {
  const ManifestState& manifest = state.manifest;
  const auto& wals = state.wal_numbers;
  // An edit that makes a log obsolete names a later one, and only then is the
  // log removed. So the log that the MANIFEST names must exist.
  const uint64_t named_log = manifest.FirstLogNumber();
  const bool log_is_gone =
      named_log != 0 &&
      !std::binary_search(wals.begin(), wals.end(), named_log);
  if (manifest.torn_tail && log_is_gone) {
    return Status::Corruption(manifest.torn_tail_message,
                              "and the log that it replaced is gone");
  }
  for (const uint64_t table : table_numbers_) {
    if (std::binary_search(live_tables_.begin(), live_tables_.end(), table)) {
      continue;
    }
    has_unknown_tables_ = true;
    // A table whose number the MANIFEST has not allocated was being written
    // when the process died. An older log must then exist.
    const auto wal = std::lower_bound(wals.begin(), wals.end(), named_log);
    const bool no_older_log = wal == wals.end() || *wal > table;
    // (A log that is named may never have been there, if RocksDB named it.)
    if ((log_is_gone && manifest.logs_are_files) ||
        (table >= manifest.next_file_number && no_older_log)) {
      return Status::Corruption(
          ManifestFileName(db_path_, manifest.manifest_number),
          "has lost its end: it does not know " +
              TableFileName(db_path_, table) +
              ", and the log that holds its updates is gone");
    }
  }
  return Status::OK();
}

Status Recovery::CheckNamedLog(RecoveredState* state) {
  const ManifestState& manifest = state->manifest;
  const auto& wals = state->wal_numbers;
  const uint64_t named_log = manifest.FirstLogNumber();
  if (!manifest.logs_are_files || named_log == 0 ||
      std::binary_search(wals.begin(), wals.end(), named_log)) {
    return Status::OK();
  }
  const std::string path = WalFileName(db_path_, named_log);
  // A reader beside a writer has listed the directory before.
  if (options_.env->FileExists(path).ok()) return Status::OK();
  // Treated as if it were damaged from its first byte on.
  after_damage_ = true;
  return MissUpdates(
      Status::Corruption(path, "is missing, and the MANIFEST names it"), state);
}

Status Recovery::MissUpdates(const Status& status, RecoveredState* state) {
  if (options_.wal_recovery_mode == WalRecoveryMode::kAbsoluteConsistency) {
    return status;
  }
  state->logs_incomplete = true;
  NoteInconsistency(status.ToString());
  Log(LogLevel::kError, logger_, "updates may be lost: %s",
      status.ToString().c_str());
  return Status::OK();
}

Status Recovery::CheckLogsEnd(RecoveredState* state) {
  const auto& wals = state->wal_numbers;
  const SequenceNumber end = state->manifest.logs_end.value_or(0);
  if (last_replayed_ >= end || state->logs_incomplete) return Status::OK();
  // Any later open has written a new MANIFEST.
  return MissUpdates(
      Status::Corruption(
          WalFileName(db_path_, wals.empty() ? state->manifest.FirstLogNumber()
                                             : wals.back()),
          "has lost its end, or a later log is missing: the database was "
          "closed with updates up to number " +
              std::to_string(end) + " in its logs, which now end at " +
              std::to_string(last_replayed_)),
      state);
}

Status Recovery::CheckUnknownTables(RecoveredState* state) {
  for (const uint64_t number : table_numbers_) {
    if (number < state->manifest.next_file_number) continue;
    TableFile file;
    file.number = number;
    const std::string path = TableFileName(db_path_, number);
    SequenceNumber smallest = kMaxSequenceNumber;
    SequenceNumber largest = 0;
    bool is_whole = false;
    if (options_.env->GetFileSize(path, &file.size).ok()) {
      // It is not known whose it is. A family of another comparator refuses it.
      for (const RecoveryFamily& family : families_) {
        is_whole =
            ScanSequences(family.table_cache, file, &smallest, &largest).ok();
        family.table_cache->Evict(number);
        if (is_whole) break;
      }
    }
    if (!is_whole || largest <= state->last_sequence) continue;
    return MissUpdates(
        Status::Corruption(
            ManifestFileName(db_path_, state->manifest.manifest_number),
            "is older than " + path + ", whose updates up to number " +
                std::to_string(largest) + " are in no log either"),
        state);
  }
  return Status::OK();
}

}  // namespace varve
