// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// The parts of tables that are in memory (table_parts.h), for all tables that
// share a block cache. They are charged to it and may take half of it.
// CLOCK selects the parts that are evicted.
//
// A slot of a table is null, or points to a part that is in the ring.
// Transitions
//   T1 Insert stores a part in an empty slot with release, with the mutex held.
//   T2 A reader loads a slot with acquire, inside a read-side critical section,
//      and may take a reference to the part there.
//   T3 Insert and Erase store null, with the mutex held. The ring's reference
//      is retired after the mutex is released.
// Invariants
//   I1 A part that a reader got by T2 is not freed before its section ends, nor
//      while a reference remains.
//   I2 A part in no ring is in no slot.
// Why each order is needed
//   T1 pairs with T2: the reader sees the whole part. T3 needs no order of its
//   own, because Retire begins with a barrier that all sections pass.
// Bad interleavings prevented
//   B1 Two threads load one part. With the mutex held, the second finds the
//      slot taken, uses that part, and frees its own.
//   B2 A part is evicted while a reader takes a reference to it. The reference
//      of the ring lives until the reader's section ends.
//
// Thread-safety: thread-safe.

#include <atomic>
#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "table/cache/block_cache.h"
#include "util/base/mutex.h"

namespace varve {

class TablePart;
using PartSlot = std::atomic<TablePart*>;

class PartCache {
 public:
  // Returns the cache of a block cache. Thread-safe.
  static std::shared_ptr<PartCache> Of(BlockCache* charged) {
    return charged->Parts(
        [charged] { return std::make_shared<PartCache>(charged); });
  }
  // `charged` must outlive it, unless a shared_ptr owns it.
  explicit PartCache(BlockCache* charged)
      : charged_(charged), owner_(charged->weak_from_this().lock()) {}
  PartCache(const PartCache&) = delete;
  PartCache& operator=(const PartCache&) = delete;
  // REQUIRES: Erase was called for all slots, so that nothing is charged. Takes
  // no mutex: it may be called by a deleter (util/threads/epoch.h).
  ~PartCache() = default;

  // Puts a part into the slot, and evicts others. Returns the part that is in
  // the slot, which is another one if a thread was faster.
  std::shared_ptr<TablePart> Insert(PartSlot* slot,
                                    std::shared_ptr<TablePart> part)
      VARVE_EXCLUDES(mutex_);
  // Empties the slots of a table.
  void Erase(std::span<PartSlot> slots) VARVE_EXCLUDES(mutex_);
  // Returns the bytes of all parts.
  size_t ApproximateMemoryUsage() const VARVE_EXCLUDES(mutex_);

 private:
  struct Entry {
    PartSlot* slot;
    std::shared_ptr<TablePart> part;
  };
  using Parts = std::vector<std::shared_ptr<TablePart>>;

  // Evicts parts other than `newest` until the rest takes at most half of the
  // block cache. The caller retires them without the mutex.
  void MakeSpace(const TablePart* newest, Parts* evicted)
      VARVE_REQUIRES(mutex_);
  void RemoveAt(size_t place, Parts* evicted) VARVE_REQUIRES(mutex_);
  // Charges what the parts take, in steps.
  void Charge() VARVE_REQUIRES(mutex_);

  BlockCache* const charged_;
  // Parts that are retired may outlive their database.
  const std::shared_ptr<BlockCache> owner_;
  mutable Mutex mutex_;
  std::vector<Entry> ring_ VARVE_GUARDED_BY(mutex_);
  size_t hand_ VARVE_GUARDED_BY(mutex_) = 0;
  size_t bytes_ VARVE_GUARDED_BY(mutex_) = 0;
  size_t charged_bytes_ VARVE_GUARDED_BY(mutex_) = 0;
};

}  // namespace varve
