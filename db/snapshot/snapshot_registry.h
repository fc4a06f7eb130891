// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// The snapshots and read transactions that are out. Each thread has nodes of
// its own, which only it takes, so that taking one writes no line that another
// thread writes; any thread may release one. How that goes together with
// compactions and installs is in db/snapshot/snapshot_handshake.h; here is
// where the nodes are.
//
// A thread's SnapshotThread is found by a slot of its record
// (util/threads/thread_slots.h) and in a list that scans walk
// (util/threads/published_array.h). Its free nodes are on a list that it alone
// touches: it puts back what it releases itself. What others release it finds
// when the list is empty, by looking at all of its nodes; if less than a
// quarter is free then, it makes as many again. So taking a snapshot is a few
// steps, on average, whoever releases them. When a thread ends, the next one
// that needs nodes gets them, with those that are still out; they stay where
// they are until they are released. Memory: a thread's nodes, 64 bytes each,
// are at most eight, or three times as many as it ever had out at once, and go
// back when it ends with none out.
//
// Ablation snapshots=mutex: a list under the DB mutex.
//
// Source of the idea: the states of WiredTiger's sessions and LMDB's table of
// readers, which are arrays that are scanned without stopping anybody.
//
// Thread-safety: thread-safe.

#include <time.h>

#include <atomic>
#include <cstdint>
#include <list>
#include <memory>
#include <string>
#include <vector>

#include "db/snapshot/snapshot_handshake.h"
#include "db/snapshot/super_version.h"
#include "util/base/mutex.h"
#include "util/threads/published_array.h"
#include "util/threads/thread_slots.h"
#include "varve/db.h"

namespace varve {

class SnapshotRegistry;
struct SnapshotThread;

// The handshake's memory as it is.
struct RealMemory {
  template <typename T>
  using Atomic = std::atomic<T>;
  static void HeavyBarrier() { varve::HeavyBarrier(); }
};
using RealHandshake = SnapshotHandshake<RealMemory>;

// A node. What is not atomic belongs to the thread whose node it is.
class SnapshotImpl : public PinnedSnapshot {
 public:
  uint64_t GetSequenceNumber() const override {
    // relaxed: the caller was handed the snapshot.
    return words_.sequence.load(std::memory_order_relaxed);
  }
  // Of a read transaction.
  void End() override;
  bool IsOrphaned() const override;
  // Of a read transaction, what it reads from; else null.
  SuperVersion* pin() const { return RealHandshake::Pin(words_); }
  // Its registry is there as long as it is out.
  SnapshotRegistry* registry() const;

 private:
  friend class SnapshotRegistry;
  friend struct SnapshotThread;

  // The next one fits behind its last byte.
  [[no_unique_address]] RealHandshake::Words words_;
  // The thread that took it, and when: see SnapshotStamp. relaxed everywhere:
  // for a report.
  std::atomic<uint32_t> thread_id_{0};
  std::atomic<uint64_t> start_ns_{0};
  SnapshotThread* home_ = nullptr;     // Immutable.
  SnapshotImpl* next_free_ = nullptr;  // Owned by the thread.
};

// When a sequence number was first taken, by CLOCK_MONOTONIC_COARSE: a snapshot
// taken later, with nothing written in between, is of the same moment. So the
// clock is looked at only after writes.
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

// A thread's nodes in one database.
struct alignas(64) SnapshotThread {
  template <typename Function>
  void ForEach(Function function) {
    function(&first);
    more.ForEach(function);
  }

  // What a scan looks at, in most cases: one line.
  SnapshotImpl first;
  PublishedArray<SnapshotImpl> more;

  SnapshotRegistry* registry = nullptr;  // Immutable.
  // Owned by the thread.
  SnapshotImpl* free = nullptr;
  SnapshotStamp stamp;
  std::vector<std::unique_ptr<SnapshotImpl[]>> chunks;  // Of `more`.
  // Guarded by the registry's mutex.
  uint32_t thread_id = 0;
  char name[16] = {};
  bool has_thread = false;
};
static_assert(sizeof(SnapshotImpl) + sizeof(void*) <= 64);

class SnapshotRegistry final : public SlotOwner {
 public:
  // What the oldest snapshot is, for a report.
  struct Oldest {
    SequenceNumber sequence = kNoSnapshot;
    // Since the thread first took one of this number; a few milliseconds more
    // or less.
    uint64_t age_ns = 0;
    uint32_t thread_id = 0;
    std::string thread_name;  // Empty if it has ended; "?" if unknown.
    SuperVersion* pin = nullptr;
  };

  // Deletes itself: see Close. `lists_snapshots`: they are in a list under
  // `mutex`, which is the DB's (snapshots=mutex).
  SnapshotRegistry(bool lists_snapshots, Mutex* mutex,
                   SuperVersionDisposer* disposer);
  SnapshotRegistry(const SnapshotRegistry&) = delete;
  SnapshotRegistry& operator=(const SnapshotRegistry&) = delete;

  // The writers' newest visible number. To be called once, before Take and
  // Scan.
  void SetLastSequence(const std::atomic<SequenceNumber>* last_sequence) {
    last_sequence_ = last_sequence;
  }

  // A snapshot of now, with or without a pin. To be given back to Release.
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

  // By any thread, once, with no read at the snapshot under way.
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

  // For a flush or compaction that has chosen what it reads: the numbers that
  // versions are to be kept for, rising, each once. Takes no lock, but for
  // snapshots=mutex. REQUIRES: the DB mutex is not held.
  std::vector<SequenceNumber> Scan();
  // The least of them; kNoSnapshot if there is none.
  SequenceNumber ScanOldest();

  // For reports, with the DB mutex held.
  size_t CountLocked();
  Oldest FindOldestLocked();
  // What the node pins, if it is sure to live; else null.
  SuperVersion* PinToReportLocked(const SnapshotImpl& node);

  // Around the barrier of an install: see T26. The second one gives nodes that
  // pin `old` a reference.
  void PublishLocked(SuperVersion* next) { handshake_.PublishLocked(next); }
  void CountPinsLocked(SuperVersion* old);

  // The DB is gone: releases what pins hold. Deletes the registry, now or when
  // the last read transaction has ended.
  // REQUIRES: the DB mutex is not held; no other call is under way.
  void Close();
  // In place of Close, in a child made by fork(): nothing is given back, and
  // the registry stays.
  void Abandon();

  // Whether Close was called.
  bool is_closed() const {
    // relaxed: no use of a transaction overlaps the end of its DB.
    return is_closed_.load(std::memory_order_relaxed);
  }

  // Counts what only this variant does: nodes that were given to a thread, or
  // acquisitions of the mutex.
  uint64_t WitnessCount() const {
    // relaxed: a statistic.
    return witness_count_.load(std::memory_order_relaxed);
  }

  void ReleaseSlotPointer(void* pointer) override;
  bool IsCurrent(uint64_t number) const override {
    return number == slot_number_;
  }

 private:
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
      Repin(node);
    }
    // relaxed: for a report.
    node->start_ns_.store(mine->stamp.Of(node->GetSequenceNumber()),
                          std::memory_order_relaxed);
    return node;
  }
  // The thread's nodes, its list of free ones not empty.
  [[gnu::noinline, gnu::cold]] SnapshotThread* MakeFree(ThreadRecord* record);
  void GiveNodes(ThreadRecord* record) VARVE_EXCLUDES(mutex_);
  // Puts what is free on the list; returns how many.
  static size_t CollectFree(SnapshotThread* mine);
  static void Grow(SnapshotThread* mine);
  [[gnu::noinline, gnu::cold]] void Repin(SnapshotImpl* node);
  // False if the registry has been closed: the node is then done with.
  [[gnu::noinline, gnu::cold]] bool ReleaseStalePin(SnapshotImpl* node,
                                                    SuperVersion* pin);
  SnapshotImpl* TakeListed(bool pinned);
  void ReleaseListed(SnapshotImpl* node);
  void UnrefLocked(SuperVersion* super_version);
  // After the end of a transaction whose DB is gone.
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
  std::atomic<uint64_t> witness_count_{0};

  RealHandshake handshake_;

  // Held by whoever appends to threads_ or to a thread's nodes, so that those
  // who walk with it held need no read section: the DB mutex may be.
  Mutex mutex_;
  PublishedArray<SnapshotThread> threads_;
  std::vector<SnapshotThread*> without_thread_ VARVE_GUARDED_BY(mutex_);
  size_t orphans_ = 0;  // Guarded by mutex_ once Close was called.

  // snapshots=mutex. Guarded by *db_mutex_; oldest first.
  std::list<ListedSnapshot> list_;
  SnapshotThread list_home_;  // For what leads from a node to the registry.
};

inline SnapshotRegistry* SnapshotImpl::registry() const {
  return home_->registry;
}
inline void SnapshotImpl::End() { registry()->Release(this); }
inline bool SnapshotImpl::IsOrphaned() const { return registry()->is_closed(); }

}  // namespace varve
