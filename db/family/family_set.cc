// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "db/family/family_set.h"

#include <algorithm>
#include <cinttypes>
#include <iterator>

#include "util/base/append_format.h"

namespace varve {

ColumnFamily* FamilySet::Search(uint32_t id) const {
  const auto place = std::lower_bound(ids_.begin(), ids_.end(), id);
  return place != ids_.end() && *place == id ? live_[place - ids_.begin()]
                                             : nullptr;
}

ColumnFamily* FamilySet::Find(const std::string& name) const {
  for (ColumnFamily* family : live_) {
    if (family->name() == name) return family;
  }
  return nullptr;
}

int FamilySet::CountToFlushLocked() const {
  int count = 0;
  for (const ColumnFamily* family : live_) {
    if (!family->memtables().immutable().empty()) ++count;
  }
  return count;
}

bool FamilySet::AreAllFlushedLocked() const {
  return std::all_of(live_.begin(), live_.end(),
                     [](const ColumnFamily* family) VARVE_REQUIRES(kDbMutex) {
                       return family->memtables().AreAllFlushedLocked();
                     });
}

bool FamilySet::HasUnloggedLocked() const {
  return std::any_of(live_.begin(), live_.end(),
                     [](const ColumnFamily* family) VARVE_REQUIRES(kDbMutex) {
                       return family->memtables().HasUnloggedLocked();
                     });
}

bool FamilySet::AnyCompactsLocked() const {
  bool any = false;
  ForEachUsedLocked([&any](const ColumnFamily* family)
                        VARVE_REQUIRES(kDbMutex) {
                          any |= !family->compactions().running.empty();
                        });
  return any;
}

bool FamilySet::OthersNeedLogsLocked(const std::vector<ColumnFamily*>& families,
                                     uint64_t log_number) const {
  return std::any_of(
      live_.begin(), live_.end(),
      [&](const ColumnFamily* family) VARVE_REQUIRES(kDbMutex) {
        return std::find(families.begin(), families.end(), family) ==
                   families.end() &&
               !family->memtables().AreAllFlushedLocked() &&
               family->memtables().OldestLogLocked() < log_number;
      });
}

std::string FamilySet::DescribeLocked() const {
  std::string out;
  for (const ColumnFamily* family : live_) {
    uint64_t tables = 0;
    uint64_t table_bytes = 0;
    const Version& version = *family->version();
    for (int level = 0; level <= version.DeepestLevel(); ++level) {
      tables += static_cast<uint64_t>(version.NumFiles(level));
      table_bytes += version.NumBytes(level);
    }
    uint64_t memtable_bytes = family->memtable()->ApproximateMemoryUsage();
    for (const MemTable* memtable : family->memtables().immutable()) {
      memtable_bytes += memtable->ApproximateMemoryUsage();
    }
    AppendFormat(&out,
                 "%u %s: %" PRIu64 " tables, %" PRIu64
                 " bytes; memtables %" PRIu64 " bytes; needs logs from %" PRIu64
                 "\n",
                 family->id(), family->name().c_str(), tables, table_bytes,
                 memtable_bytes, family->memtables().OldestLogLocked());
  }
  return out;
}

void FamilySet::AddLocked(std::unique_ptr<ColumnFamily> family) {
  const auto place = std::lower_bound(ids_.begin(), ids_.end(), family->id());
  live_.insert(live_.begin() + (place - ids_.begin()), family.get());
  ids_.insert(place, family->id());
  others_.push_back(std::move(family));
}

void FamilySet::DropLocked(ColumnFamily* family) {
  std::erase(live_, family);
  std::erase(ids_, family->id());
  UnrefLocked(family);
}

void FamilySet::BuryLocked(ColumnFamily* family) {
  waiting_.push_back(family);
  BuryWaitingLocked();
}

void FamilySet::BuryWaitingLocked() {
  SetWaitingBits();  // Before the sums: T3 of util/threads/striped_count.h.
  std::erase_if(waiting_, [this](const ColumnFamily* family) {
    if (family->iterators() != 0) return false;
    const auto place = std::find_if(
        others_.begin(), others_.end(),
        [family](const auto& owned) { return owned.get() == family; });
    // At the end of the database, its other families are taken first.
    if (place == others_.end()) return true;
    dead_.push_back(std::move(*place));
    others_.erase(place);
    return true;
  });
  SetWaitingBits();
}

void FamilySet::SetWaitingBits() {
  uint64_t bits = 0;
  for (const ColumnFamily* family : waiting_) bits |= BitOf(family->id());
  // seq_cst: T3 of util/threads/striped_count.h.
  waiting_bits_.store(bits, std::memory_order_seq_cst);
}

int64_t FamilySet::CountIteratorsLocked() const {
  int64_t count = 0;
  ForEachUsedLocked(
      [&count](const ColumnFamily* family) { count += family->iterators(); });
  return count;
}

std::vector<ColumnFamily*> FamilySet::RefLiveLocked() const {
  for (ColumnFamily* const family : live_) family->Ref();
  return live_;
}

std::vector<std::unique_ptr<ColumnFamily>> FamilySet::TakeAllLocked() {
  live_.resize(1);
  ids_.resize(1);
  std::vector<std::unique_ptr<ColumnFamily>> all = std::exchange(others_, {});
  std::move(dead_.begin(), dead_.end(), std::back_inserter(all));
  dead_.clear();
  waiting_.clear();
  SetWaitingBits();
  return all;
}

}  // namespace varve
