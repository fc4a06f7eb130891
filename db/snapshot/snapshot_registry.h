// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Per-thread snapshot slots, scanned without stopping their threads, as in
// WiredTiger's session states and LMDB's reader table. The registry holds the
// live snapshots and read transactions. Only the owning thread takes a node, so
// taking one writes no cache line that another thread writes. Any thread may
// release one. db/snapshot/snapshot_handshake.h has the protocol with
// compactions and installs. This file stores the nodes.
//
// A thread finds its SnapshotThread by a slot of its record
// (util/threads/thread_slots.h). Scans find it in a list
// (util/threads/published_array.h). Only the thread accesses its free list. It
// puts the nodes there that it releases itself. When the list is empty, it
// collects from all of its nodes those that other threads released. If less
// than a quarter is free, it doubles the nodes. So taking a snapshot costs a
// few steps on average, whichever thread releases it.
//
// When a thread ends, the next thread that needs nodes gets its nodes. Nodes in
// use stay in place until they are released. Memory: a node has 64 bytes. A
// thread has at most eight nodes, or three times the most that it had in use at
// once. The memory is freed when a thread ends with no node in use.
//
// Ablation snapshots=mutex: a list guarded by the DB mutex.
//
// Thread-safety: thread-safe.

#include <time.h>

#include <atomic>
#include <cstdint>
#include <list>
#include <memory>
#include <string>
#include <vector>

#include "db/options/db_mutex.h"
#include "db/snapshot/snapshot_handshake.h"
#include "db/snapshot/super_version.h"
#include "util/base/mutex.h"
#include "util/threads/published_array.h"
#include "util/threads/thread_slots.h"
#include "varve/db.h"

namespace varve {

class SnapshotRegistry;
struct SnapshotThread;

// The handshake's memory for production: std::atomic and the real barrier.
struct RealMemory {
  template <typename T>
  using Atomic = std::atomic<T>;
  static void HeavyBarrier() { varve::HeavyBarrier(); }
};
using RealHandshake = SnapshotHandshake<RealMemory>;

// A node. Only the thread that owns the node accesses its non-atomic members.
class SnapshotImpl : public PinnedSnapshot {
 public:
  uint64_t GetSequenceNumber() const override {
    // relaxed: the caller received the snapshot through a synchronized handoff.
    return words_.sequence.load(std::memory_order_relaxed);
  }
  // Used by read transactions only.
  void End() override;
  bool IsOrphaned() const override;
  // Returns the SuperVersion that a read transaction reads from, else null.
  SuperVersion* pin() const { return RealHandshake::Pin(words_); }
  // Returns the registry, which exists until the snapshot is released.
  SnapshotRegistry* registry() const;

 private:
  friend class SnapshotRegistry;
  friend struct SnapshotThread;

  // The next member uses the padding at the end of `words_`.
  [[no_unique_address]] RealHandshake::Words words_;
  // The thread that took the snapshot, and the time by SnapshotStamp. relaxed
  // everywhere: for reports only.
  std::atomic<uint32_t> thread_id_{0};
  std::atomic<uint64_t> start_ns_{0};
  SnapshotThread* home_ = nullptr;     // Immutable.
  SnapshotImpl* next_free_ = nullptr;  // Owned by the thread.
};

// Caches the time at which the thread first took a sequence number, by
// CLOCK_MONOTONIC_COARSE. A later snapshot with the same number, with no write
// in between, gets the same time. So the clock is read only after writes.
struct SnapshotStamp {
  SequenceNumber sequence = kNoSnapshot;
  uint64_t ns = 0;

  uint64_t Of(SequenceNumber taken) {
    if (taken != sequence) [[unlikely]]
      Look(taken);
    return ns;
  }
  [[gnu::noinline]] void Look(SequenceNumber taken) {
    sequence = taken;
    ns = Now();
  }
  static uint64_t Now() {
    timespec now;
    clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    return static_cast<uint64_t>(now.tv_sec) * 1000000000 +
           static_cast<uint64_t>(now.tv_nsec);
  }
};

// The nodes of one thread in one database.
struct alignas(64) SnapshotThread {
  template <typename Function>
  void ForEach(Function function) {
    function(&first);
    more.ForEach(function);
  }

  // Usually the only node, so that a scan reads one cache line.
  SnapshotImpl first;
  PublishedArray<SnapshotImpl> more;

  SnapshotRegistry* registry = nullptr;  // Immutable.
  // Owned by the thread.
  SnapshotImpl* free = nullptr;
  SnapshotStamp stamp;
  std::vector<std::unique_ptr<SnapshotImpl[]>> chunks;  // Hold `more`.
  // Guarded by the registry's mutex.
  uint32_t thread_id = 0;
  char name[16] = {};
  bool has_thread = false;
};
static_assert(sizeof(SnapshotImpl) + sizeof(void*) <= 64);

class SnapshotRegistry final : public SlotOwner {
 public:
  // The oldest snapshot, for reports.
  struct Oldest {
    SequenceNumber sequence = kNoSnapshot;
    // Time since the thread first took this number, exact to a few
    // milliseconds.
    uint64_t age_ns = 0;
    uint32_t thread_id = 0;
    std::string thread_name;  // Empty if the thread has ended; "?" if unknown.
    SuperVersion* pin = nullptr;
  };

  // Creates a registry, which deletes itself: see Close. `mutex` is the DB
  // mutex. With `lists_snapshots`, the snapshots are in a list that `mutex`
  // guards (ablation snapshots=mutex).
  SnapshotRegistry(bool lists_snapshots, Mutex* mutex,
                   SuperVersionDisposer* disposer);
  SnapshotRegistry(const SnapshotRegistry&) = delete;
  SnapshotRegistry& operator=(const SnapshotRegistry&) = delete;

  // Sets where the writers publish the newest visible sequence number. Must be
  // called once, before Take and Scan.
  void SetLastSequence(const std::atomic<SequenceNumber>* last_sequence) {
    last_sequence_ = last_sequence;
  }

  // Takes a snapshot of the current state, with or without a pin. The caller
  // must pass it to Release.
  SnapshotImpl* Take(bool pinned) {
    ThreadRecord* const record = CurrentThreadRecord();
    SnapshotThread* mine = ThreadOf(record);
    if (mine == nullptr || mine->free == nullptr) [[unlikely]] {
      // Threads have no nodes then.
      if (lists_snapshots_) return TakeListed(pinned);
      mine = MakeFree(record);
    }
    return TakeFree(record, mine, pinned);
  }

  // Releases a snapshot. Any thread may call it, once. REQUIRES: no read of the
  // snapshot is in progress.
  void Release(SnapshotImpl* node) {
    if (lists_snapshots_) [[unlikely]] {
      ReleaseListed(node);
      return;
    }
    ThreadRecord* const record = CurrentThreadRecord();
    SuperVersion* const pin = node->pin();
    if (pin != nullptr && !handshake_.Unpin(&node->words_, [record] {
          LightBarrier(record);
        })) [[unlikely]] {
      if (!ReleaseStalePin(node, pin)) return;
    }
    SnapshotThread* const home = node->home_;
    RealHandshake::Release(&node->words_);
    if (home == ThreadOf(record)) [[likely]] {
      node->next_free_ = home->free;
      home->free = node;
    }
  }

  // Returns the numbers for which a flush or compaction must keep versions, in
  // increasing order without duplicates. Takes no lock, except with
  // snapshots=mutex. REQUIRES: the job's inputs were chosen before; the DB
  // mutex is not held.
  std::vector<SequenceNumber> Scan();
  // Returns the smallest number that Scan would return, or kNoSnapshot.
  SequenceNumber ScanOldest();

  // Return data for reports.
  size_t CountLocked() VARVE_REQUIRES(kDbMutex);
  Oldest FindOldestLocked() VARVE_REQUIRES(kDbMutex);
  // Returns the SuperVersion that the node pins if it is certainly alive, else
  // null.
  SuperVersion* PinToReportLocked(const SnapshotImpl& node)
      VARVE_REQUIRES(kDbMutex);

  // Are called before and after the barrier of an install: see T26.
  // CountPinsLocked gives a reference to each node that pins `old`.
  void PublishLocked(SuperVersion* next) VARVE_REQUIRES(kDbMutex) {
    handshake_.PublishLocked(next);
  }
  void CountPinsLocked(SuperVersion* old) VARVE_REQUIRES(kDbMutex);

  // Releases the references of all pins, because the DB is closed. Deletes the
  // registry, now or when the last read transaction has ended.
  // REQUIRES: the DB mutex is not held; no other call is in progress.
  void Close();
  // Replaces Close in a child of fork(). Releases nothing; the registry stays.
  void Abandon();

  // Returns whether Close was called.
  bool is_closed() const {
    // relaxed: no use of a transaction overlaps the Close of its DB.
    return is_closed_.load(std::memory_order_relaxed);
  }

  // Returns how often this mode's code path ran: a thread got its nodes, or a
  // snapshot took the mutex.
  uint64_t PathCount() const {
    // relaxed: a statistic.
    return path_count_.load(std::memory_order_relaxed);
  }

  void ReleaseSlotPointer(ThreadRecord* record, void* pointer) override;
  bool IsCurrent(uint64_t number) const override {
    return number == slot_number_;
  }

 private:
  Mutex* db_mutex() const VARVE_RETURN_CAPABILITY(kDbMutex) {
    return db_mutex_;
  }
  struct ListedSnapshot : SnapshotImpl {
    std::list<ListedSnapshot>::iterator position;
  };

  ~SnapshotRegistry();

  SnapshotThread* ThreadOf(ThreadRecord* record) const {
    const ThreadSlot* const slot = FindSlot(record, slot_id_);
    if (slot == nullptr) [[unlikely]]
      return nullptr;
    // relaxed: this thread stored it.
    return static_cast<SnapshotThread*>(
        slot->pointer.load(std::memory_order_relaxed));
  }
  SnapshotImpl* TakeFree(ThreadRecord* record, SnapshotThread* mine,
                         bool pinned) {
    SnapshotImpl* const node = mine->free;
    mine->free = node->next_free_;
    const auto barrier = [record] { LightBarrier(record); };
    if (!pinned) {
      handshake_.Take(&node->words_, *last_sequence_, barrier);
    } else if (!handshake_.TakePinned(&node->words_, *last_sequence_, barrier))
        [[unlikely]] {
      Repin(record, node);
    }
    // relaxed: for a report.
    node->start_ns_.store(mine->stamp.Of(node->GetSequenceNumber()),
                          std::memory_order_relaxed);
    return node;
  }
  // Returns the thread's nodes, after making sure that a free one exists.
  [[gnu::noinline, gnu::cold]] SnapshotThread* MakeFree(ThreadRecord* record);
  void GiveNodes(ThreadRecord* record) VARVE_EXCLUDES(mutex_);
  // Puts the free nodes on the free list, and returns their number.
  static size_t CollectFree(SnapshotThread* mine);
  static void Grow(SnapshotThread* mine);
  [[gnu::noinline, gnu::cold]] void Repin(ThreadRecord* record,
                                          SnapshotImpl* node);
  // Returns false if the registry was closed. The node must not be used then.
  [[gnu::noinline, gnu::cold]] bool ReleaseStalePin(SnapshotImpl* node,
                                                    SuperVersion* pin);
  SnapshotImpl* TakeListed(bool pinned);
  void ReleaseListed(SnapshotImpl* node);
  void UnrefLocked(SuperVersion* super_version) VARVE_REQUIRES(kDbMutex);
  // Ends a transaction whose DB was closed.
  void ReleaseOrphan();
  // Calls function(SnapshotThread*, SnapshotImpl*) for every node.
  template <typename Function>
  void ForEachNode(Function function) {
    threads_.ForEach([&](SnapshotThread* thread) {
      thread->ForEach([&](SnapshotImpl* node) { function(thread, node); });
    });
  }

  // Immutable after SetLastSequence.
  const bool lists_snapshots_;
  Mutex* const db_mutex_;
  SuperVersionDisposer* const disposer_;
  const std::atomic<SequenceNumber>* last_sequence_ = nullptr;
  uint32_t slot_id_ = 0;
  bool is_abandoned_ = false;
  const uint64_t slot_number_ = NewSlotNumber();

  std::atomic<bool> is_closed_{false};
  std::atomic<uint64_t> path_count_{0};

  RealHandshake handshake_;

  // Held by a thread that appends to threads_ or to a thread's nodes. So a
  // thread that iterates with the mutex held needs no read-side critical
  // section. It may then hold the DB mutex.
  Mutex mutex_;
  PublishedArray<SnapshotThread> threads_;
  std::vector<SnapshotThread*> without_thread_ VARVE_GUARDED_BY(mutex_);
  size_t orphans_ = 0;  // Guarded by mutex_ once Close was called.

  // For snapshots=mutex. Guarded by *db_mutex_; oldest first.
  std::list<ListedSnapshot> list_;
  SnapshotThread list_home_;  // Connects listed nodes to the registry.
};

inline SnapshotRegistry* SnapshotImpl::registry() const {
  return home_->registry;
}
inline void SnapshotImpl::End() { registry()->Release(this); }
inline bool SnapshotImpl::IsOrphaned() const { return registry()->is_closed(); }

}  // namespace varve
