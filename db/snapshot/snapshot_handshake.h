// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Hazard pointers with asymmetric fences (membarrier), used twice. A snapshot
// announces its sequence number, for which compactions must keep versions. A
// read transaction also announces the SuperVersion that it reads from. Both
// take no lock, concurrently with compactions and with installs of new
// SuperVersions. The announcing thread pays one compiler barrier for both. The
// scanning side pays with HeavyBarrier (util/threads/epoch.h).
//
// `Memory` provides the atomics and the heavy barrier. A test uses it to run
// this code through every order of all steps, with delayed stores
// (test/db/snapshot/snapshot_handshake_test.cc).
// Numbering continues that in util/threads/thread_slots.h.
//
// Words and states
//   Each snapshot has a node. `sequence` is kNoSnapshot while the node is free.
//   `pin` is the SuperVersion or null. `counted`, guarded by the DB mutex, is
//   true if the pin has its own reference.
//   Shared: `low_watermark` only rises. No compaction keeps versions for
//   snapshots below it that the compaction has not seen. `current` is the
//   SuperVersion that reads get, which holds a reference while it is current.
//   It is changed with the DB mutex held. `last_sequence` belongs to the
//   writers: it is the newest visible sequence number.
// Transitions
//   T21 take: `sequence` = last_sequence; light barrier; if low_watermark is
//       above `sequence`, repeat with a new load of last_sequence.
//   T22 pin: `pin` = current, before T21. After T21, if current has changed,
//       repin: with the DB mutex held, `pin` = current, and T21 again.
//   T23 release: `sequence` = kNoSnapshot, by any thread.
//   T24 unpin, before T23: `pin` = null; light barrier. If current is not the
//       SuperVersion that was pinned, take the DB mutex and test whether the
//       pin was counted. If so, release its reference.
//   T25 scan, by a flush or compaction that has chosen its inputs:
//       low_watermark = max(low_watermark, last_sequence); heavy barrier; load
//       each `sequence`.
//   T26 install, with the DB mutex held: current = the new SuperVersion; heavy
//       barrier; each node whose `pin` is the old one becomes counted and gets
//       a reference; then release the old one's own reference.
// Invariants
//   I21 A snapshot that T25 does not see has a number that is at least T25's
//       low_watermark. That low_watermark is at least the number of every
//       update that the job reads.
//   I22 A pinned SuperVersion is alive: it is current, or the pin is counted.
//   I23 The SuperVersion of a counted pin is never current.
//   I24 A pinned SuperVersion has all updates up to `sequence`.
//   I25 A follower's pinned SuperVersion has all that a read at `sequence`
//       needs, although its primary drops versions without seeing T21:
//       `sequence` is at least the last_sequence of that SuperVersion's T26.
// Why each order is needed
//   T21 against T25, and T22 and T24 against T26, are store-buffering pairs:
//   each side stores, passes its barrier, and loads the other side's word. The
//   heavy barrier hits the thread before its store or after it. Before: the
//   thread then loads the published value. After: the heavy side sees the
//   thread's store.
//   Stores of `sequence` and `pin` are releases, and their loads are acquires.
//   So a scanner that finds a node free or reused is ordered after all that the
//   node's last user did, such as its reads of a SuperVersion that the scanner
//   now frees.
//   low_watermark is stored with release and loaded with acquire, so that a
//   thread that sees it raised also sees a last_sequence that is at least as
//   high. current is stored with release and loaded with acquire, so that the
//   object it points to is complete.
//   I24: last_sequence is loaded (acquire) after current, and current is loaded
//   again after that. An update that is newer than the SuperVersion's memtables
//   was written after another SuperVersion was installed, and the second load
//   would see that one.
//   I25: a follower stores last_sequence before T26, so a thread that loads the
//   SuperVersion from current, or has the mutex, loads at least that number.
//   counted: guarded by the mutex. It is atomic only for the model.
// Bad interleavings prevented
//   B21 The number is announced only in a store buffer, the scan misses it, and
//       the compaction drops versions that the snapshot needs. Prevented by the
//       heavy barrier of T25.
//   B22 A thread loads the number and sleeps. Newer updates hide the versions
//       that it sees, and a compaction scans and drops these. Then the thread
//       announces the number. Prevented by low_watermark.
//   B23 The scan runs between the announcement and the check, and sees an old
//       number that the thread then gives up. This is harmless: garbage is kept
//       for one job.
//   B24 The thread loads current, which is replaced and freed before the pin is
//       seen. Prevented by the second load in T22. The thread does not
//       dereference the pointer before that.
//   B25 The pin is cleared only in a store buffer, the installer counts it, and
//       no thread releases that reference. Prevented by the second load in T24,
//       after which `counted`, read with the mutex held, shows whether the
//       installer counted the pin.
//   B26 A node is freed, and its owner takes it again, between T24's load and
//       the mutex, and a reference of the wrong user is released. Prevented
//       because T23 comes last.
//   B27 A SuperVersion is freed and another one is created at its address. T22:
//       the new one is then current, and it is pinned. T24: a counted
//       SuperVersion is not freed, so an equal address means that the pin was
//       not counted.
//   B28 In two concurrent scans, the later store lowers low_watermark below the
//       other scan's value. Prevented because compare-and-exchange raises it.
//   B29 T22 pins, a memtable is switched, and the number includes an update to
//       the new memtable. Prevented because T22 loads current after the number.
//   B30 The installer counts a pin of the new SuperVersion, and that pin's T24
//       then finds it current. Prevented because only pins of the old one are
//       counted (I23).
//   B31 A follower's thread loads the number. Then newer tables are installed,
//       for which the primary has dropped the versions of that number, and T22
//       repins them. Prevented by T21 after the repin.
// Freshness and progress
//   A snapshot sees every write that returned before the snapshot was begun.
//   T21 repeats once for each concurrent raise of low_watermark. No thread
//   waits, except for the DB mutex if a SuperVersion is being installed.
//   Stale values err on the old side: a node that is seen too long keeps
//   garbage.
// Reclamation
//   Nodes: db/snapshot/snapshot_registry.h. SuperVersions: freed after the last
//   reference.

#include <atomic>
#include <cstdint>

#include "table/block/internal_key.h"

namespace varve {

struct SuperVersion;

// The `sequence` of a free node.
inline constexpr SequenceNumber kNoSnapshot = UINT64_MAX;

template <typename Memory>
class SnapshotHandshake {
 public:
  template <typename T>
  using Atomic = typename Memory::template Atomic<T>;

  struct Words {
    Atomic<SequenceNumber> sequence{kNoSnapshot};
    Atomic<SuperVersion*> pin{nullptr};
    Atomic<bool> counted{false};
  };

  // T21. `light_barrier` must call LightBarrier on the calling thread.
  template <typename LightBarrier>
  void Take(Words* words, const Atomic<SequenceNumber>& last_sequence,
            LightBarrier light_barrier) {
    while (true) {
      // acquire: pairs with the writers' release store.
      const SequenceNumber sequence =
          last_sequence.load(std::memory_order_acquire);
      // release: pairs with the acquire of Sequence.
      words->sequence.store(sequence, std::memory_order_release);
      light_barrier();
      // acquire: pairs with the release of RaiseLowWatermark.
      if (low_watermark_.load(std::memory_order_acquire) <= sequence) return;
    }
  }

  // T22 and T21. If it returns false, the caller must call RepinLocked.
  template <typename LightBarrier>
  [[nodiscard]] bool TakePinned(Words* words,
                                const Atomic<SequenceNumber>& last_sequence,
                                LightBarrier light_barrier) {
    // acquire: pairs with the release of Publish.
    SuperVersion* const pin = current_.load(std::memory_order_acquire);
    // release: pairs with the acquire of CountLocked.
    words->pin.store(pin, std::memory_order_release);
    Take(words, last_sequence, light_barrier);
    // relaxed: only the value is compared; the pointer was acquired above.
    return current_.load(std::memory_order_relaxed) == pin;
  }

  // Does the rest of T22, with the DB mutex held. Returns a SuperVersion, a
  // reference of which the caller must release, or null.
  template <typename LightBarrier>
  [[nodiscard]] SuperVersion* RepinLocked(
      Words* words, const Atomic<SequenceNumber>& last_sequence,
      LightBarrier light_barrier) {
    SuperVersion* const counted = UncountLocked(words, Pin(*words));
    // relaxed: changed only with the mutex held. release: as in TakePinned.
    words->pin.store(current_.load(std::memory_order_relaxed),
                     std::memory_order_release);
    Take(words, last_sequence, light_barrier);  // B31
    return counted;
  }

  // T24. If it returns false, the caller must call UncountLocked with the
  // SuperVersion that was pinned.
  template <typename LightBarrier>
  [[nodiscard]] bool Unpin(Words* words, LightBarrier light_barrier) {
    SuperVersion* const pin = Pin(*words);
    // release: pairs with the acquire of CountLocked.
    words->pin.store(nullptr, std::memory_order_release);
    light_barrier();
    // relaxed: only the value is compared.
    return current_.load(std::memory_order_relaxed) == pin;
  }

  // Does the rest of T24, with the DB mutex held. Returns `pin` if the caller
  // must release a reference of it, else null.
  [[nodiscard]] SuperVersion* UncountLocked(Words* words, SuperVersion* pin) {
    // relaxed, both: guarded by the mutex.
    if (!words->counted.load(std::memory_order_relaxed)) return nullptr;
    words->counted.store(false, std::memory_order_relaxed);
    return pin;
  }

  // T23.
  static void Release(Words* words) {
    // release: pairs with the acquire of Sequence.
    words->sequence.store(kNoSnapshot, std::memory_order_release);
  }

  // T25 without the scan. Returns the last_sequence that it loaded; the
  // low_watermark is then at least that.
  // REQUIRES: the job's inputs were chosen before.
  SequenceNumber RaiseLowWatermark(
      const Atomic<SequenceNumber>& last_sequence) {
    // acquire: pairs with the writers' release store.
    const SequenceNumber sequence =
        last_sequence.load(std::memory_order_acquire);
    // relaxed: the exchange checks it again.
    SequenceNumber low_watermark =
        low_watermark_.load(std::memory_order_relaxed);
    // release: pairs with the acquire of Take. relaxed: a failure is retried.
    while (low_watermark < sequence &&
           !low_watermark_.compare_exchange_weak(low_watermark, sequence,
                                                 std::memory_order_release,
                                                 std::memory_order_relaxed)) {
    }
    Memory::HeavyBarrier();
    return sequence;
  }

  // Returns the word that the scan of T25 loads.
  static SequenceNumber Sequence(const Words& words) {
    // acquire: pairs with the releases of Take and Release.
    return words.sequence.load(std::memory_order_acquire);
  }

  // T26, with the DB mutex held, before its heavy barrier.
  void PublishLocked(SuperVersion* next) {
    // release: pairs with the acquire of TakePinned.
    current_.store(next, std::memory_order_release);
  }

  // T26, with the DB mutex held, after its heavy barrier. Returns whether the
  // node gets a reference of `old`.
  [[nodiscard]] bool CountLocked(Words* words, SuperVersion* old) {
    // acquire: pairs with the releases of TakePinned and Unpin.
    if (words->pin.load(std::memory_order_acquire) != old) return false;
    // relaxed: guarded by the mutex.
    words->counted.store(true, std::memory_order_relaxed);
    return true;
  }

  static SuperVersion* Pin(const Words& words) {
    // relaxed: the caller received the snapshot through a synchronized handoff.
    return words.pin.load(std::memory_order_relaxed);
  }
  // REQUIRES: the DB mutex is held.
  SuperVersion* CurrentLocked() const {
    // relaxed: changed only with the mutex held.
    return current_.load(std::memory_order_relaxed);
  }

 private:
  // Loaded by every begin and end of a snapshot, stored by scans and installs.
  alignas(64) Atomic<SequenceNumber> low_watermark_{0};
  Atomic<SuperVersion*> current_{nullptr};
};

}  // namespace varve
