// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Gives reads their SuperVersion. Each thread keeps a reference to the current
// one in a slot of its own, with the number under which it is current: a read
// then takes no lock, and writes nothing that another thread reads or writes.
//
// The protocol, its invariants and the interleavings that it must stand are
// those of util/threads/thread_slots.h; here is what it protects. The number
// that slots are held against is `current_number_`, written by Install with the
// DB mutex held. A read that nests inside another one of its thread and finds
// the slot stale takes a reference of its own, since the outer read is still
// using what the slot points to.
//
// Source of the idea: "Avoid expensive locks in Get()", RocksDB blog, 2014;
// the slots here are validated by a number of their own, and are emptied while
// their threads are idle.
//
// Alternatives measured: docs/read_path.md.
//
// Thread-safety: thread-safe.

#include <atomic>
#include <cstdint>

#include "db/snapshot/snapshot_registry.h"
#include "db/snapshot/super_version.h"
#include "util/base/mutex.h"
#include "util/threads/thread_slots.h"

namespace varve {

class SuperVersionCache final : public SlotOwner {
 public:
  // A read: inside a read section, with a SuperVersion to read from.
  struct Read {
    SuperVersion* super_version;
    ThreadRecord* record;
    bool counted;  // The read has a reference of its own.
  };

  // `locks_reads`: each read takes the mutex for a reference
  // (superversion=mutex). `mutex` is the DB's; the disposer is called with it
  // held. `snapshots` may pin what is installed. All must outlive this.
  SuperVersionCache(bool locks_reads, Mutex* mutex,
                    SuperVersionDisposer* disposer,
                    SnapshotRegistry* snapshots);
  SuperVersionCache(const SuperVersionCache&) = delete;
  SuperVersionCache& operator=(const SuperVersionCache&) = delete;
  // Close was called.
  ~SuperVersionCache() = default;

  // Begins a read. REQUIRES: the DB mutex is not held by the caller.
  Read Begin() {
    ThreadRecord* const record = CurrentThreadRecord();
    ReadSection::Enter(record);
    ThreadSlot* const slot = SlotOf(record, slot_id_);
    // relaxed, both: see T12 in util/threads/thread_slots.h.
    if (slot->number.load(std::memory_order_relaxed) ==
        current_number_.load(std::memory_order_relaxed)) [[likely]] {
      // relaxed: this thread stored it.
      auto* const pointer = static_cast<SuperVersion*>(
          slot->pointer.load(std::memory_order_relaxed));
      return Read{pointer, record, false};
    }
    return BeginStale(record, slot);
  }

  // The same from what a read transaction has pinned.
  static Read BeginPinned(SuperVersion* pin) {
    ThreadRecord* const record = CurrentThreadRecord();
    ReadSection::Enter(record);
    return Read{pin, record, false};
  }

  // Ends it. What was read inside may be gone afterwards. False if the database
  // was closed before: what was read does not count.
  bool End(const Read& read) {
    if (read.counted) [[unlikely]]
      return EndCounted(read);
    if (ReadSection::Exit(read.record)) ReadSection::CheckSlots(read.record);
    return true;
  }

  // A counted reference to the current one, for what outlives a read. To be
  // given back to Release.
  SuperVersion* Reference();
  void Release(SuperVersion* super_version);

  // Makes `next`, of which it takes over the reference, the current one. On
  // return no thread that is not inside a read holds on to the one before.
  void InstallLocked(SuperVersion* next);

  // Null before the first install.
  SuperVersion* current() const { return current_; }

  // Empties all slots, and disposes of the current one. REQUIRES: all reads
  // have ended; the mutex is not held.
  void Close();
  // In place of Close, in a child made by fork(): nothing is given back.
  void Abandon();

  // How often a read took the mutex.
  uint64_t LockedAcquires() const {
    // relaxed: a statistic.
    return locked_acquires_.load(std::memory_order_relaxed);
  }
  // Counts what only this variant does: slots that were filled, or, if it locks
  // reads, acquisitions of the mutex.
  uint64_t WitnessCount() const {
    // relaxed: a statistic.
    return locks_reads_ ? LockedAcquires()
                        : filled_slots_.load(std::memory_order_relaxed);
  }

  void ReleaseSlotPointer(void* pointer) override {
    if (!is_abandoned_) Release(static_cast<SuperVersion*>(pointer));
  }
  bool IsCurrent(uint64_t number) const override {
    // relaxed: see T12 in util/threads/thread_slots.h.
    return number == current_number_.load(std::memory_order_relaxed);
  }

 private:
  [[gnu::noinline]] Read BeginStale(ThreadRecord* record, ThreadSlot* slot);
  [[gnu::noinline]] bool EndCounted(const Read& read);
  void UnrefLocked(void* pointer) VARVE_REQUIRES(mutex_);

  // Immutable after construction.
  const bool locks_reads_;
  Mutex* const mutex_;
  SuperVersionDisposer* const disposer_;
  SnapshotRegistry* const snapshots_;
  uint32_t slot_id_ = 0;
  bool is_abandoned_ = false;

  // Guarded by mutex_.
  SuperVersion* current_ = nullptr;

  // Read by every read, written by installs: on a line of its own.
  alignas(64) std::atomic<uint64_t> current_number_{0};
  alignas(64) std::atomic<uint64_t> locked_acquires_{0};
  std::atomic<uint64_t> filled_slots_{0};
};

}  // namespace varve
