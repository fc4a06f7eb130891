// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "db/family/column_family.h"

#include <algorithm>

#include "db/compaction/compaction_picker.h"
#include "db/options/options_check.h"
#include "env/descriptor_supply.h"
#include "env/stopwatch.h"
#include "util/base/experiment.h"

namespace varve {

namespace {

// Logs of write buffers may have such a part of the descriptors, and as many as
// the least max_write_buffer_number in any case.
constexpr int kLogPart = 4;
constexpr int kLeastLogs = 2;

// The pace is due at least this often, in bytes of batches.
constexpr uint64_t kPaceBytes = 128 << 10;

// Returns the debt that writers are paced for, in files of level 0 beyond the
// trigger of compactions. While a compaction has all of them as inputs, about
// as many arrive. With the default limits, level 0 then still has fewer files
// than stop writers.
double PaceTargetFiles(const Options& options) {
  constexpr double kPart = 2.0 / 3;
  return (WriterBounds(options).level0_slowdown -
          options.level0_file_num_compaction_trigger) *
         kPart;
}

}  // namespace

ColumnFamily::ColumnFamily(std::string name, Options* options,
                           const Shared& shared)
    : ColumnFamily(std::move(name), nullptr, options, shared) {}

ColumnFamily::ColumnFamily(std::string name, std::unique_ptr<Options> options,
                           const Shared& shared)
    : ColumnFamily(std::move(name), std::move(options), nullptr, shared) {}

ColumnFamily::ColumnFamily(std::string name, std::unique_ptr<Options> owned,
                           Options* options, const Shared& shared)
    : name_(std::move(name)),
      owned_options_(std::move(owned)),
      options_(options != nullptr ? options : owned_options_.get()),
      comparator_(options_->comparator),
      env_(shared.env),
      stats_(shared.stats),
      mutex_(shared.mutex),
      free_later_(shared.free_later),
      request_switch_(shared.request_switch),
      account_(WriteBufferAccount::New(options_->write_buffer_manager)),
      owns_snapshots_(shared.snapshots == nullptr),
      snapshots_(owns_snapshots_
                     ? new SnapshotRegistry(
                           ExperimentFlagsOf(*options_).lists_snapshots,
                           shared.mutex, this)
                     : shared.snapshots),
      super_versions_(ExperimentFlagsOf(*options_).locks_reads, shared.mutex,
                      this, owns_snapshots_ ? snapshots_ : nullptr),
      dead_walks_(&comparator_, shared.write_queue, shared.stats,
                  ExperimentFlagsOf(*options_).cleans_always,
                  shared.last_sequence, shared.wake_cleaner),
      cleaner_(options_, &comparator_,
               ExperimentFlagsOf(*options_).cleans_always) {}

void ColumnFamily::MakeTables(const std::string& db_path,
                              const FileOptions& file_options,
                              FilePool* file_pool, Logger* info_log,
                              VersionSet* versions) {
  const bool searches_binary = ExperimentFlagsOf(*options_).searches_binary;
  TableReaderOptions table_options;
  table_options.comparator = &comparator_;
  table_options.filter_policy = options_->filter_policy;
  table_options.block_cache =
      static_cast<BlockCache*>(options_->block_cache.get());
  table_options.statistics = stats_;
  table_options.info_log = info_log;
  table_options.binary_search = searches_binary;
  table_cache_ = std::make_unique<TableCache>(
      db_path, env_, file_options, table_options, options_->max_open_files,
      options_->cache_index_and_filter_blocks, file_pool);
  output_context_.info_log = info_log;
  version_set_ = versions;
  versions_ = std::make_unique<FamilyVersions>(
      name_, &comparator_, table_cache_.get(), !searches_binary);
  if (owns_snapshots_) snapshots_->SetLastSequence(versions->last_sequence());
}

void ColumnFamily::SetOutputContext(const std::string& db_path,
                                    const std::string& db_identity,
                                    const std::string& session_identity) {
  output_context_.db_path = db_path;
  output_context_.env = env_;
  output_context_.options = options_;
  output_context_.comparator = &comparator_;
  output_context_.db_identity = db_identity;
  output_context_.session_identity = session_identity;
  output_context_.family_id = id();
  output_context_.family_name = name_;
}

void ColumnFamily::BeginLocked(MemTable* memtable,
                               std::vector<MemTable*> immutable) {
  memtable_ = memtable;
  immutable_ = std::move(immutable);
}

void ColumnFamily::EmptyLocked() {
  for (MemTable* memtable : std::exchange(immutable_, {})) {
    UnrefMemTableLocked(memtable);
  }
  // It is not charged to the budget of write buffers.
  UnrefMemTableLocked(std::exchange(
      memtable_, new MemTable(&comparator_, memtable_->wal_number(),
                              /*write_buffer_size=*/1)));
  version_set_->EmptyFamilyLocked(versions_.get());
  InstallSuperVersionLocked(/*closed=*/true);
}

void ColumnFamily::Close() {
  LeaveBudget();
  if (owns_snapshots_) snapshots_->Close();
  super_versions_.Close();
  MutexLock lock(mutex());
  for (MemTable* memtable : obsolete_) delete memtable;
  if (memtable_ != nullptr && memtable_->Unref()) delete memtable_;
  for (MemTable* memtable : immutable_) {
    if (memtable->Unref()) delete memtable;
  }
}

ColumnFamily::AbandonedState ColumnFamily::Abandon() {
  immutable_.push_back(memtable_);
  AbandonedState remains = {snapshots_, super_versions_.current(),
                            std::move(immutable_), std::move(table_cache_),
                            std::move(versions_)};
  if (owns_snapshots_) snapshots_->Abandon();
  super_versions_.Abandon();
  return remains;
}

// ---- Reads ------------------------------------------------------------------

void ColumnFamily::InstallSuperVersionLocked(bool closed) {
  auto* next = new SuperVersion;
  next->closed = closed;
  next->memtable = memtable_;
  memtable_->Ref();
  next->immutable.assign(immutable_.rbegin(), immutable_.rend());
  for (MemTable* memtable : next->immutable) memtable->Ref();
  next->version = versions_->current();
  next->version->RefLocked();
  super_versions_.InstallLocked(next);
}

bool ColumnFamily::MemTablesOverlap(const Slice* begin, const Slice* end) {
  SuperVersion* const super_version = super_versions_.Reference();
  const std::vector<MemTable*>& immutable = super_version->immutable;
  const bool overlap = super_version->memtable->Overlaps(begin, end) ||
                       std::any_of(immutable.begin(), immutable.end(),
                                   [&](const MemTable* memtable) {
                                     return memtable->Overlaps(begin, end);
                                   });
  super_versions_.Release(super_version);
  return overlap;
}

void ColumnFamily::DisposeLocked(SuperVersion* super_version) {
  UnrefMemTableLocked(super_version->memtable);
  for (MemTable* memtable : super_version->immutable) {
    UnrefMemTableLocked(memtable);
  }
  version_set_->UnrefVersionLocked(super_version->version);
  delete super_version;
}

void ColumnFamily::UnrefMemTableLocked(MemTable* memtable) {
  if (!memtable->Unref()) return;
  std::erase(flushed_, memtable);
  obsolete_.push_back(memtable);
}

// ---- Memtables --------------------------------------------------------------

MemTable* ColumnFamily::NewMemTable(uint64_t wal_number,
                                    size_t family_count) const {
  const size_t size = options_->write_buffer_size;
  return new MemTable(
      &comparator_, wal_number, size, MemTableOrderOf(*options_), account_,
      std::min(size, std::max<size_t>(size / family_count, last_bytes_)));
}

bool ColumnFamily::SlotFreeLocked() const {
  const int buffers = static_cast<int>(immutable_.size()) + 1;
  // Each has its log open.
  return buffers < options_->max_write_buffer_number &&
         (buffers < kLeastLogs || buffers < CurrentReserveBegin() / kLogPart);
}

bool ColumnFamily::HasUnloggedLocked() const {
  return memtable_->has_unlogged() ||
         std::any_of(immutable_.begin(), immutable_.end(),
                     [](const MemTable* m) { return m->has_unlogged(); });
}

void ColumnFamily::SwitchLocked(MemTable* next) {
  wants_switch_ = false;
  log_is_full_ = false;
  immutable_.push_back(memtable_);
  memtable_->MarkImmutable();
  ++switched_count_;
  batch_bytes_per_memory_byte_ = BatchBytesPerMemoryByte();
  last_bytes_ = written_bytes_;
  immutable_bytes_.push_back(written_bytes_);
  written_bytes_ = 0;
  paced_bytes_ = 0;
  pace_at_bytes_ = 0;
  if (!flush_runs_) {
    flush_pace_.Begin(memtable_->EntryCount(), MonotonicMicros(env_));
  }
  memtable_ = next;
}

void ColumnFamily::MarkFlushExpectedLocked(bool is_expected) {
  for (MemTable* const memtable : immutable_) {
    if (is_expected) {
      memtable->MarkImmutable();
    } else {
      memtable->MarkHeld();
    }
  }
}

std::vector<MemTable*> ColumnFamily::RemoveFlushedLocked(size_t count) {
  const auto end = immutable_.begin() + static_cast<std::ptrdiff_t>(count);
  std::vector<MemTable*> flushed(immutable_.begin(), end);
  immutable_.erase(immutable_.begin(), end);
  // The memtables of recovery were not counted.
  immutable_bytes_.erase(
      immutable_bytes_.begin(),
      immutable_bytes_.begin() + static_cast<std::ptrdiff_t>(
                                     std::min(count, immutable_bytes_.size())));
  return flushed;
}

void ColumnFamily::RetireLocked(const std::vector<MemTable*>& flushed) {
  for (MemTable* memtable : flushed) {
    memtable->MarkHeld();
    flushed_.push_back(memtable);
    UnrefMemTableLocked(memtable);
  }
}

// ---- Writers ----------------------------------------------------------------

uint64_t ColumnFamily::PauseMicrosLocked(uint64_t log_space, bool may_pause) {
  const uint64_t now_us = MonotonicMicros(env_);
  const uint64_t bytes = written_bytes_ - paced_bytes_;
  paced_bytes_ = written_bytes_;
  if (debt_pace_.SampleIsDue(now_us)) SampleDebtLocked(now_us);
  const DebtPace::Step step = debt_pace_.Charge(bytes, now_us);
  uint64_t pause_us = may_pause ? step.pause_us : 0;
  if (pause_us > 0) {
    ++pace_count_;
    pace_micros_ += pause_us;
    RecordTick(stats_, Ticker::kPaceMicros, pause_us);
  }
  uint64_t next_bytes = std::min({step.bytes, log_space, kPaceBytes});
  if (!SlotFreeLocked()) {
    uint64_t flush_step;
    uint64_t flush_pause_us =
        FlushPauseMicrosLocked(bytes, now_us, &flush_step);
    if (!may_pause) flush_pause_us = 0;
    next_bytes = std::min(next_bytes, flush_step);
    if (flush_pause_us > pause_us) {
      CountStallLocked(StallCause::kMemTables, WritePressure::kSlow);
      AddStallMicrosLocked(flush_pause_us - pause_us);
      pause_us = flush_pause_us;
    }
  }
  pace_at_bytes_ = written_bytes_ + (pause_us > 0 ? 0 : next_bytes);
  return pause_us;
}

double ColumnFamily::BatchBytesPerMemoryByte() const {
  const auto used = static_cast<double>(memtable_->ApproximateMemoryUsage());
  if (written_bytes_ == 0 ||
      used < static_cast<double>(options_->write_buffer_size) / 2) {
    return batch_bytes_per_memory_byte_;
  }
  return static_cast<double>(written_bytes_) / used;
}

double ColumnFamily::FullBytes() const {
  return static_cast<double>(options_->write_buffer_size) *
         BatchBytesPerMemoryByte();
}

uint64_t ColumnFamily::FlushPauseMicrosLocked(uint64_t bytes, uint64_t now_us,
                                              uint64_t* step_bytes) {
  const auto full_bytes = static_cast<uint64_t>(FullBytes());
  const uint64_t space =
      full_bytes > written_bytes_ ? full_bytes - written_bytes_ : 0;
  const FlushPace::Step step =
      flush_pace_.Charge(bytes, space, full_bytes, now_us);
  *step_bytes = step.bytes;
  return step.pause_us;
}

double ColumnFamily::BatchBytesPerTableByteLocked() const {
  return flushed_table_bytes_ > 0 ? flushed_batch_bytes_ / flushed_table_bytes_
                                  : 1;
}

void ColumnFamily::SampleDebtLocked(uint64_t now_us) {
  const Version& version = *versions_->current();
  const double buffer_bytes = FullBytes();
  double relieved = relieved_bytes_;
  for (const Compaction* compaction : compactions_.running) {
    relieved += compaction->Progress() * compaction->relief_bytes;
  }
  const double per_table_byte = BatchBytesPerTableByteLocked();
  drained_bytes_ +=
      std::max(relieved - last_relieved_bytes_, 0.0) * per_table_byte;
  last_relieved_bytes_ = relieved;

  DebtPace::Sample sample;
  sample.now_us = now_us;
  sample.drained_bytes = drained_bytes_;
  sample.draining_us = DrainingMicrosLocked(now_us);
  sample.assumed_rate = flush_rate_;
  sample.target_bytes = PaceTargetFiles(*options_) * buffer_bytes;
  // Slower writers wait in DelayWrite.
  if (!options_->disable_auto_compactions &&
      stall_.pressure == WritePressure::kNone) {
    const CompactionDebt debt =
        ComputeCompactionDebt(*options_, version, compactions_.running);
    const int trigger = options_->level0_file_num_compaction_trigger;
    const double memory_files =
        static_cast<double>(immutable_.size()) +
        static_cast<double>(written_bytes_) / buffer_bytes;
    sample.debt_bytes =
        std::max(debt.level0_files + memory_files - trigger, 0.0) *
            buffer_bytes +
        debt.deep_bytes * per_table_byte;
  }
  debt_pace_.AddSample(sample);
}

uint64_t ColumnFamily::DrainingMicrosLocked(uint64_t now_us) const {
  if (compactions_.running.empty() || now_us < draining_since_us_) {
    return draining_us_;
  }
  return draining_us_ + now_us - draining_since_us_;
}

WriteDebt ColumnFamily::UpdateStallLocked() {
  const Version& version = *versions_->current();
  WriteDebt debt;
  debt.level0_files = version.NumFiles(0);
  debt.pending_bytes = EstimatePendingCompactionBytes(*options_, version);
  debt.immutable_memtables = static_cast<int>(immutable_.size());
  debt.no_memtable = AwaitsFlushLocked();
  const double drain_rate = debt_pace_.drain_rate();
  stall_ = ComputeWriteStall(
      *options_, debt,
      {.flushes = flush_rate_,
       .compactions = drain_rate > 0 ? drain_rate : flush_rate_});
  return debt;
}

bool ColumnFamily::CompactionsAreUrgentLocked() const {
  return stall_.pressure != WritePressure::kNone || debt_pace_.IsBinding() ||
         debt_pace_.NeedsPriority(MonotonicMicros(env_));
}

StallCause ColumnFamily::StopCauseLocked() const {
  if (stall_.pressure == WritePressure::kStop) return stall_.cause;
  // stall_ includes this cause only after a writer waits.
  return AwaitsFlushLocked() ? StallCause::kMemTables : StallCause::kNone;
}

uint64_t ColumnFamily::DelayMicrosLocked(uint64_t bytes, bool may_sleep) {
  return write_delay_.Charge(bytes, stall_.rate, MonotonicMicros(env_),
                             may_sleep);
}

void ColumnFamily::CountStallLocked(StallCause cause, WritePressure pressure) {
  ++stall_count_;
  RecordTick(stats_, StallTicker(cause, pressure));
}

void ColumnFamily::AddStallMicrosLocked(uint64_t micros) {
  stall_micros_ += micros;
  RecordTick(stats_, Ticker::kStallMicros, micros);
}

// ---- Compactions ------------------------------------------------------------

void ColumnFamily::MeasureFlushLocked(size_t count, uint64_t micros,
                                      uint64_t table_bytes) {
  double bytes = 0;
  for (size_t i = 0; i < std::min(count, immutable_bytes_.size()); ++i) {
    bytes += static_cast<double>(immutable_bytes_[i]);
  }
  if (micros == 0 || table_bytes == 0) return;
  // Most of the time and of the size of a small table do not depend on its
  // entries, so they are no measure for larger ones. (Only the leader may call
  // FullBytes.)
  const double full_bytes = static_cast<double>(options_->write_buffer_size) *
                            batch_bytes_per_memory_byte_;
  if (bytes < full_bytes / 8) return;
  flush_rate_ =
      std::max(flush_rate_, bytes * 1e6 / static_cast<double>(micros));
  flushed_batch_bytes_ = flushed_batch_bytes_ / 2 + bytes;
  flushed_table_bytes_ =
      flushed_table_bytes_ / 2 + static_cast<double>(table_bytes);
}

void ColumnFamily::BeginCompactionLocked(Compaction* compaction) {
  if (compactions_.running.empty()) draining_since_us_ = MonotonicMicros(env_);
  compaction->relief_bytes = ComputeRelief(*options_, *compaction);
  compaction->progress_bytes = std::make_shared<std::atomic<uint64_t>>(0);
  compactions_.running.push_back(compaction);
}

void ColumnFamily::EndCompactionLocked(const Compaction* compaction,
                                       bool succeeded) {
  draining_us_ = DrainingMicrosLocked(MonotonicMicros(env_));
  draining_since_us_ = MonotonicMicros(env_);
  std::erase(compactions_.running, compaction);
  if (succeeded) relieved_bytes_ += compaction->relief_bytes;
}

void ColumnFamily::CountFlushesLocked(const VersionEdit& edit, size_t flushes,
                                      uint64_t micros) {
  CompactionStats& stats = compactions_.stats[0];
  for (const auto& [level, file] : edit.new_files()) {
    stats.bytes_written += file.file_size;
    RecordTick(stats_, Ticker::kFlushWriteBytes, file.file_size);
  }
  stats.micros += micros;
  stats.count += flushes;
}

}  // namespace varve
