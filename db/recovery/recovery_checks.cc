// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Consistency checks of recovery. The MANIFEST, tables and logs refer to each
// other, so that missing parts are detected.

#include <algorithm>

#include "db/recovery/recovery.h"
#include "db/wal/wal_predecessor.h"
#include "db/wal/wal_reader.h"
#include "db/write/write_batch_internal.h"
#include "env/file_names.h"

namespace varve {

Status Recovery::CheckLevels(const RecoveredState& state) const {
  for (size_t i = 0; i < families_.size(); ++i) {
    if (state.families[i].manifest == nullptr) continue;
    const LevelFiles& levels = state.families[i].manifest->levels;
    const auto num_levels =
        static_cast<size_t>(families_[i].options->num_levels);
    for (size_t level = num_levels; level < levels.size(); ++level) {
      if (levels[level].empty()) continue;
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
  // RocksDB raises the first log to keep in an edit of its own, which may be
  // the lost one.
  const uint64_t named_log = manifest.logs_are_files
                                 ? manifest.FirstLogNumber()
                                 : manifest.FirstLogOfFamilies();
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

Status Recovery::CheckNewestNamedLog(RecoveredState* state) {
  const auto& families = state->manifest.families;
  uint64_t newest = 0;
  for (const auto& family : families) {
    newest = std::max(newest, family->log_number);
  }
  const std::string path = WalFileName(db_path_, newest);
  const auto& wals = state->wal_numbers;
  // A later log shows by its predecessor what is missing. The first log was
  // checked.
  if (!logs_are_files_ || newest <= first_log_ ||
      (!wals.empty() && wals.back() >= newest) ||
      options_.env->FileExists(path).ok()) {
    return Status::OK();
  }
  return MissUpdates(
      Status::Corruption(path, "is missing, and the MANIFEST names it"), state);
}

Status Recovery::MissUpdates(const Status& status, RecoveredState* state) {
  if (options_.wal_recovery_mode == WalRecoveryMode::kAbsoluteConsistency) {
    return status;
  }
  if (damage_.ok()) damage_ = status;
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

Status Recovery::CheckPlace(const Slice& record, uint64_t number, bool first,
                            BatchReader* batch) const {
  const std::string path = WalFileName(db_path_, number);
  if (!batch->Init(record).ok()) {
    return Status::Corruption(path, "a record is no write batch");
  }
  const auto note = first ? WalPredecessor::Decode(record) : std::nullopt;
  if (note && note->log != 0 && note->log != number) {
    return Status::Corruption(
        path, "it is a copy of log " + std::to_string(note->log));
  }
  // The numbers of Varve's logs only grow.
  if (!logs_are_files_ || batch->count() == 0 ||
      batch->sequence() > position_) {
    return Status::OK();
  }
  return Status::Corruption(
      path, "it is a copy of an older log: its update number " +
                std::to_string(batch->sequence()) + " follows number " +
                std::to_string(position_));
}

// Only the first log of an Open has no predecessor. The MANIFEST names that log
// before it has a record, and never an older one from then on.
Status Recovery::CheckForLaterOpen(const Slice& record, uint64_t number) const {
  if (!logs_are_files_ || number <= first_log_ ||
      WalPredecessor::Decode(record)) {
    return Status::OK();
  }
  return Status::Corruption(
      CurrentFileName(db_path_) + " names a MANIFEST that is older than " +
      WalFileName(db_path_, number) +
      ", or that log is a copy of another one; RepairDB may help");
}

Status Recovery::CheckForFamiliesAhead(const RecoveredState& state) const {
  if (!after_damage_ && !state.logs_incomplete) return Status::OK();
  const uint64_t last_log = std::max(last_log_, first_log_);
  std::string ahead;
  for (const RecoveredFamily& family : state.families) {
    const FamilyManifest* const manifest = family.manifest;
    // It has nothing of later logs in tables.
    if (manifest == nullptr || manifest->log_number <= last_log) continue;
    // RocksDB does not say how far the tables go.
    if (manifest->tables_end ? *manifest->tables_end <= position_
                             : manifest->HasNoTables()) {
      continue;
    }
    ahead += (ahead.empty() ? "" : ", ") + manifest->name;
    if (!manifest->tables_end) continue;
    ahead += " (to number " + std::to_string(*manifest->tables_end) + ")";
  }
  if (ahead.empty()) return Status::OK();
  return Status::Corruption(
      "the logs of " + db_path_ + " can be replayed to update number " +
      std::to_string(position_) + ", in log " + std::to_string(last_log) +
      ", but there are later updates in tables of column families " + ahead +
      "; RepairDB keeps all that can be read; " + damage_.ToString());
}

void Recovery::ScanUnusedLogs(RecoveredState* state) const {
  UnusedLogs* const unused = &state->unused_logs;
  if (unused->files.empty()) return;
  state->logs_incomplete = true;
  Log(LogLevel::kError, logger_,
      "updates may be lost: the logs are replayed only to number %llu: %s",
      static_cast<unsigned long long>(position_), damage_.ToString().c_str());
  if (unlocked_ != nullptr) {
    unused->files.clear();
    return;
  }
  unused->after = position_;
  // A commit there may be of any updates that were prepared.
  uint64_t prepared = 0;
  for (const auto& [name, held] : state->prepared.sections()) {
    prepared += held->section.updates.Count();
  }
  for (const auto& [number, name] : unused->files) {
    std::unique_ptr<SequentialFile> file;
    const std::string path = WalFileName(db_path_, number);
    // A log that cannot be read now may be read later.
    if (!options_.env->NewSequentialFile(path, FileOptions(), &file).ok()) {
      continue;
    }
    wal::Reader reader(std::move(file), path, number);
    Slice record;
    do {
      while (reader.ReadRecord(&record) == wal::ReadOutcome::kRecord) {
        BatchReader batch;
        if (!batch.Init(record).ok()) continue;
        const bool has_marks = HasMarks(record);
        if (has_marks) prepared += batch.count();
        if (!has_marks && batch.count() == 0) continue;
        const SequenceNumber next = batch.sequence() + batch.count();
        if (next > 0) unused->end = std::max(unused->end, next - 1);
      }
    } while (reader.SkipDamage());
  }
  unused->end += prepared;
  // New updates get later numbers, so that a repair can tell them apart.
  unused->end = std::max(
      {unused->end, state->last_sequence, state->manifest.last_sequence});
  state->last_sequence = unused->end;
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
    const Status status = Status::Corruption(
        ManifestFileName(db_path_, state->manifest.manifest_number),
        "is older than " + path + ", whose updates up to number " +
            std::to_string(largest) +
            " are in no log either; RepairDB may help");
    // After a power cut, the table of an interrupted flush may be all that is
    // left of updates that were not synced. But after the database was closed
    // with updates in its logs, only an Open with a MANIFEST of its own can
    // have written later ones.
    const auto& logs_end = state->manifest.logs_end;
    return logs_end && largest > *logs_end ? status
                                           : MissUpdates(status, state);
  }
  return Status::OK();
}

}  // namespace varve
