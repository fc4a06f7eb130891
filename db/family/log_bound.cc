// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "db/family/log_bound.h"

#include <algorithm>
#include <cinttypes>

#include "util/base/append_format.h"

namespace varve {

uint64_t LogBound::MaxBytesLocked() const {
  constexpr uint64_t kBuffers = 4;
  if (options_->max_total_wal_size != 0) return options_->max_total_wal_size;
  uint64_t most = 0;
  uint64_t sum = 0;
  for (const ColumnFamily* family : families_->live()) {
    const Options& options = family->options();
    sum += options.write_buffer_size;
    most = std::max(most,
                    options.write_buffer_size *
                        static_cast<uint64_t>(options.max_write_buffer_number));
  }
  // The sum, so that families which are written to evenly can fill their
  // memtables.
  return std::max(kBuffers * most, sum);
}

// A log of one family's updates alone is about as large as their memtable, or
// smaller.
void LogBound::UpdateLogSizeLocked() {
  constexpr uint64_t kLeastBytes = 64 << 10;
  constexpr uint64_t kLogs = 4;  // At least so many make up the bound.
  uint64_t largest = 0;
  for (const ColumnFamily* family : families_->live()) {
    largest = std::max<uint64_t>(largest, family->options().write_buffer_size);
  }
  wals_->SetMaxLogBytesLocked(std::max(
      kLeastBytes, std::min(largest + largest / 4, MaxBytesLocked() / kLogs)));
}

// The next log grows while families are flushed. If writers have to wait when
// it is full, as CheckLocked says, these flushes end the wait.
uint64_t LogBound::LimitLocked() const {
  const uint64_t bound = MaxBytesLocked();
  return bound - std::min(bound, 2 * wals_->max_log_bytes());
}

uint64_t LogBound::PreparedBytesLocked() const {
  if (wals_->EmptyLocked()) return 0;
  uint64_t first = wals_->NewestLocked();
  for (const ColumnFamily* family : families_->live()) {
    if (family->memtables().AreAllFlushedLocked()) continue;
    first = std::min(first, family->memtables().OldestLogLocked());
  }
  return wals_->OlderBytesLocked(prepared_->FirstLog(first)) -
         wals_->OlderBytesLocked(first);
}

bool LogBound::MustMovePreparedLocked() const {
  return !prepared_->empty() &&
         wals_->OlderBytesLocked() + wals_->NewestBytes() > LimitLocked() &&
         PreparedBytesLocked() > 2 * prepared_->CopyBytes();
}

// Their flush frees all logs before the next family's oldest one.
void LogBound::AddHoldersLocked(std::vector<ColumnFamily*>* families) const {
  const uint64_t bound = MaxBytesLocked();
  const uint64_t limit = LimitLocked();
  const uint64_t newest_bytes = wals_->NewestBytes();
  const uint64_t total = wals_->OlderBytesLocked() + newest_bytes;
  if (total <= limit || !families_->HasOthers()) return;
  std::vector<ColumnFamily*> holders = families_->live();
  std::erase_if(holders,
                [](const ColumnFamily* family) VARVE_REQUIRES(kDbMutex) {
                  return family->memtables().AreAllFlushedLocked();
                });
  std::sort(holders.begin(), holders.end(),
            [](const ColumnFamily* a, const ColumnFamily* b)
                VARVE_REQUIRES(kDbMutex) {
                  return a->memtables().OldestLogLocked() <
                         b->memtables().OldestLogLocked();
                });
  // Without the updates in logs before `cut`, the rest fits.
  uint64_t bytes = total;
  uint64_t cut = 0;
  for (auto holder = holders.begin();
       holder != holders.end() && bytes > limit;) {
    const uint64_t oldest = (*holder)->memtables().OldestLogLocked();
    while (holder != holders.end() &&
           (*holder)->memtables().OldestLogLocked() == oldest) {
      ++holder;
    }
    cut = holder != holders.end() ? (*holder)->memtables().OldestLogLocked()
                                  : UINT64_MAX;
    bytes = wals_->OlderBytesLocked(cut) + newest_bytes;
  }
  for (ColumnFamily* const family : holders) {
    if (family->memtable()->empty() || !family->memtables().SlotFreeLocked() ||
        family->memtable()->wal_number() >= cut ||
        std::find(families->begin(), families->end(), family) !=
            families->end()) {
      continue;
    }
    families->push_back(family);
    Log(LogLevel::kInfo, log_,
        "[%s] is flushed: it needs log %llu, and the logs take %llu bytes, "
        "bound %llu",
        family->name().c_str(),
        static_cast<unsigned long long>(family->memtables().OldestLogLocked()),
        static_cast<unsigned long long>(total),
        static_cast<unsigned long long>(bound));
  }
}

bool LogBound::CheckLocked(bool frees) {
  // No flush frees the logs that only prepared sections need.
  holds_up_ = frees && wals_->OlderBytesLocked() - PreparedBytesLocked() +
                               wals_->ObsoleteBytesLocked() +
                               2 * wals_->max_log_bytes() >
                           MaxBytesLocked();
  return holds_up_;
}

std::string LogBound::DescribeOldestLocked() const {
  if (wals_->EmptyLocked()) return "none";
  const ColumnFamily* holder = families_->default_family();
  for (const ColumnFamily* family : families_->live()) {
    if (!family->memtables().AreAllFlushedLocked() &&
        (holder->memtables().AreAllFlushedLocked() ||
         family->memtables().OldestLogLocked() <
             holder->memtables().OldestLogLocked())) {
      holder = family;
    }
  }
  const uint64_t oldest = wals_->OldestLocked();
  const bool is_held = !holder->memtables().AreAllFlushedLocked() &&
                       holder->memtables().OldestLogLocked() <= oldest;
  const bool is_prepared = prepared_->FirstLog(UINT64_MAX) <= oldest;
  std::string out;
  AppendFormat(&out, "log %" PRIu64 ", needed by %s, ", oldest,
               is_held       ? holder->name().c_str()
               : is_prepared ? "prepared transactions"
                             : "no column family");
  AppendFormat(&out,
               "age %.1f s; %" PRIu64
               " bytes in logs before the newest, bound %" PRIu64,
               static_cast<double>(wals_->OldestAgeMicrosLocked()) / 1e6,
               wals_->OlderBytesLocked(), MaxBytesLocked());
  return out;
}

}  // namespace varve
