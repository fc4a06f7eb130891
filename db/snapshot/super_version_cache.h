// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Thread-local cached SuperVersion, validated by number. Each thread keeps a
// counted reference to the current SuperVersion in its own slot, with that
// SuperVersion's number. A read whose slot has the current number takes no lock
// and writes nothing that other threads read or write.
//
// util/threads/thread_slots.h has the protocol, its invariants and the bad
// interleavings. This file says what the slots protect. Reads compare the
// number in their slot with `current_number_`, which Install writes with the DB
// mutex held. A nested read that finds the slot stale takes its own reference,
// because the outer read of the thread still uses the slot's pointer.
//
// Source: "Avoid expensive locks in Get()", RocksDB blog, 2014. Here a number
// validates a slot, and slots of idle threads are emptied on install.
//
// Alternatives measured: docs/results/read_path.md.
//
// Thread-safety: thread-safe.

#include <atomic>
#include <cstdint>

#include "db/options/db_mutex.h"
#include "db/snapshot/snapshot_registry.h"
#include "db/snapshot/super_version.h"
#include "util/base/mutex.h"
#include "util/threads/thread_slots.h"

namespace varve {

class SuperVersionCache final : public SlotOwner {
 public:
  // A read in progress: its thread is inside a read-side critical section, in
  // which `super_version` is valid.
  struct Read {
    SuperVersion* super_version;
    ThreadRecord* record;
    bool counted;  // Whether the read holds its own reference.
  };

  // With `locks_reads`, each read takes the mutex to get a reference (ablation
  // superversion=mutex). `mutex` is the DB mutex. It is held when the disposer
  // is called. `snapshots`, if not null, may pin installed SuperVersions. All
  // arguments must outlive this object.
  SuperVersionCache(bool locks_reads, Mutex* mutex,
                    SuperVersionDisposer* disposer,
                    SnapshotRegistry* snapshots);
  SuperVersionCache(const SuperVersionCache&) = delete;
  SuperVersionCache& operator=(const SuperVersionCache&) = delete;
  // REQUIRES: Close was called.
  ~SuperVersionCache() = default;

  // Begins a read. REQUIRES: the caller does not hold the DB mutex.
  Read Begin() {
    ThreadRecord* const record = CurrentThreadRecord();
    EpochGuard::Enter(record);
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

  // Begins a read of the SuperVersion that a read transaction has pinned.
  static Read BeginPinned(SuperVersion* pin) {
    ThreadRecord* const record = CurrentThreadRecord();
    EpochGuard::Enter(record);
    return Read{pin, record, false};
  }

  // Ends a read. Memory that the read borrowed may be freed afterwards. Returns
  // false if the database was closed before the read: its result is invalid.
  bool End(const Read& read) {
    if (read.counted) [[unlikely]]
      return EndCounted(read);
    if (EpochGuard::Exit(read.record)) EpochGuard::CheckSlots(read.record);
    return true;
  }

  // Returns a counted reference to the current SuperVersion, for an object that
  // outlives a read. The caller must pass it to Release.
  SuperVersion* Reference();
  void Release(SuperVersion* super_version);
  // Releases a reference of a stripe.
  void Release(SuperVersion* super_version, uint32_t stripe) {
    if (super_version->refs.Unref(stripe)) [[unlikely]]
      DisposeUnlocked(super_version);
  }
  // Does Release with the mutex held. The caller has the memory freed.
  void ReleaseLocked(SuperVersion* super_version) VARVE_REQUIRES(kDbMutex) {
    UnrefLocked(super_version);
  }

  // Makes `next` the current SuperVersion, and takes over the caller's
  // reference. On return, the slot of a thread that is outside a read does not
  // hold the previous one.
  void InstallLocked(SuperVersion* next) VARVE_REQUIRES(kDbMutex);

  // Returns the current SuperVersion, or null before the first install.
  SuperVersion* current() const { return current_; }

  // Empties all slots and disposes of the current SuperVersion. REQUIRES: all
  // reads have ended; the mutex is not held.
  void Close();
  // Replaces Close in a child of fork(). Releases nothing.
  void Abandon();

  // Returns how many reads took the mutex.
  uint64_t LockedAcquires() const {
    // relaxed: a statistic.
    return locked_acquires_.load(std::memory_order_relaxed);
  }
  // Returns how often this mode's code path ran: a slot was filled, or a read
  // took the mutex.
  uint64_t PathCount() const {
    // relaxed: a statistic.
    return locks_reads_ ? LockedAcquires()
                        : filled_slots_.load(std::memory_order_relaxed);
  }

  void ReleaseSlotPointer(ThreadRecord* record, void* pointer) override {
    if (!is_abandoned_) {
      Release(static_cast<SuperVersion*>(pointer), record->stripe);
    }
  }
  bool IsCurrent(uint64_t number) const override {
    // relaxed: see T12 in util/threads/thread_slots.h.
    return number == current_number_.load(std::memory_order_relaxed);
  }

 private:
  Mutex* mutex() const VARVE_RETURN_CAPABILITY(kDbMutex) { return mutex_; }
  [[gnu::noinline]] Read BeginStale(ThreadRecord* record, ThreadSlot* slot);
  [[gnu::noinline]] bool EndCounted(const Read& read);
  [[gnu::noinline]] void DisposeUnlocked(SuperVersion* super_version)
      VARVE_EXCLUDES(kDbMutex);
  void UnrefLocked(SuperVersion* super_version) VARVE_REQUIRES(kDbMutex);
  // Releases the reference of a thread's slot, if it had one.
  void UnrefSlotLocked(const ThreadRecord* record, void* pointer)
      VARVE_REQUIRES(kDbMutex);

  // Immutable after construction.
  const bool locks_reads_;
  Mutex* const mutex_;  // The DB's.
  SuperVersionDisposer* const disposer_;
  SnapshotRegistry* const snapshots_;
  uint32_t slot_id_ = 0;
  bool is_abandoned_ = false;

  // Guarded by mutex_.
  SuperVersion* current_ = nullptr;

  // Loaded by every read and stored by installs, so on its own cache line.
  alignas(64) std::atomic<uint64_t> current_number_{0};
  alignas(64) std::atomic<uint64_t> locked_acquires_{0};
  std::atomic<uint64_t> filled_slots_{0};
};

}  // namespace varve
