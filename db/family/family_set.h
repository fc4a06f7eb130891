// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// The column families of an open database. The default family belongs to
// DBImpl, the others to this. A family that was dropped leaves the list at
// once, and is freed when its last handle, iterator and job have gone.
//
// Thread-safety: the list changes with leadership of the write queue and the DB
// mutex held, so either suffices to read it. default_family and db_number can
// be called by any thread. The rest requires the mutex.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "db/family/column_family.h"
#include "db/options/db_mutex.h"
#include "util/threads/thread_slots.h"

namespace varve {

class FamilySet {
 public:
  explicit FamilySet(ColumnFamily* default_family)
      : default_family_(default_family),
        db_number_(NewSlotNumber()),
        live_{default_family},
        ids_{0} {}
  FamilySet(const FamilySet&) = delete;
  FamilySet& operator=(const FamilySet&) = delete;

  // The live families by increasing id. The first is the default one.
  const std::vector<ColumnFamily*>& live() const { return live_; }
  bool HasOthers() const { return live_.size() > 1; }
  ColumnFamily* default_family() const { return default_family_; }
  // The number of the DB, which no other one has in this process.
  uint64_t db_number() const { return db_number_; }
  // Returns the live family with that id or name, or null. Without dropped
  // families, an id is found at once.
  ColumnFamily* Find(uint32_t id) const {
    return id < ids_.size() && ids_[id] == id ? live_[id] : Search(id);
  }
  ColumnFamily* Find(const std::string& name) const;

  // Returns how many live families have memtables that wait for a flush.
  int CountToFlushLocked() const VARVE_REQUIRES(kDbMutex);
  // Returns true if no memtable of the live families has an update.
  bool AreAllFlushedLocked() const VARVE_REQUIRES(kDbMutex);
  // Returns true if memtables have updates written with disable_wal. REQUIRES:
  // leadership of the queue, or no writers.
  bool HasUnloggedLocked() const VARVE_REQUIRES(kDbMutex);
  // Returns true if a compaction runs, of a live family or of a dropped one.
  bool AnyCompactsLocked() const VARVE_REQUIRES(kDbMutex);
  // Returns true if a live family that is not among `families` needs a log
  // before `log_number`.
  bool OthersNeedLogsLocked(const std::vector<ColumnFamily*>& families,
                            uint64_t log_number) const VARVE_REQUIRES(kDbMutex);
  // Returns one line for each live family, for a property.
  std::string DescribeLocked() const VARVE_REQUIRES(kDbMutex);

  // Calls visit(family) for the live families, and for the dropped ones that
  // still have a user.
  template <typename Visit>
  void ForEachUsedLocked(Visit visit) const VARVE_REQUIRES(kDbMutex) {
    visit(default_family_);
    for (const auto& family : others_) visit(family.get());
  }

  // Adds a family, whose id is known.
  void AddLocked(std::unique_ptr<ColumnFamily> family) VARVE_REQUIRES(kDbMutex);
  // Removes a family from the list, and the reference of the list.
  void DropLocked(ColumnFamily* family) VARVE_REQUIRES(kDbMutex);
  // Records that a dropped family has no references. It is dead as soon as it
  // has no iterators either.
  void BuryLocked(ColumnFamily* family) VARVE_REQUIRES(kDbMutex);
  // Returns true if the family with that id, or another one, has no references
  // and waits for its iterators. A thread that has ended an iterator of a
  // family that may be dropped must then call BuryWaitingLocked.
  bool MayWait(uint32_t id) const {
    // seq_cst: T2 of util/threads/striped_count.h.
    return (waiting_bits_.load(std::memory_order_seq_cst) & BitOf(id)) != 0;
  }
  void BuryWaitingLocked() VARVE_REQUIRES(kDbMutex);
  // Returns the number of the users' iterators.
  int64_t CountIteratorsLocked() const VARVE_REQUIRES(kDbMutex);
  // Returns the live families, with a reference to each.
  std::vector<ColumnFamily*> RefLiveLocked() const VARVE_REQUIRES(kDbMutex);
  // Releases a reference to a family, or one to each of the families.
  void UnrefLocked(ColumnFamily* family) VARVE_REQUIRES(kDbMutex) {
    if (family->Unref()) BuryLocked(family);
  }
  void UnrefLocked(const std::vector<ColumnFamily*>& families)
      VARVE_REQUIRES(kDbMutex) {
    for (ColumnFamily* const family : families) UnrefLocked(family);
  }
  // Families to close and free without the mutex.
  bool HasDeadLocked() const VARVE_REQUIRES(kDbMutex) { return !dead_.empty(); }
  std::vector<std::unique_ptr<ColumnFamily>> TakeDeadLocked()
      VARVE_REQUIRES(kDbMutex) {
    return std::exchange(dead_, {});
  }
  // Returns the families that are not the default one, the dropped and the dead
  // ones too, at the end of the database.
  std::vector<std::unique_ptr<ColumnFamily>> TakeAllLocked()
      VARVE_REQUIRES(kDbMutex);

 private:
  static uint64_t BitOf(uint32_t id) { return uint64_t{1} << (id % 64); }
  void SetWaitingBits();
  ColumnFamily* Search(uint32_t id) const;

  ColumnFamily* const default_family_;
  const uint64_t db_number_;
  std::vector<ColumnFamily*> live_;
  std::vector<uint32_t> ids_;                          // Of live_.
  std::vector<std::unique_ptr<ColumnFamily>> others_;  // Owned, not dead.
  std::vector<ColumnFamily*> waiting_;  // Among others_. See MayWait.
  // The flags of util/threads/striped_count.h. So an iterator of one family
  // seldom takes the mutex because another family waits.
  std::atomic<uint64_t> waiting_bits_{0};
  std::vector<std::unique_ptr<ColumnFamily>> dead_;
};

}  // namespace varve
