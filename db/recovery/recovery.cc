// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "db/recovery/recovery.h"

#include <algorithm>
#include <utility>

#include "db/folding/key_case.h"
#include "db/recovery/foreign_files.h"
#include "db/recovery/leveldb_guard.h"
#include "db/version/table_preload.h"
#include "db/wal/unsupported_wal.h"
#include "db/wal/wal_archive.h"
#include "db/wal/wal_predecessor.h"
#include "db/wal/wal_reader.h"
#include "db/write/write_batch_internal.h"
#include "env/descriptor_table_growth.h"
#include "env/file_names.h"
#include "monitoring/span.h"
#include "util/base/experiment.h"

namespace varve {

namespace {

// Each memtable that recovery fills becomes a table of level 0, and a long log
// would become very many of them if the write buffer is small. So a memtable
// may also become as large as this part of what was replayed before it, up to a
// bound.
constexpr size_t kReplayedPart = 16;
constexpr size_t kMaxGrownBytes = size_t{16} << 20;

// A writer has fewer logs. The bound limits the use of descriptors.
constexpr size_t kMaxHeldLogs = 8;

bool EndsInDamage(wal::ReadOutcome outcome) {
  return outcome == wal::ReadOutcome::kTornTail ||
         outcome == wal::ReadOutcome::kDamage;
}

}  // namespace

RecoveredState::~RecoveredState() {
  for (const RecoveredFamily& family : families) {
    for (MemTable* memtable : family.memtables) {
      if (memtable->Unref()) delete memtable;
    }
  }
}

Recovery::Recovery(const Options& options, std::string db_path,
                   std::span<const RecoveryFamily> families, Logger* logger,
                   UnlockedRead* unlocked)
    : options_(options),
      db_path_(std::move(db_path)),
      families_(families),
      logger_(logger),
      unlocked_(unlocked) {}

Status Recovery::ReadTables(RecoveredState* state) {
  state->families.resize(families_.size());
  // Also if no database exists yet: it would get all of these families.
  if (families_.size() > kMaxFamilies) {
    return Status::NotSupported("too many column families", db_path_);
  }
  LocalSpan step("list directory");
  Status status = ListDirectory(state);
  if (!status.ok()) return status;
  if (!has_current_) {
    PassForeignFiles(state);
    bool has_data = false;
    status = FindData(*state, &has_data);
    if (!status.ok()) return status;
    // The creation of a database may have been interrupted before it held data.
    if (has_data) {
      return Status::Corruption(CurrentFileName(db_path_) +
                                " is missing, but there are other files of a "
                                "database; RepairDB may help");
    }
    state->exists = false;
    return Status::OK();
  }
  state->exists = true;
  // Created while the MANIFEST is read.
  const DescriptorTableGrowth growth(FilesToOpen());
  step.Next("read MANIFEST");
  status = ReadManifest(
      options_.env, db_path_,
      [this](const std::string& name) -> const InternalKeyComparator* {
        for (const RecoveryFamily& family : families_) {
          if (family.name == name) return family.comparator;
        }
        return nullptr;
      },
      &state->manifest);
  if (status.ok()) status = MatchFamilies(state);
  if (status.ok() && unlocked_ != nullptr) status = HoldLogs(*state);
  if (status.ok() && has_lost_) {
    status = CheckMovedByLevelDb(options_.env, db_path_, state->manifest);
  }
  if (!status.ok()) return status;
  state->is_leveldb = IsLevelDbManifest(state->manifest);
  PassForeignFiles(state);
  status = CheckKeyFolding(state->manifest.key_folding, options_);
  if (!status.ok()) return status.Annotate(db_path_);
  status = CheckLevels(*state);
  if (status.ok()) status = CheckForLostEdits(*state);
  if (status.ok()) status = CheckNamedLog(state);
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

Status Recovery::MatchFamilies(RecoveredState* state) {
  std::string missing;
  for (size_t i = 0; i < families_.size(); ++i) {
    FamilyManifest* const manifest =
        state->manifest.FindFamily(families_[i].name);
    state->families[i].manifest = manifest;
    if (manifest != nullptr) {
      places_.try_emplace(manifest->id, i);
      continue;
    }
    if (unlocked_ == nullptr && options_.create_missing_column_families) {
      continue;
    }
    missing += (missing.empty() ? "" : ", ") + families_[i].name;
  }
  if (!missing.empty()) {
    return Status::InvalidArgument("Column family not found: " + missing,
                                   db_path_);
  }
  if (unlocked_ != nullptr) return Status::OK();
  std::string unopened;
  for (const auto& family : state->manifest.families) {
    if (family->comparator != nullptr) continue;
    unopened += (unopened.empty() ? "" : ", ") + family->name;
  }
  if (unopened.empty()) return Status::OK();
  return Status::InvalidArgument("Column families not opened: " + unopened,
                                 db_path_);
}

Status Recovery::ReplayLogs(RecoveredState* state, MemTableSink sink) {
  const LocalSpan span("replay logs");
  if (!state->exists) return Status::OK();
  sink_ = std::move(sink);
  Status status = ReplayAll(state);
  if (status.ok()) status = CheckNewestNamedLog(state);
  if (status.ok()) status = CheckLogsEnd(state);
  if (status.ok()) status = CheckForFamiliesAhead(*state);
  if (status.ok()) status = CheckUnknownTables(state);
  if (status.ok()) ScanUnusedLogs(state);
  state->is_clean = status.ok() && IsClean(*state);
  state->last_log = last_log_;
  state->last_log_end = last_log_end_;
  return status;
}

// The last edit need not be durable, if its writer died or failed. A power cut
// may then undo it, which changes no data, unless it adds a family: synced
// updates of it would be in a log of families without it.
bool Recovery::IsClean(const RecoveredState& state) const {
  const ManifestState& manifest = state.manifest;
  const auto is_unchanged = [](const RecoveredFamily& family) {
    return family.manifest != nullptr &&
           std::all_of(family.memtables.begin(), family.memtables.end(),
                       [](const MemTable* m) { return m->empty(); });
  };
  // Its log may have updates of families that were dropped. A new one would
  // take its place.
  const bool keeps_logs =
      (options_.WAL_ttl_seconds != 0 || options_.WAL_size_limit_MB != 0) &&
      last_replayed_ != 0;
  return std::all_of(state.families.begin(), state.families.end(),
                     is_unchanged) &&
         !sink_used_ && state.prepared.empty() && !after_damage_ &&
         !state.logs_incomplete && !manifest.torn_tail && !keeps_logs &&
         !manifest.ends_with_families && state.wal_numbers.size() == 1 &&
         state.wal_numbers[0] == manifest.FirstLogNumber() &&
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
    FileKind type;
    if (name == "lost") has_lost_ = true;
    if (name == "archive") has_archive_ = true;
    if (!ParseFileName(name, &number, &type) ||
        IsLevelDbGuard(options_.env, db_path_, name)) {
      continue;
    }
    switch (type) {
      case FileKind::kCurrent:
        has_current_ = true;
        break;
      case FileKind::kWal:
        state->wal_numbers.push_back(number);
        break;
      case FileKind::kInfoLog:
        if (name != "LOG") state->old_info_logs.push_back(name);
        continue;  // The number of an old one is a time.
      case FileKind::kTable:
      case FileKind::kLevelDbTable:
        table_numbers_.push_back(number);
        break;
      default:
        break;
    }
    entries_.push_back({name, number, type});
  }
  std::sort(state->wal_numbers.begin(), state->wal_numbers.end());
  return Status::OK();
}

bool Recovery::IsNamed(const ManifestState& manifest,
                       const Entry& entry) const {
  switch (entry.type) {
    case FileKind::kWal:
      return entry.number == manifest.FirstLogNumber() ||
             entry.number == manifest.prev_log_number;
    case FileKind::kTable:
    case FileKind::kLevelDbTable:
      return std::binary_search(live_tables_.begin(), live_tables_.end(),
                                entry.number);
    default:
      return entry.type == FileKind::kManifest &&
             entry.number == manifest.manifest_number;
  }
}

void Recovery::PassArchive(RecoveredState* state) const {
  std::vector<uint64_t> numbers;
  // A folder that cannot be read has no log that could be overwritten.
  ListArchive(options_.env, db_path_, &numbers).IgnoreError();
  const uint64_t far = state->manifest.next_file_number + kFarFileNumbers;
  for (const uint64_t number : numbers) {
    if (number >= far) break;
    state->largest_file_number = std::max(state->largest_file_number, number);
  }
}

void Recovery::PassForeignFiles(RecoveredState* state) {
  if (has_archive_) PassArchive(state);
  const ManifestState& manifest = state->manifest;
  manifest.ForEachFile([this](const FileMetaData* file) {
    live_tables_.push_back(file->number);
  });
  std::sort(live_tables_.begin(), live_tables_.end());
  for (const Entry& entry : entries_) {
    if (!IsNamed(manifest, entry) &&
        IsForeignFile(options_.env, db_path_ + "/" + entry.name, entry.type,
                      entry.number, manifest.next_file_number)) {
      Log(LogLevel::kWarn, logger_,
          "%s is not the database's, by its kind or contents: left alone",
          entry.name.c_str());
      state->foreign_files.insert(entry.name);
      if (entry.type == FileKind::kWal) {
        std::erase(state->wal_numbers, entry.number);
      } else if (entry.type == FileKind::kTable ||
                 entry.type == FileKind::kLevelDbTable) {
        std::erase(table_numbers_, entry.number);
      }
      // New files do not get its number either. A far number needs no such
      // care.
      if (entry.number >= manifest.next_file_number + kFarFileNumbers) continue;
    } else if (entry.type == FileKind::kManifest) {
      ++manifest_count_;
    } else if (entry.type == FileKind::kTemp) {
      state->temporary_files.push_back(entry.name);
    } else if (entry.type == FileKind::kOptions) {
      options_number_ = std::max(options_number_, entry.number);
      state->options_files.push_back(entry.number);
    }
    state->largest_file_number =
        std::max(state->largest_file_number, entry.number);
  }
}

Status Recovery::FindData(const RecoveredState& state, bool* has_data) const {
  *has_data = !table_numbers_.empty();
  for (const uint64_t number : state.wal_numbers) {
    uint64_t size = 0;
    Status status =
        options_.env->GetFileSize(WalFileName(db_path_, number), &size);
    if (!status.ok()) return status;
    if (size > 0) *has_data = true;
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
  if (unlocked_ != nullptr) unlocked_->on_manifest(state->manifest);
  if (!options_.paranoid_checks && unlocked_ == nullptr) return Status::OK();
  for (size_t i = 0; i < families_.size(); ++i) {
    if (state->families[i].manifest == nullptr) continue;
    std::vector<FileMetaData*> all;
    for (const auto& files : state->families[i].manifest->levels) {
      all.insert(all.end(), files.begin(), files.end());
    }
    TableCache* const table_cache = families_[i].table_cache;
    if (options_.paranoid_checks) {
      Status status = PreloadTables(table_cache, all);
      if (!status.ok()) return status;
    } else {
      HoldTables(table_cache, all);
    }
  }
  return Status::OK();
}

void Recovery::HoldTables(TableCache* table_cache,
                          const std::vector<FileMetaData*>& files) {
  for (const FileMetaData* file : files) {
    std::shared_ptr<Table> table;
    if (table_cache->FindDescription(file->table_file(), &table).ok()) {
      continue;
    }
    // Reads report a damaged table.
    const uint64_t number = file->number;
    if (options_.env->FileExists(TableFileName(db_path_, number)).ok() ||
        options_.env->FileExists(LevelDbTableFileName(db_path_, number)).ok()) {
      continue;
    }
    NoteInconsistency("table " + std::to_string(number) + " is missing");
  }
}

void Recovery::NoteInconsistency(const std::string& what) {
  if (unlocked_ != nullptr && unlocked_->inconsistency.empty())
    unlocked_->inconsistency = what;
}

Status Recovery::HoldLogs(const RecoveredState& state) {
  for (const uint64_t number : state.wal_numbers) {
    if (!state.manifest.ReplaysLog(number)) continue;
    std::unique_ptr<SequentialFile> log;
    if (held_logs_.size() < kMaxHeldLogs) {
      const std::string path = WalFileName(db_path_, number);
      Status status =
          options_.env->NewSequentialFile(path, FileOptions(), &log);
      uint64_t size = 0;
      // Whether such a name matters is decided later.
      if (!status.ok() &&
          options_.env->GetFileSize(path, &size).IsNotSupported()) {
        continue;
      }
      if (!status.ok()) return status;
      held_logs_[number] = std::move(log);
    }
    unlocked_->logs.push_back(number);
  }
  return Status::OK();
}

Status Recovery::ScanSequences(TableCache* table_cache, const TableFile& file,
                               SequenceNumber* smallest,
                               SequenceNumber* largest) {
  const NoBlockSpans quiet;
  ReadOptions read_options;
  read_options.fill_cache = false;
  const auto iterator = table_cache->NewIterator(read_options, file);
  for (iterator->SeekToFirst(); iterator->Valid(); iterator->Next()) {
    const SequenceNumber sequence = ExtractSequence(iterator->key());
    *smallest = std::min(*smallest, sequence);
    *largest = std::max(*largest, sequence);
  }
  return iterator->status();
}

Status Recovery::FindSequences(RecoveredState* state) {
  for (size_t i = 0; i < families_.size(); ++i) {
    if (state->families[i].manifest != nullptr) {
      FindSequencesOf(i, state);
    }
  }
  return Status::OK();
}

void Recovery::FindSequencesOf(size_t index, RecoveredState* state) {
  LevelFiles& levels = state->families[index].manifest->levels;
  for (size_t level = 0; level < levels.size(); ++level) {
    for (FileMetaData* file : levels[level]) {
      if (!file->sequences_unknown) continue;
      if (level > 0) {
        // Only level 0 needs the exact number, for its order. A bound suffices
        // here.
        file->smallest_sequence = 0;
        file->largest_sequence = state->manifest.last_sequence;
        file->sequences_unknown = false;
        continue;
      }
      SequenceNumber smallest = kMaxSequenceNumber;
      SequenceNumber largest = 0;
      const Status status =
          ScanSequences(families_[index].table_cache, file->table_file(),
                        &smallest, &largest);
      if (!status.ok()) {
        // Reads report the damaged place. Files of level 0 remain ordered by
        // their numbers.
        Log(LogLevel::kWarn, logger_,
            "sequence numbers of table %llu are unknown: %s",
            static_cast<unsigned long long>(file->number),
            status.ToString().c_str());
        continue;
      }
      file->smallest_sequence = std::min(smallest, largest);
      file->largest_sequence = largest;
      file->sequences_unknown = false;
      state->last_sequence = std::max(state->last_sequence, largest);
    }
  }
}

Status Recovery::ReplayAll(RecoveredState* state) {
  const ManifestState& manifest = state->manifest;
  first_log_ = manifest.FirstLogNumber();
  logs_are_files_ = manifest.logs_are_files;
  position_ = manifest.logs_begin;
  bool stop = false;
  for (const uint64_t number : state->wal_numbers) {
    if (!manifest.ReplaysLog(number)) continue;  // Its updates are in tables.
    if (stop) {
      NoteInconsistency("log " + std::to_string(number) +
                        " follows a damaged one");
      Log(LogLevel::kWarn, logger_,
          "log %llu is not used: an earlier one is damaged",
          static_cast<unsigned long long>(number));
      state->unused_logs.files.push_back({number, ""});
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
  Status status;
  const auto held = held_logs_.find(number);
  if (held != held_logs_.end()) {
    file = std::move(held->second);
  } else {
    status = options_.env->NewSequentialFile(path, FileOptions(), &file);
  }
  if (!status.ok()) return status;
  const bool newest = number == state->wal_numbers.back();
  wal::Reader reader(std::move(file), path, number);
  Slice record;
  bool first = true;
  bool begins = true;  // No update of it was replayed yet.
  uint64_t end = 0;    // The end of the last good record.
  wal::ReadOutcome outcome;
  while ((outcome = reader.ReadRecord(&record)) == wal::ReadOutcome::kRecord) {
    BatchReader batch;
    status = CheckPlace(record, number, first, &batch);
    if (!status.ok()) {
      outcome = wal::ReadOutcome::kDamage;
      break;
    }
    if (first) {
      status = CheckForLaterOpen(record, number);
      if (status.ok()) status = FollowPredecessor(record, path);
      if (!status.ok()) return status;
    }
    first = false;
    end = reader.RecordEnd();
    if (after_damage_ && batch.count() == 0 && !HasMarks(record)) continue;
    // Only replayed updates count. The MANIFEST's last sequence may belong to
    // updates that the damaged log has lost.
    if (after_damage_ &&
        (last_replayed_ == 0 || batch.sequence() != last_replayed_ + 1)) {
      Log(LogLevel::kWarn, logger_,
          "%s does not go on where the damaged log before it ends: not used",
          path.c_str());
      state->logs_incomplete = true;
      state->unused_logs.files.push_back({number, ""});
      *stop = true;
      return Status::OK();
    }
    after_damage_ = false;
    state->unused_logs.files.clear();  // The logs before it are complete.
    if (unlocked_ != nullptr && begins && batch.count() > 0) {
      begins = false;
      unlocked_->logs_join =
          unlocked_->logs_join &&
          (last_replayed_ == 0 || batch.sequence() == last_replayed_ + 1);
    }
    status = ApplyBatch(record, number, state);
    if (!status.ok()) return status.Annotate(path);
  }
  // A write that was cut off left nothing that can be read.
  const bool is_torn = newest && status.ok() && EndsInDamage(outcome) &&
                       reader.EndIsTorn(outcome);
  // After damage, nothing of it was used. If its first record is damaged, it
  // does not show whether logs before it are missing.
  if (!after_damage_ && (!first || outcome == wal::ReadOutcome::kEnd ||
                         is_torn || !logs_are_files_)) {
    last_log_ = number;
    last_log_end_ = end;
  }
  if (unlocked_ != nullptr &&
      (outcome != wal::ReadOutcome::kEnd || reader.IsRecyclable())) {
    unlocked_->logs_join = false;
  }
  if (outcome == wal::ReadOutcome::kEnd) return Status::OK();
  if (status.ok()) status = reader.status();
  if (!newest) NoteInconsistency(status.ToString());
  if (unlocked_ != nullptr && newest && EndsInDamage(outcome)) {
    if (unlocked_->tail_is_in_flight) return Status::OK();
    unlocked_->torn_log = number;
    unlocked_->torn_at = end;
  }
  if (outcome == wal::ReadOutcome::kIOError ||
      outcome == wal::ReadOutcome::kNotSupported ||
      options_.wal_recovery_mode == WalRecoveryMode::kAbsoluteConsistency) {
    return status;
  }
  Log(LogLevel::kWarn, logger_, "recovered up to the damage: %s",
      status.ToString().c_str());
  if (!after_damage_) damage_ = status;
  after_damage_ = true;
  if (!is_torn) state->unused_logs.files.push_back({number, ""});
  return Status::OK();
}

Status Recovery::FollowPredecessor(const Slice& record,
                                   const std::string& path) {
  const auto note = WalPredecessor::Decode(record);
  if (!note) return Status::OK();
  const std::optional<bool> found = FoundPredecessor(*note);
  if (!found) return Status::OK();
  after_damage_ = !*found;
  if (*found) {
    damage_ = Status::OK();
    return damage_;
  }
  NoteInconsistency(path + " does not follow the log before it");
  if (damage_.ok()) {
    damage_ = Status::Corruption(WalFileName(db_path_, note->number),
                                 "its end is missing");
  }
  const bool strict =
      options_.wal_recovery_mode == WalRecoveryMode::kAbsoluteConsistency;
  return strict ? damage_ : Status::OK();
}

std::optional<bool> Recovery::FoundPredecessor(
    const WalPredecessor& note) const {
  // A log whose updates are all in tables is not replayed, and may not exist.
  if (note.number < first_log_) return std::nullopt;
  const uint64_t found = note.number == last_log_ ? last_log_end_ : 0;
  return note.size <= found;
}

bool Recovery::HasMarks(const Slice& record) {
  BatchReader reader;
  LogRecord part;
  bool done = false;
  Status status = reader.Init(record);
  while (status.ok() && !done) {
    status = reader.NextInLog(&part, &done);
    if (status.ok() && part.mark != BatchTag::kNoop) return true;
  }
  return false;
}

Status Recovery::CheckFamily(uint32_t family,
                             const RecoveredState& state) const {
  if (family <= state.manifest.max_column_family) return Status::OK();
  return Status::Corruption("an update of column family " +
                            std::to_string(family) + ", which never existed");
}

// Returns an error if an update of a prepared section could not be committed.
Status Recovery::CheckPrepared(const BatchRecord& record,
                               const RecoveredState& state) const {
  if (state.manifest.FindFamily(record.family) == nullptr) {
    return CheckFamily(record.family, state);
  }
  return record.unsupported != nullptr
             ? Status::NotSupported(record.unsupported)
             : Status::OK();
}

Status Recovery::ApplyBatch(const Slice& record, uint64_t wal_number,
                            RecoveredState* state) {
  class Replay final : public MemTableChooser, public SectionKeeper {
   public:
    Replay(Recovery* recovery, uint64_t wal, RecoveredState* its_state)
        : recovery_(recovery), wal_number_(wal), state_(its_state) {}
    MemTable* Choose(uint32_t family) override {
      return status.ok()
                 ? recovery_->MemTableFor(family, wal_number_, state_, &status)
                 : nullptr;
    }
    Status Prepare(const Slice& name, const Slice& records,
                   uint32_t count) override {
      PreparedSection section{name.ToString(), {}};
      Status read = ReadSection(
          records, count,
          [this](const BatchRecord& record) {
            return recovery_->CheckPrepared(record, *state_);
          },
          &section.updates);
      if (read.ok()) state_->prepared.Add(std::move(section), wal_number_);
      return read;
    }
    WriteBatch* Commit(const Slice& name) override {
      committed_ = state_->prepared.Find(name);
      if (committed_ == nullptr) return nullptr;  // It is in tables.
      state_->prepared.End(name, 0);
      return &committed_->section.updates;
    }
    void Rollback(const Slice& name) override { state_->prepared.End(name, 0); }

    Status status;

   private:
    Recovery* const recovery_;
    const uint64_t wal_number_;
    RecoveredState* const state_;
    std::shared_ptr<PreparedSet::Held> committed_;
  };
  BatchReader batch;
  Status status = batch.Init(record);
  if (!status.ok()) return status;
  ++records_;
  Replay replay(this, wal_number, state);
  SequenceNumber next = 0;
  status = InsertLogRecord(record, &replay, &replay, &next);
  if (status.ok()) status = std::move(replay.status);
  if (!status.ok()) return status;
  replayed_bytes_ += record.size();
  if (next > batch.sequence()) {
    last_replayed_ = next - 1;
    state->last_sequence = std::max(state->last_sequence, last_replayed_);
    position_ = std::max(position_, last_replayed_);
  } else if (batch.sequence() > 0 && WalPredecessor::Decode(record)) {
    position_ = std::max(position_, batch.sequence() - 1);
  }
  return status;
}

MemTable* Recovery::MemTableFor(uint32_t family, uint64_t wal_number,
                                RecoveredState* state, Status* status) {
  const FamilyManifest* const wanted = state->manifest.FindFamily(family);
  if (wanted == nullptr) *status = CheckFamily(family, *state);
  // Dropped, or not opened, or in tables.
  if (wanted == nullptr || wanted->comparator == nullptr ||
      wal_number < wanted->log_number) {
    return nullptr;
  }
  const size_t index = places_.at(family);
  RecoveredFamily& found = state->families[index];
  // A record's updates of a family go to one memtable.
  const bool begins = std::exchange(found.last_record, records_) != records_;
  if (found.memtables.empty() ||
      (begins && found.memtables.back()->IsFull(found.memtable_bytes))) {
    *status = AddMemTable(index, wal_number, state);
    if (!status->ok()) return nullptr;
  }
  return found.memtables.back();
}

Status Recovery::AddMemTable(size_t index, uint64_t wal_number,
                             RecoveredState* state) {
  RecoveredFamily& family = state->families[index];
  if (sink_ && !family.memtables.empty()) {
    MemTable* const full = family.memtables.back();
    family.memtables.pop_back();
    sink_used_ = true;
    Status status = sink_(index, full);
    if (!status.ok()) return status;
  }
  const Options& options = *families_[index].options;
  family.memtable_bytes =
      std::max(options.write_buffer_size,
               std::min(replayed_bytes_ / kReplayedPart, kMaxGrownBytes));
  family.memtables.push_back(new MemTable(families_[index].comparator,
                                          wal_number, family.memtable_bytes,
                                          MemTableOrderOf(options)));
  return Status::OK();
}

}  // namespace varve
