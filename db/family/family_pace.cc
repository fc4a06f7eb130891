// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "db/family/family_pace.h"

#include <algorithm>

#include "db/options/options_check.h"
#include "env/stopwatch.h"

namespace varve {

namespace {

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

// ---- Memtables and flushes --------------------------------------------------

void FamilyPace::BeforeSwitchLocked() {
  batch_bytes_per_memory_byte_ = BatchBytesPerMemoryByte();
  immutable_bytes_.push_back(written_bytes_);
  written_bytes_ = 0;
  paced_bytes_ = 0;
  pace_at_bytes_ = 0;
  if (!memtables_.flush_runs()) {
    flush_pace_.Begin(memtables_.current()->EntryCount(),
                      MonotonicMicros(env_));
  }
}

void FamilyPace::MeasureFlushLocked(size_t count, uint64_t micros,
                                    uint64_t table_bytes) {
  double bytes = 0;
  for (size_t i = 0; i < std::min(count, immutable_bytes_.size()); ++i) {
    bytes += static_cast<double>(immutable_bytes_[i]);
  }
  if (micros == 0 || table_bytes == 0) return;
  // Most of the time and of the size of a small table do not depend on its
  // entries, so they are no measure for larger ones. (Only the leader may call
  // FullBytes.)
  const double full_bytes = static_cast<double>(options_.write_buffer_size) *
                            batch_bytes_per_memory_byte_;
  if (bytes < full_bytes / 8) return;
  flush_rate_ =
      std::max(flush_rate_, bytes * 1e6 / static_cast<double>(micros));
  flushed_batch_bytes_ = flushed_batch_bytes_ / 2 + bytes;
  flushed_table_bytes_ =
      flushed_table_bytes_ / 2 + static_cast<double>(table_bytes);
}

void FamilyPace::ForgetFlushedLocked(size_t count) {
  // The memtables of recovery were not counted.
  immutable_bytes_.erase(
      immutable_bytes_.begin(),
      immutable_bytes_.begin() + static_cast<std::ptrdiff_t>(
                                     std::min(count, immutable_bytes_.size())));
}

// ---- Pauses and stalls ------------------------------------------------------

uint64_t FamilyPace::PauseMicrosLocked(const Version& version,
                                       uint64_t log_space, bool may_pause) {
  const uint64_t now_us = MonotonicMicros(env_);
  const uint64_t bytes = written_bytes_ - paced_bytes_;
  paced_bytes_ = written_bytes_;
  if (debt_pace_.SampleIsDue(now_us)) SampleDebtLocked(version, now_us);
  const DebtPace::Step step = debt_pace_.Charge(bytes, now_us);
  uint64_t pause_us = may_pause ? step.pause_us : 0;
  if (pause_us > 0) {
    ++pace_count_;
    pace_micros_ += pause_us;
    RecordTick(stats_, Ticker::kPaceMicros, pause_us);
  }
  uint64_t next_bytes = std::min({step.bytes, log_space, kPaceBytes});
  if (!memtables_.SlotFreeLocked()) {
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

double FamilyPace::BatchBytesPerMemoryByte() const {
  const auto used =
      static_cast<double>(memtables_.current()->ApproximateMemoryUsage());
  if (written_bytes_ == 0 ||
      used < static_cast<double>(options_.write_buffer_size) / 2) {
    return batch_bytes_per_memory_byte_;
  }
  return static_cast<double>(written_bytes_) / used;
}

double FamilyPace::FullBytes() const {
  return static_cast<double>(options_.write_buffer_size) *
         BatchBytesPerMemoryByte();
}

uint64_t FamilyPace::FlushPauseMicrosLocked(uint64_t bytes, uint64_t now_us,
                                            uint64_t* step_bytes) {
  const auto full_bytes = static_cast<uint64_t>(FullBytes());
  const uint64_t space =
      full_bytes > written_bytes_ ? full_bytes - written_bytes_ : 0;
  const FlushPace::Step step =
      flush_pace_.Charge(bytes, space, full_bytes, now_us);
  *step_bytes = step.bytes;
  return step.pause_us;
}

double FamilyPace::BatchBytesPerTableByteLocked() const {
  return flushed_table_bytes_ > 0 ? flushed_batch_bytes_ / flushed_table_bytes_
                                  : 1;
}

void FamilyPace::SampleDebtLocked(const Version& version, uint64_t now_us) {
  const double buffer_bytes = FullBytes();
  const double relieved = compactions_.RelievedBytes();
  const double per_table_byte = BatchBytesPerTableByteLocked();
  drained_bytes_ +=
      std::max(relieved - last_relieved_bytes_, 0.0) * per_table_byte;
  last_relieved_bytes_ = relieved;

  DebtPace::Sample sample;
  sample.now_us = now_us;
  sample.drained_bytes = drained_bytes_;
  sample.draining_us = compactions_.DrainingMicros(now_us);
  sample.assumed_rate = flush_rate_;
  sample.target_bytes = PaceTargetFiles(options_) * buffer_bytes;
  // Slower writers wait before they join the queue.
  if (!options_.disable_auto_compactions &&
      stall_.pressure == WritePressure::kNone) {
    const CompactionDebt debt = compactions_.Debt(version);
    const int trigger = options_.level0_file_num_compaction_trigger;
    const double memory_files =
        static_cast<double>(memtables_.immutable().size()) +
        static_cast<double>(written_bytes_) / buffer_bytes;
    sample.debt_bytes =
        std::max(debt.level0_files + memory_files - trigger, 0.0) *
            buffer_bytes +
        debt.deep_bytes * per_table_byte;
  }
  debt_pace_.AddSample(sample);
}

WriteDebt FamilyPace::UpdateStallLocked(const Version& version) {
  WriteDebt debt;
  debt.level0_files = version.NumFiles(0);
  debt.pending_bytes = compactions_.Debt(version).pending_bytes;
  debt.immutable_memtables = static_cast<int>(memtables_.immutable().size());
  debt.no_memtable = memtables_.AwaitsFlushLocked();
  const double drain_rate = debt_pace_.drain_rate();
  stall_ = ComputeWriteStall(
      options_, debt,
      {.flushes = flush_rate_,
       .compactions = drain_rate > 0 ? drain_rate : flush_rate_});
  return debt;
}

bool FamilyPace::CompactionsAreUrgentLocked() const {
  return stall_.pressure != WritePressure::kNone || debt_pace_.IsBinding() ||
         debt_pace_.NeedsPriority(MonotonicMicros(env_));
}

StallCause FamilyPace::StopCauseLocked() const {
  if (stall_.pressure == WritePressure::kStop) return stall_.cause;
  // stall_ includes this cause only after a writer waits.
  return memtables_.AwaitsFlushLocked() ? StallCause::kMemTables
                                        : StallCause::kNone;
}

uint64_t FamilyPace::DelayMicrosLocked(uint64_t bytes, bool may_sleep) {
  return write_delay_.Charge(bytes, stall_.rate, MonotonicMicros(env_),
                             may_sleep);
}

void FamilyPace::CountStallLocked(StallCause cause, WritePressure pressure) {
  ++stall_counts_[static_cast<size_t>(cause)][static_cast<size_t>(pressure)];
  RecordTick(stats_, StallTicker(cause, pressure));
}

void FamilyPace::AddStallMicrosLocked(uint64_t micros) {
  stall_micros_ += micros;
  RecordTick(stats_, Ticker::kStallMicros, micros);
}

}  // namespace varve
