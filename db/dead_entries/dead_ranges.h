// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Remembers ranges of user keys in which nothing is live, so that the next walk
// steps over each in one move, however many deletions it has. A queue in a
// database is read this way: its beginning is a growing run of deleted keys.
//
// What is remembered is a fact about the data, not about memtables or tables.
// So it survives flushes and compactions. Only a write of a value into the
// range ends it.
//
// Thread-safety: any thread may call Find. The other functions are for the
// leader of the write queue.
//
// *Words and states.* `current_` points to an immutable set of ranges, or is
// null if there are none. A range has two bounds and a sequence number S. It is
// *known* or a *candidate*. Known: no key in it is live for a reader at S or
// later, up to the present. Candidate: no value was written into it since the
// write with number S. Nothing is said about values from before that. `last` is
// the last sequence number that is visible (db/write/publication_order.h).
//
// *Transitions.*
// T1 cut: before a leader publishes the number Q of a group, it replaces the
//    set by one whose ranges do not contain the keys of the group's values,
//    release. Then it publishes Q in `last`, release.
// T2 learn: a reader with the number R has walked a range and found nothing
//    live. It becomes leader, if nobody writes (TryLead). If `last` is R, the
//    range is known with S = R. If not, it is a candidate with S = `last`; and
//    a candidate with S <= R that lies inside the walked range is known, with
//    its S = R. The leader stores the new set, release.
// T3 find: a reader with the number R, which it loaded from `last` before,
//    acquire, loads `current_`, acquire. It uses a known range with S <= R.
// T4 drop: a leader removes ranges, release.
//
// *Invariants.*
// I1 Only a leader stores to `current_`. It does T2 and T4 only when nobody
//    inserts, so that `last` does not change meanwhile.
// I2 Each range in the set has no key that got a value with a number in (S,
//    `last`].
// I3 A known range has no key that is live at S. So by I2 it has none that is
//    live at any number in [S, `last`].
//
// *Why each order is needed.*
// T1's two stores pair with T3's two loads: a reader with R >= Q sees the set
//    without Q's key, or a later one.
// T1, T2 and T4 are ordered among each other by the write queue (its T6).
// T2's store pairs with T3's load: the reader sees the bytes of the set.
//
// *Bad interleavings prevented.*
// B1 A writer has looked at the set, found nothing to cut, and is suspended
//    before it publishes Q. A reader at R < Q walks the range and stores it. A
//    later reader at Q skips the new value. In T2 no
//    write is in progress; so `last` is not R, or Q is not begun.
// B2 A write of Q ends between a reader's walk at R < Q and its T2. T2 sees
//    that `last` is not R. The range is only a candidate. A second walk, at R2
//    >= S, sees what was written before S; T1 cut the candidate for what was
//    written after.
// B3 A reader at an old number R < S uses the range, in which keys were live at
//    R. T3 compares.
// B4 A reader uses a set that is freed. T3 is inside a read-side critical
//    section, and replaced sets are retired.
// B5 A reader holds a SuperVersion. The memtable is switched, a value of number
//    Q is written to the new one, and then the reader loads R = Q. It walks
//    over the key without seeing the value, and finds that `last` is R. So T2
//    and T3 are only for readers that see all writes up to R: whose
//    SuperVersion is still the current one after they loaded R
//    (DBImpl::SeesAllUpTo). The install comes before the store of Q in `last`,
//    so a reader with R >= Q sees that another one is current.
//
// *Freshness and progress.* A reader may miss the newest ranges, and then
// walks. A reader never waits: if somebody writes, it learns nothing. Writers
// wait for a learning reader as for the leader of a small group.
//
// *Reclamation.* Epochs (util/threads/epoch.h). At most kMaxRanges known ranges
// and kMaxCandidates others, with bounds of at most kMaxKeyBytes, are
// remembered.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "db/dead_entries/walked_range.h"
#include "table/block/internal_key.h"
#include "util/threads/epoch.h"
#include "varve/slice.h"

namespace varve {

// A range of user keys.
struct DeadRange {
  // Empty: there is no bound.
  std::optional<std::string> begin;
  std::optional<std::string> end;  // Not part of it.
  bool includes_begin = false;     // `begin` is part of it.
  SequenceNumber sequence = 0;
  uint64_t dead = 0;  // Deletions that walks have passed in it.
};

class DeadRanges {
 public:
  static constexpr size_t kMaxRanges = 256;
  static constexpr size_t kMaxCandidates = 16;
  // A part that a cut leaves is worth remembering with so many deletions.
  static constexpr uint64_t kLeastDead = 4;
  static constexpr size_t kMaxKeyBytes = 1024;

  // `comparator` must outlive this.
  explicit DeadRanges(const InternalKeyComparator* comparator)
      : comparator_(*comparator) {}
  // REQUIRES: nobody uses it any more.
  ~DeadRanges();
  DeadRanges(const DeadRanges&) = delete;
  DeadRanges& operator=(const DeadRanges&) = delete;

  // Calls use(const DeadRange&, bool contains) with the known range that the
  // key is in, or else with the next one in the given direction, and returns
  // true. The range exists until `use` returns. `sequence` is the reader's. A
  // null key is before all keys, or with `forward` = false after all keys.
  template <typename Use>
  bool Find(const Slice* user_key, SequenceNumber sequence, bool forward,
            Use use) const {
    if (empty()) return false;
    const EpochGuard guard;
    bool contains = false;
    const DeadRange* const range =
        FindInSection(user_key, sequence, forward, &contains);
    if (range == nullptr) return false;
    use(*range, contains);
    return true;
  }

  // For the leader, and as a hint for others.
  bool empty() const {
    // relaxed: only leaders store it. A reader that misses a range walks.
    return current_.load(std::memory_order_relaxed) == nullptr;
  }

  // ---- For the leader of the write queue ----

  // T1. A value is about to be written to the key.
  void Cut(const Slice& user_key);
  // T2. `last_sequence` is the newest that is visible.
  void Learn(const WalkedRange& walk, SequenceNumber last_sequence);
  // Forgets all ranges.
  void Clear();
  // Forgets the ranges that no walk has used since the last call.
  void DropUnused();

  // Returns a copy of the known ranges, in key order. Any thread may call it.
  std::vector<DeadRange> Known() const;

 private:
  // Immutable, but for the mark.
  struct Entry {
    explicit Entry(DeadRange its_range) : range(std::move(its_range)) {}

    const DeadRange range;
    // Whether a walk used it. relaxed everywhere: a hint for DropUnused.
    mutable std::atomic<bool> used{true};
  };
  // Sets share the entries that they have in common.
  using Entries = std::vector<std::shared_ptr<const Entry>>;
  struct Set {
    Entries known;       // In key order. They have no key in common.
    Entries candidates;  // Oldest first.
  };

  const Set* set() const {
    // acquire pairs with the release of T1, T2 and T4.
    return current_.load(std::memory_order_acquire);
  }
  const DeadRange* FindInSection(const Slice* user_key, SequenceNumber sequence,
                                 bool forward, bool* contains) const;
  // Returns the known range that contains the key, or known.end().
  Entries::const_iterator FindKnown(const Set& set,
                                    const Slice& user_key) const;
  // Return whether the key is at or after the begin, and before the end.
  bool BeginsBy(const DeadRange& range, const Slice& user_key) const;
  bool EndsAfter(const DeadRange& range, const Slice& user_key) const;
  bool Contains(const DeadRange& range, const Slice& user_key) const {
    return BeginsBy(range, user_key) && EndsAfter(range, user_key);
  }
  // Return whether a bound of one comes at or before the bound of the other.
  bool BeginsBy(const DeadRange& a, const DeadRange& b) const;
  bool EndsBy(const DeadRange& a, const DeadRange& b) const;
  // Returns whether no key lies between the two, if not in both.
  bool Touch(const DeadRange& a, const DeadRange& b) const;
  // Adds a known range. Merges it with those that it touches.
  void AddKnown(DeadRange range, Set* set) const;
  void Publish(std::unique_ptr<const Set> next);

  const InternalKeyComparator& comparator_;
  std::atomic<const Set*> current_{nullptr};
};

}  // namespace varve
