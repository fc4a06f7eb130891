// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "db/recovery.h"

#include <algorithm>

#include "db/key_case.h"
#include "db/overlooked_logs.h"
#include "db/table_preload.h"
#include "db/wal_predecessor.h"
#include "db/wal_reader.h"
#include "db/write_batch_internal.h"
#include "env/descriptor_room.h"
#include "env/file_names.h"
#include "monitoring/span.h"

namespace varve {

namespace {

// Each memtable that recovery fills becomes a table of level 0, and a long log
// would become very many of them if the write buffer is small. So a memtable
// may also become as large as this part of what was replayed before it, up to a
// bound.
constexpr size_t kReplayedPart = 16;
constexpr size_t kMaxGrownBytes = size_t{16} << 20;

}  // namespace

RecoveredState::~RecoveredState() {
  for (MemTable* memtable : memtables) {
    if (memtable->Unref()) delete memtable;
  }
}

Recovery::Recovery(const Options& options, std::string db_path,
                   const InternalKeyComparator* comparator,
                   TableCache* table_cache, Logger* logger)
    : options_(options),
      db_path_(std::move(db_path)),
      comparator_(comparator),
      table_cache_(table_cache),
      logger_(logger) {}

Status Recovery::ReadTables(RecoveredState* state) {
  LocalSpan step("list directory");
  Status status = ListDirectory(state);
  if (!status.ok()) return status;
  if (!has_current_) {
    // The making of a database may have been cut off before it held anything.
    if (has_data_) {
      return Status::Corruption(CurrentFileName(db_path_) +
                                " is missing, but there are other files of a "
                                "database; RepairDB may help");
    }
    state->exists = false;
    return Status::OK();
  }
  state->exists = true;
  // Made while the MANIFEST is read.
  const DescriptorRoom room(FilesToOpen());
  step.Next("read MANIFEST");
  status = ReadManifest(options_.env, db_path_, *comparator_, &state->manifest);
  if (!status.ok()) return status;
  status = CheckKeyFolding(state->manifest.key_folding, options_);
  if (!status.ok()) return status.Annotate(db_path_);
  status = CheckLevels(*state);
  if (status.ok()) status = CheckForLostEdits(*state);
  // Since Varve wrote the MANIFEST all logs are here.
  if (status.ok() && options_number_ != 0 && !state->manifest.logs_are_files) {
    status = CheckLogDirectory(options_.env, db_path_, options_number_,
                               state->manifest.FirstLogNumber());
  }
  if (!status.ok()) return status;
  if (state->manifest.torn_tail) {
    Log(LogLevel::kWarn, logger_, "the MANIFEST's last edit was cut off: %s",
        state->manifest.torn_tail_message.c_str());
  }
  state->last_sequence = state->manifest.last_sequence;
  step.Next("check tables");
  status = CheckTables(state);
  if (status.ok()) status = FindSequences(state);
  return status;
}

Status Recovery::ReplayLogs(RecoveredState* state, MemTableSink sink) {
  const LocalSpan span("replay logs");
  if (!state->exists) return Status::OK();
  sink_ = std::move(sink);
  Status status = ReplayAll(state);
  state->is_clean = status.ok() && IsClean(*state);
  return status;
}

bool Recovery::IsClean(const RecoveredState& state) const {
  const ManifestState& manifest = state.manifest;
  const auto is_empty = [](const MemTable* m) { return m->empty(); };
  return std::all_of(state.memtables.begin(), state.memtables.end(),
                     is_empty) &&
         !sink_used_ && !after_damage_ && !manifest.torn_tail &&
         state.wal_numbers.size() == 1 &&
         state.wal_numbers[0] == manifest.log_number &&
         manifest.log_number == manifest.FirstLogNumber() &&
         manifest.prev_log_number == 0 && !manifest.db_id.empty() &&
         manifest_count_ == 1 && state.temporary_files.empty() &&
         !has_unknown_tables_;
}

Status Recovery::ListDirectory(RecoveredState* state) {
  std::vector<std::string> names;
  Status status = options_.env->GetChildren(db_path_, &names);
  if (status.IsNotFound()) return Status::OK();
  if (!status.ok()) return status;
  for (const std::string& name : names) {
    uint64_t number = 0;
    FileType type;
    if (!ParseFileName(name, &number, &type)) continue;
    // The number of an old info log is a time.
    if (type != FileType::kInfoLog) {
      state->largest_file_number = std::max(state->largest_file_number, number);
    }
    if (number > kMaxFileNumber && type != FileType::kInfoLog) {
      return Status::Corruption(db_path_ + "/" + name,
                                "no database has a file of that number");
    }
    switch (type) {
      case FileType::kCurrent:
        has_current_ = true;
        break;
      case FileType::kManifest:
        ++manifest_count_;
        break;
      case FileType::kTemp:
        state->temporary_files.push_back(name);
        break;
      case FileType::kWal: {
        state->wal_numbers.push_back(number);
        uint64_t size = 0;
        status = options_.env->GetFileSize(db_path_ + "/" + name, &size);
        if (!status.ok()) return status;
        if (size > 0) has_data_ = true;
        break;
      }
      case FileType::kOptions:
        options_number_ = std::max(options_number_, number);
        break;
      case FileType::kInfoLog:
        if (name != "LOG") state->old_info_logs.push_back(name);
        break;
      case FileType::kTable:
      case FileType::kLevelDbTable:
        table_numbers_.push_back(number);
        has_data_ = true;
        break;
      default:
        break;
    }
  }
  std::sort(state->wal_numbers.begin(), state->wal_numbers.end());
  return Status::OK();
}

Status Recovery::CheckLevels(const RecoveredState& state) const {
  for (int level = options_.num_levels; level < kNumLevels; ++level) {
    if (state.manifest.levels[level].empty()) continue;
    return Status::InvalidArgument(
        db_path_, "has tables in level " + std::to_string(level) +
                      ", and num_levels is " +
                      std::to_string(options_.num_levels));
  }
  return Status::OK();
}

Status Recovery::CheckForLostEdits(const RecoveredState& state) {
  const ManifestState& manifest = state.manifest;
  const auto& wals = state.wal_numbers;
  // An edit that makes a log superfluous names a later one, and only then is
  // the log removed: the one that the MANIFEST names must be there.
  const bool log_is_gone =
      manifest.log_number != 0 &&
      !std::binary_search(wals.begin(), wals.end(), manifest.log_number);
  if (manifest.torn_tail && log_is_gone) {
    return Status::Corruption(manifest.torn_tail_message,
                              "and the log that it replaced is gone");
  }
  std::vector<uint64_t> known;
  for (const auto& files : manifest.levels) {
    for (const FileMetaData* file : files) known.push_back(file->number);
  }
  std::sort(known.begin(), known.end());
  for (const uint64_t table : table_numbers_) {
    if (std::binary_search(known.begin(), known.end(), table)) continue;
    has_unknown_tables_ = true;
    // A table whose number the MANIFEST has not given out yet was being
    // written when the process died; an older log must then be there.
    const auto wal =
        std::lower_bound(wals.begin(), wals.end(), manifest.FirstLogNumber());
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

size_t Recovery::FilesToOpen() const {
  if (!options_.paranoid_checks) return 0;
  return options_.max_open_files < 0
             ? table_numbers_.size()
             : std::min(table_numbers_.size(),
                        static_cast<size_t>(options_.max_open_files));
}

Status Recovery::CheckTables(RecoveredState* state) {
  if (!options_.paranoid_checks) return Status::OK();
  std::vector<const FileMetaData*> all;
  for (const auto& files : state->manifest.levels) {
    all.insert(all.end(), files.begin(), files.end());
  }
  return PreloadTables(table_cache_, all);
}

Status Recovery::FindSequences(RecoveredState* state) {
  for (int level = 0; level < kNumLevels; ++level) {
    for (FileMetaData* file : state->manifest.levels[level]) {
      if (!file->sequences_unknown) continue;
      if (level > 0) {
        // Only level 0 needs the truth, for its order; a bound will do here.
        file->smallest_sequence = 0;
        file->largest_sequence = state->manifest.last_sequence;
        file->sequences_unknown = false;
        continue;
      }
      const NoBlockSpans quiet;
      ReadOptions read_options;
      read_options.fill_cache = false;
      const auto iterator =
          table_cache_->NewIterator(read_options, file->table_file());
      SequenceNumber smallest = kMaxSequenceNumber;
      SequenceNumber largest = 0;
      for (iterator->SeekToFirst(); iterator->Valid(); iterator->Next()) {
        const SequenceNumber sequence = ExtractSequence(iterator->key());
        smallest = std::min(smallest, sequence);
        largest = std::max(largest, sequence);
      }
      if (!iterator->status().ok()) {
        // Reads of the damaged place say so themselves; the order of files
        // in level 0 stays that of their numbers.
        Log(LogLevel::kWarn, logger_,
            "sequence numbers of table %llu are unknown: %s",
            static_cast<unsigned long long>(file->number),
            iterator->status().ToString().c_str());
        continue;
      }
      file->smallest_sequence = std::min(smallest, largest);
      file->largest_sequence = largest;
      file->sequences_unknown = false;
      state->last_sequence = std::max(state->last_sequence, largest);
    }
  }
  return Status::OK();
}

Status Recovery::ReplayAll(RecoveredState* state) {
  const ManifestState& manifest = state->manifest;
  first_log_ = manifest.FirstLogNumber();
  bool stop = false;
  for (const uint64_t number : state->wal_numbers) {
    if (number < first_log_ &&
        (number != manifest.prev_log_number || number == 0)) {
      // Its updates are in tables. Varve itself keeps no such log.
      if (!manifest.logs_are_files && manifest.KeepsLog(number)) {
        Status status =
            CheckForPreparedTransactions(options_.env, db_path_, number);
        if (!status.ok()) return status;
      }
      continue;
    }
    if (stop) {
      Log(LogLevel::kWarn, logger_,
          "log %llu is not used: an earlier one is damaged",
          static_cast<unsigned long long>(number));
      continue;
    }
    Status status = ReplayLog(number, state, &stop);
    if (!status.ok()) return status;
  }
  return Status::OK();
}

Status Recovery::ReplayLog(uint64_t number, RecoveredState* state, bool* stop) {
  const LocalSpan span("log");
  const std::string path = WalFileName(db_path_, number);
  std::unique_ptr<SequentialFile> file;
  Status status = options_.env->NewSequentialFile(path, FileOptions(), &file);
  if (!status.ok()) return status;
  wal::Reader reader(std::move(file), path, number);
  Slice record;
  bool first = true;
  wal::ReadOutcome outcome;
  while ((outcome = reader.ReadRecord(&record)) == wal::ReadOutcome::kRecord) {
    BatchReader batch;
    if (!batch.Init(record).ok()) {
      outcome = wal::ReadOutcome::kDamage;
      status = Status::Corruption(path, "a record is no write batch");
      break;
    }
    if (first && TailIsMissing(record)) {
      if (options_.wal_recovery_mode == WalRecoveryMode::kAbsoluteConsistency) {
        return Status::Corruption(WalFileName(db_path_, last_log_),
                                  "its end is missing");
      }
      after_damage_ = true;
    }
    first = false;
    if (after_damage_ && batch.count() == 0) continue;
    // Only what was replayed counts: the MANIFEST's last sequence may be that
    // of updates which the damaged log has lost.
    if (after_damage_ &&
        (last_replayed_ == 0 || batch.sequence() != last_replayed_ + 1)) {
      Log(LogLevel::kWarn, logger_,
          "%s does not go on where the damaged log before it ends: not used",
          path.c_str());
      *stop = true;
      return Status::OK();
    }
    after_damage_ = false;
    status = ApplyBatch(record, number, state);
    if (!status.ok()) return status.Annotate(path);
  }
  last_log_ = number;
  last_log_end_ = reader.RecordEnd();
  if (outcome == wal::ReadOutcome::kEnd) return Status::OK();
  if (status.ok()) status = reader.status();
  if (outcome == wal::ReadOutcome::kIOError ||
      outcome == wal::ReadOutcome::kNotSupported ||
      options_.wal_recovery_mode == WalRecoveryMode::kAbsoluteConsistency) {
    return status;
  }
  Log(LogLevel::kWarn, logger_, "recovered up to the damage: %s",
      status.ToString().c_str());
  after_damage_ = true;
  return Status::OK();
}

bool Recovery::TailIsMissing(const Slice& record) const {
  const auto predecessor = WalPredecessor::Decode(record);
  // One whose updates are all in tables is not replayed, and may be gone.
  if (!predecessor || predecessor->number < first_log_) return false;
  const uint64_t found = predecessor->number == last_log_ ? last_log_end_ : 0;
  return predecessor->size > found;
}

Status Recovery::ApplyBatch(const Slice& record, uint64_t wal_number,
                            RecoveredState* state) {
  BatchReader batch;
  Status status = batch.Init(record);
  if (!status.ok()) return status;
  if (state->memtables.empty() ||
      state->memtables.back()->ApproximateMemoryUsage() > memtable_bytes_) {
    status = AddMemTable(wal_number, state);
    if (!status.ok()) return status;
  }
  status = InsertBatchInto(record, state->memtables.back());
  if (!status.ok()) return status;
  replayed_bytes_ += record.size();
  if (batch.count() > 0) {
    last_replayed_ = batch.sequence() + batch.count() - 1;
    state->last_sequence = std::max(state->last_sequence, last_replayed_);
  }
  return status;
}

Status Recovery::AddMemTable(uint64_t wal_number, RecoveredState* state) {
  if (sink_ && !state->memtables.empty()) {
    MemTable* const full = state->memtables.back();
    state->memtables.pop_back();
    sink_used_ = true;
    Status status = sink_(full);
    if (!status.ok()) return status;
  }
  memtable_bytes_ =
      std::max(options_.write_buffer_size,
               std::min(replayed_bytes_ / kReplayedPart, kMaxGrownBytes));
  state->memtables.push_back(new MemTable(
      comparator_, wal_number, memtable_bytes_, options_.ablation.memtable));
  return Status::OK();
}

}  // namespace varve
