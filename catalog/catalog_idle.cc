// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Closing unused databases of a catalog, because the catalog's user requests it
// or because file descriptors run short.

#include <algorithm>
#include <tuple>

#include "catalog/catalog_impl.h"
#include "env/descriptor_supply.h"
#include "util/threads/epoch.h"

namespace varve {

namespace {

// Descriptors of an open database besides its tables: LOCK, the directory
// twice, a log, the MANIFEST, LOG.
constexpr size_t kDescriptorsOfDatabase = 6;
// One in this many open databases is closed at a time, since finding the least
// recently used ones checks all of them.
constexpr size_t kClosedPart = 8;
// Maximum rounds of closing, if all databases of each are in use by iterators.
constexpr int kClosingRounds = 16;
// Pause before the next attempt if no database could be closed.
constexpr uint64_t kRetryPauseUs = 100 * 1000;

}  // namespace

bool CatalogImpl::IsIdleLocked(CatalogEntry* entry, uint64_t idle_us) {
  if (entry->state != CatalogEntry::State::kOpen) return false;
  const DistributedRefCounts::Sums sums = references_.Count(entry->index);
  const uint64_t now_us = NowUs();
  if (sums.taken != entry->taken) {
    entry->taken = sums.taken;
    entry->idle_since_us = now_us;
  }
  return sums.taken == sums.given &&
         (idle_us == 0 || now_us - entry->idle_since_us >= idle_us);
}

Status CatalogImpl::CloseRetracted(const std::vector<CatalogEntry*>& idle,
                                   bool flush_unlogged, size_t* closed) {
  *closed = 0;
  if (idle.empty()) return Status::OK();
  HeavyBarrier();  // T3: a thread that misses the retraction is counted.
  Status result;
  for (CatalogEntry* entry : idle) {
    const bool unused = AwaitReferences(*entry, 0);
    Status status = unused ? Status::OK() : Status::Busy("in use");
    if (unused && flush_unlogged) status = entry->engine->FlushUnlogged();
    if (status.ok()) status = CloseDatabase(entry);
    MutexLock lock(&mutex_);
    if (entry->db != nullptr) {
      entry->idle_since_us = NowUs();
      PutBackLocked(entry);
      continue;
    }
    entry->state = CatalogEntry::State::kClosed;
    changed_.SignalAll();
    ++*closed;
    if (result.ok()) result = std::move(status);
  }
  return result;
}

Status CatalogImpl::CloseIdle(uint64_t idle_us, size_t* closed) {
  std::vector<CatalogEntry*> idle;
  {
    MutexLock lock(&mutex_);
    for (const auto& [name, entry] : entries_) {
      if (IsIdleLocked(entry.get(), idle_us)) idle.push_back(entry.get());
    }
    for (CatalogEntry* entry : idle) RetractLocked(entry);
  }
  size_t count = 0;
  Status status = CloseRetracted(idle, /*flush_unlogged=*/false, &count);
  if (closed != nullptr) *closed = count;
  return status;
}

// ---- When descriptors run short --------------------------------------------

size_t CatalogImpl::CloseLeastUsed(bool only_if_many) {
  // Databases that turned out to be in use come last in the next round.
  for (int round = 0; round < kClosingRounds; ++round) {
    const std::vector<CatalogEntry*> idle = RetractLeastUsed(only_if_many);
    size_t closed = 0;
    // Each database has written the error to its LOG. There is no caller to
    // return it to.
    CloseRetracted(idle, /*flush_unlogged=*/true, &closed).IgnoreError();
    if (closed > 0 || idle.empty()) return closed;
  }
  return 0;
}

std::vector<CatalogEntry*> CatalogImpl::RetractLeastUsed(bool only_if_many) {
  std::vector<CatalogEntry*> idle;
  MutexLock lock(&mutex_);
  size_t open = 0;
  for (const auto& [name, entry] : entries_) {
    open += entry->state == CatalogEntry::State::kOpen;
    if (IsIdleLocked(entry.get(), 0)) idle.push_back(entry.get());
  }
  // As long as tables hold more descriptors, closing tables costs less.
  if (only_if_many &&
      open * kDescriptorsOfDatabase < file_pool_->open_files()) {
    return {};
  }
  std::sort(idle.begin(), idle.end(),
            [](const CatalogEntry* a, const CatalogEntry* b) {
              return std::tie(a->idle_since_us, a->opened_us) <
                     std::tie(b->idle_since_us, b->opened_us);
            });
  idle.resize(std::min(idle.size(), open / kClosedPart + 1));
  for (CatalogEntry* entry : idle) RetractLocked(entry);
  return idle;
}

void CatalogImpl::MakeSpaceForDatabase() {
  const uint64_t shortages = DescriptorShortages();
  // relaxed: a thread that reads an old number checks once more in vain.
  if (shortages_seen_.exchange(shortages, std::memory_order_relaxed) !=
      shortages) {
    CloseLeastUsed(true);
  }
}

DescriptorOwner::CloseResult CatalogImpl::GiveBack(size_t /*count*/,
                                                   size_t keep) {
  CloseResult result;
  // relaxed: whichever of two calls comes first, one of them schedules.
  if (keep > 0 || NowUs() < retry_at_us_.load(std::memory_order_relaxed)) {
    return result;
  }
  result.more_soon = true;
  // relaxed: as above.
  if (closing_.exchange(true, std::memory_order_relaxed)) return result;
  const Status status = closing_pool_.Schedule([this] {
    if (CloseLeastUsed(false) == 0) {
      // relaxed: as above.
      retry_at_us_.store(NowUs() + kRetryPauseUs, std::memory_order_relaxed);
    }
    // relaxed: as above.
    closing_.store(false, std::memory_order_relaxed);
  });
  if (!status.ok()) {
    // relaxed: as above.
    closing_.store(false, std::memory_order_relaxed);
    result.more_soon = false;
  }
  return result;
}

void CatalogImpl::StopGiving() {
  RemoveDescriptorOwner(this);
  closing_pool_.WaitForIdle();
}

}  // namespace varve
