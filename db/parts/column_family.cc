// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "db/parts/column_family.h"

#include <algorithm>

#include "db/compaction/compaction_picker.h"
#include "env/descriptor_supply.h"
#include "env/stopwatch.h"
#include "util/base/experiment.h"

namespace varve {

namespace {

// Logs of write buffers may have such a part of the descriptors, and as many as
// the least max_write_buffer_number in any case.
constexpr int kLogPart = 4;
constexpr int kLeastLogs = 2;

}  // namespace

ColumnFamily::ColumnFamily(const Options* options,
                           const InternalKeyComparator* comparator, Env* env,
                           StatisticsImpl* stats, Mutex* mutex,
                           std::function<void()> free_later)
    : options_(options),
      comparator_(comparator),
      env_(env),
      stats_(stats),
      mutex_(mutex),
      free_later_(std::move(free_later)),
      snapshots_(new SnapshotRegistry(
          ExperimentFlagsOf(*options).lists_snapshots, mutex, this)),
      super_versions_(ExperimentFlagsOf(*options).locks_reads, mutex, this,
                      snapshots_) {}

void ColumnFamily::SetVersions(VersionSet* versions) {
  versions_ = versions;
  snapshots_->SetLastSequence(versions->last_sequence());
}

void ColumnFamily::BeginLocked(MemTable* memtable,
                               std::vector<MemTable*> immutable) {
  memtable_ = memtable;
  immutable_ = std::move(immutable);
}

void ColumnFamily::Close() {
  snapshots_->Close();
  super_versions_.Close();
  MutexLock lock(mutex_);
  for (MemTable* memtable : obsolete_) delete memtable;
  if (memtable_ != nullptr && memtable_->Unref()) delete memtable_;
  for (MemTable* memtable : immutable_) {
    if (memtable->Unref()) delete memtable;
  }
}

ColumnFamily::AbandonedState ColumnFamily::Abandon() {
  immutable_.push_back(memtable_);
  AbandonedState remains = {snapshots_, super_versions_.current(),
                            std::move(immutable_)};
  snapshots_->Abandon();
  super_versions_.Abandon();
  return remains;
}

// ---- Reads
// -------------------------------------------------------------------

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
  versions_->UnrefVersionLocked(super_version->version);
  delete super_version;
}

void ColumnFamily::UnrefMemTableLocked(MemTable* memtable) {
  if (!memtable->Unref()) return;
  std::erase(flushed_, memtable);
  obsolete_.push_back(memtable);
}

// ---- Memtables
// ---------------------------------------------------------------

MemTable* ColumnFamily::NewMemTable(uint64_t wal_number) const {
  return new MemTable(comparator_, wal_number, options_->write_buffer_size,
                      MemTableOrderOf(*options_));
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

void ColumnFamily::SwitchLocked(MemTable* next, bool flush_runs) {
  log_is_full_ = false;
  immutable_.push_back(memtable_);
  ++switched_count_;
  full_bytes_ = written_bytes_;
  written_bytes_ = 0;
  paced_bytes_ = 0;
  pace_at_bytes_ = 0;
  if (!flush_runs) {
    flush_pace_.Begin(memtable_->EntryCount(), MonotonicMicros(env_));
  }
  memtable_ = next;
}

std::vector<MemTable*> ColumnFamily::RemoveFlushedLocked(size_t count) {
  const auto end = immutable_.begin() + static_cast<std::ptrdiff_t>(count);
  std::vector<MemTable*> flushed(immutable_.begin(), end);
  immutable_.erase(immutable_.begin(), end);
  return flushed;
}

void ColumnFamily::RetireLocked(const std::vector<MemTable*>& flushed) {
  for (MemTable* memtable : flushed) {
    flushed_.push_back(memtable);
    UnrefMemTableLocked(memtable);
  }
}

// ---- Writers
// -----------------------------------------------------------------

uint64_t ColumnFamily::PauseMicrosLocked() {
  // The memory grows by whole blocks, so the size of the batches that will fill
  // it is known only roughly. At first, it is estimated from the last memtable.
  const uint64_t limit = options_->write_buffer_size;
  const uint64_t used = memtable_->ApproximateMemoryUsage();
  uint64_t full_bytes = full_bytes_;
  if (used > limit / 8) {
    full_bytes = static_cast<uint64_t>(static_cast<double>(written_bytes_) *
                                       static_cast<double>(limit) /
                                       static_cast<double>(used));
  }
  const uint64_t space =
      full_bytes > written_bytes_ ? full_bytes - written_bytes_ : 0;
  const FlushPace::Step step = flush_pace_.Charge(
      written_bytes_ - paced_bytes_, space, full_bytes, MonotonicMicros(env_));
  paced_bytes_ = written_bytes_;
  pace_at_bytes_ = written_bytes_ + step.bytes;
  if (step.pause_us > 0) {
    CountStallLocked(StallCause::kMemTables, WritePressure::kSlow);
    AddStallMicrosLocked(step.pause_us);
  }
  return step.pause_us;
}

WriteDebt ColumnFamily::UpdateStallLocked() {
  const Version& version = *versions_->current();
  WriteDebt debt;
  debt.level0_files = version.NumFiles(0);
  debt.pending_bytes = EstimatePendingCompactionBytes(*options_, version);
  debt.immutable_memtables = static_cast<int>(immutable_.size());
  debt.no_memtable = AwaitsFlushLocked();
  stall_ = ComputeWriteStall(*options_, debt);
  return debt;
}

void ColumnFamily::UpdateStallStateLocked(bool has_error) {
  uint32_t bits = has_error ? kStallError : 0;
  if (stall_.pressure == WritePressure::kStop) bits |= kStallStop;
  if (stall_.pressure == WritePressure::kSlow) bits |= kStallSlow;
  // relaxed: see StallStateIsClear.
  stall_bits_.store(bits, std::memory_order_relaxed);
}

StallCause ColumnFamily::StopCauseLocked() const {
  if (stall_.pressure == WritePressure::kStop) return stall_.cause;
  // stall_ includes this cause only after a writer waits.
  return AwaitsFlushLocked() ? StallCause::kMemTables : StallCause::kNone;
}

uint64_t ColumnFamily::DelayMicrosLocked(uint64_t bytes) {
  return write_delay_.Charge(bytes, stall_.rate, MonotonicMicros(env_));
}

void ColumnFamily::CountStallLocked(StallCause cause, WritePressure pressure) {
  ++stall_count_;
  RecordTick(stats_, StallTicker(cause, pressure));
}

void ColumnFamily::AddStallMicrosLocked(uint64_t micros) {
  stall_micros_ += micros;
  RecordTick(stats_, Ticker::kStallMicros, micros);
}

// ---- Compactions
// -------------------------------------------------------------

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
