// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include "db/memtable/memtable.h"
#include "db/version/version.h"

namespace varve {

// All that a read needs, as it was at some moment: the memtable, the
// memtables that wait for their flush, and the tables. Immutable.
//
// Thread-safety: references are counted atomically; the rest never changes.
struct SuperVersion {
  MemTable* memtable = nullptr;
  std::vector<MemTable*> immutable;  // Newest first.
  Version* version = nullptr;
  bool closed = false;  // Reads are errors: the database was closed.
  uint64_t number = 0;  // Not 0 once it is installed, and no other's ever.

  // Looks through the memtables, newest first.
  LookupState Find(const TableLookup& lookup, ReadTarget* target) const {
    LookupState state = FindIn(*memtable, lookup, target);
    for (const MemTable* older : immutable) {
      if (state != LookupState::kNotFound) break;
      state = FindIn(*older, lookup, target);
    }
    return state;
  }
  // Starts loading what Find will read.
  void Prefetch(uint64_t hash) const {
    memtable->Prefetch(hash);
    for (const MemTable* older : immutable) older->Prefetch(hash);
  }

  void Ref() {
    // relaxed: the caller holds a reference, or the DB mutex does for it.
    refs.fetch_add(1, std::memory_order_relaxed);
  }
  // True if that was the last reference. The caller then hands it to
  // DBImpl::CleanUpSuperVersion, which takes the DB mutex.
  [[nodiscard]] bool Unref() {
    // acq_rel pairs with itself: all reads come before the clean-up.
    return refs.fetch_sub(1, std::memory_order_acq_rel) == 1;
  }

  std::atomic<int> refs{1};

 private:
  static LookupState FindIn(const MemTable& table, const TableLookup& lookup,
                            ReadTarget* target) {
    Slice value;
    const LookupState state =
        table.Find(lookup.user_key, lookup.sequence, lookup.hash, &value);
    if (state == LookupState::kFound) target->SetCopy(value);
    return state;
  }
};

// What to do with a SuperVersion that nobody refers to any more. With the DB
// mutex held.
class SuperVersionDisposer {
 public:
  // Lets go of what it holds, and collects what is then to be freed.
  virtual void DisposeLocked(SuperVersion* super_version) = 0;
  // A reader has let go of the last reference: what was collected is to be
  // freed on another thread.
  virtual void FreeLaterLocked() = 0;

 protected:
  ~SuperVersionDisposer() = default;
};

}  // namespace varve
