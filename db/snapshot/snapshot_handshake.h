// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// How a snapshot is taken without a lock while compactions and new
// SuperVersions come and go. It is the announcement of hazard pointers, made
// twice: of a sequence number, which compactions must keep versions for, and
// of the SuperVersion that a read transaction reads from. The thread that
// announces pays one compiler barrier for both; the other side pays, by
// HeavyBarrier (util/threads/epoch.h).
//
// `Memory` brings the atomics and the heavy barrier, so that a test can run
// this very code through every order of all steps, with stores that are seen
// late (test/db/snapshot/snapshot_handshake_test.cc).
// Numbering continues that of util/threads/thread_slots.h.
//
// Words and states
//   Of a snapshot's node: `sequence`, kNoSnapshot while it is free; `pin`, the
//   SuperVersion or null; `counted`, guarded by the DB mutex: the pin has a
//   reference of its own.
//   Shared: `low_watermark`, which only rises: no compaction keeps versions for
//   snapshots below it that it has not seen. `current`, the SuperVersion that
//   reads get, which holds a reference for as long as it is that; changed with
//   the DB mutex held. `last_sequence`, the writers': the newest visible one.
// Transitions
//   T21 take: `sequence` = last_sequence; light barrier; if low_watermark is
//       above it, once more with the last_sequence of now.
//   T22 pin: `pin` = current, before T21; after it, if current is another one,
//       repin: with the DB mutex held, `pin` = current.
//   T23 release: `sequence` = kNoSnapshot, by any thread.
//   T24 unpin, before T23: `pin` = null; light barrier; if current is not what
//       was pinned, with the DB mutex held, see whether it was counted, and if
//       so, release that reference.
//   T25 scan, by a flush or compaction that has chosen what it reads:
//       low_watermark = last_sequence if that is more; heavy barrier; look at
//       each `sequence`.
//   T26 install, with the DB mutex held: current = the new one; heavy barrier;
//       each node whose `pin` is the old one is counted and gets a reference;
//       then the old one's own reference is released.
// Invariants
//   I21 a snapshot that T25 does not see has a number of at least its
//       low_watermark, which is at least that of every update that the job
//       reads.
//   I22 what is pinned is alive: it is current, or counted.
//   I23 a counted pin is never current.
//   I24 a pinned SuperVersion has all updates up to `sequence`.
// Why each order is needed
//   T21 against T25, T22 and T24 against T26 are store-buffering pairs: each
//   side stores, passes its barrier, and loads what the other one stored. The
//   heavy barrier hits the thread before its store or after: before, then the
//   thread loads what was published; after, then its store is seen.
//   A store of `sequence` or `pin` is a release, and their loads acquire: a
//   scanner that finds a node free, or used anew, has all that its last user
//   did behind it, as the reads of a SuperVersion that it now frees.
//   low_watermark is stored by a release and loaded by an acquire, so that the
//   thread that sees it raised sees a last_sequence at least as high. current
//   likewise: what it points to is complete.
//   I24: last_sequence is loaded (acquire) after current, and current once more
//   after that. What is newer than the SuperVersion's memtables was written
//   after another one was installed, hence that would be seen.
//   counted: guarded by the mutex; an atomic for the model's sake only.
// Bad interleavings prevented
//   B21 the number is announced in a store buffer only, the scan misses it, and
//       the compaction drops what the snapshot needs: heavy barrier of T25.
//   B22 the number is read, the thread sleeps, newer updates hide what it sees,
//       a compaction scans and drops that; then the thread announces:
//       low_watermark.
//   B23 the scan comes between the announcement and the check: it sees an old
//       number that the thread then gives up. Garbage is kept for one job.
//   B24 the thread loads current, which is replaced and freed before the pin is
//       seen: the second look of T22. It does not follow the pointer before.
//   B25 the pin is cleared in a store buffer only, the installer counts it, and
//       nobody releases that reference: the second look of T24, after which
//       the mutex says what the installer did.
//   B26 a node is freed, and taken anew by its owner, between T24's look and
//       the mutex, and the wrong user's reference is released: T23 comes last.
//   B27 a SuperVersion is freed and another made at its address. T22: then that
//       one is current, and pinned. T24: what is counted is not freed, so an
//       equal address means that nothing was counted.
//   B28 two scans at once, and the later store lowers low_watermark below the
//       other one's: it is raised by compare-and-exchange.
//   B29 T22 pins, a memtable is switched, and the number includes an update to
//       the new one: the look at current comes after the number.
//   B30 the installer counts a pin of the new SuperVersion, whose T24 then
//       finds it current: only pins of the old one are counted (I23).
// Freshness and progress
//   A snapshot sees every write that returned before it was begun. T21 is
//   repeated once for each low_watermark that is raised meanwhile; nobody
//   waits, but for the DB mutex when a SuperVersion is installed in that
//   moment.
//   What is late errs to the old side: a node seen too long keeps garbage.
// Reclamation
//   Nodes: db/snapshot/snapshot_registry.h. SuperVersions: by the last
//   reference.

#include <atomic>
#include <cstdint>

#include "table/block/internal_key.h"

namespace varve {

struct SuperVersion;

// The `sequence` of a node that is free.
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

  // T21. light_barrier() is LightBarrier, by the calling thread.
  template <typename LightBarrier>
  void Take(Words* words, const Atomic<SequenceNumber>& last_sequence,
            LightBarrier light_barrier) {
    while (true) {
      // acquire: pairs with the release by which the writers store it.
      const SequenceNumber sequence =
          last_sequence.load(std::memory_order_acquire);
      // release: pairs with the acquire of Sequence.
      words->sequence.store(sequence, std::memory_order_release);
      light_barrier();
      // acquire: pairs with the release of RaiseLowWatermark.
      if (low_watermark_.load(std::memory_order_acquire) <= sequence) return;
    }
  }

  // T22 and T21. False: the caller goes on with RepinLocked.
  template <typename LightBarrier>
  [[nodiscard]] bool TakePinned(Words* words,
                                const Atomic<SequenceNumber>& last_sequence,
                                LightBarrier light_barrier) {
    // acquire: pairs with the release of Publish.
    SuperVersion* const pin = current_.load(std::memory_order_acquire);
    // release: pairs with the acquire of CountLocked.
    words->pin.store(pin, std::memory_order_release);
    Take(words, last_sequence, light_barrier);
    // relaxed: the value alone counts; the pointer was acquired above.
    return current_.load(std::memory_order_relaxed) == pin;
  }

  // The rest of T22, with the DB mutex held. Returns a SuperVersion of which
  // the caller releases a reference, or null.
  [[nodiscard]] SuperVersion* RepinLocked(Words* words) {
    SuperVersion* const counted = UncountLocked(words, Pin(*words));
    // relaxed: changed under the mutex only. release: as in TakePinned.
    words->pin.store(current_.load(std::memory_order_relaxed),
                     std::memory_order_release);
    return counted;
  }

  // T24. False: the caller goes on with UncountLocked of what was pinned.
  template <typename LightBarrier>
  [[nodiscard]] bool Unpin(Words* words, LightBarrier light_barrier) {
    SuperVersion* const pin = Pin(*words);
    // release: pairs with the acquire of CountLocked.
    words->pin.store(nullptr, std::memory_order_release);
    light_barrier();
    // relaxed: for its value only.
    return current_.load(std::memory_order_relaxed) == pin;
  }

  // The rest of T24, with the DB mutex held: `pin`, if the caller has to
  // release a reference of it, else null.
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

  // T25 but for the scan. To be called after what the job reads was chosen;
  // returns the low_watermark.
  SequenceNumber RaiseLowWatermark(
      const Atomic<SequenceNumber>& last_sequence) {
    // acquire: pairs with the release by which the writers store it.
    const SequenceNumber sequence =
        last_sequence.load(std::memory_order_acquire);
    // relaxed: the exchange looks again.
    SequenceNumber low_watermark =
        low_watermark_.load(std::memory_order_relaxed);
    // release: pairs with the acquire of Take. relaxed: it is tried again.
    while (low_watermark < sequence &&
           !low_watermark_.compare_exchange_weak(low_watermark, sequence,
                                                 std::memory_order_release,
                                                 std::memory_order_relaxed)) {
    }
    Memory::HeavyBarrier();
    return sequence;
  }

  // What the scan of T25 looks at.
  static SequenceNumber Sequence(const Words& words) {
    // acquire: pairs with the releases of Take and Release.
    return words.sequence.load(std::memory_order_acquire);
  }

  // T26, with the DB mutex held: before its heavy barrier.
  void PublishLocked(SuperVersion* next) {
    // release: pairs with the acquire of TakePinned.
    current_.store(next, std::memory_order_release);
  }

  // T26, with the DB mutex held, after its heavy barrier: whether the node gets
  // a reference of `old`.
  [[nodiscard]] bool CountLocked(Words* words, SuperVersion* old) {
    // acquire: pairs with the releases of TakePinned and Unpin.
    if (words->pin.load(std::memory_order_acquire) != old) return false;
    // relaxed: guarded by the mutex.
    words->counted.store(true, std::memory_order_relaxed);
    return true;
  }

  static SuperVersion* Pin(const Words& words) {
    // relaxed: for those to whom the snapshot was handed on.
    return words.pin.load(std::memory_order_relaxed);
  }
  // With the DB mutex held.
  SuperVersion* CurrentLocked() const {
    // relaxed: changed under the mutex only.
    return current_.load(std::memory_order_relaxed);
  }

 private:
  // Read by everyone who begins or ends; written by scans and installs.
  alignas(64) Atomic<SequenceNumber> low_watermark_{0};
  Atomic<SuperVersion*> current_{nullptr};
};

}  // namespace varve
