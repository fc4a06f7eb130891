// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Backward validation of optimistic transactions (Kung and Robinson, 1981): a
// commit is refused if another write changed what it used. Most of the work is
// done outside of the critical section, which is leadership of the write queue.
// The leader then looks only for what was written since. So validation and
// commit are one step for all writes, those without a check included.
//
// `View` provides the database. A test uses it to run this code through every
// order of all steps (test/db/transaction/validation/check_protocol_test.cc).
//
// Words and states
//   `last_sequence` is the newest visible sequence number (db/version). Only
//   a leader raises it, or who publishes for it (db/write/publication_order.h).
//   The *sources* of a SuperVersion are its memtable, its immutable memtables,
//   and its tables. The last two have *bounds* that none of their numbers
//   exceeds: MemTable::largest_sequence, and Version::LargestSequence. The
//   memtable that is written to has none.
//   Each *item* of a check, a key or a range, has the number `since` at which
//   it was used. `examined` belongs to the writer, and to the leader while the
//   writer waits in the queue: nothing has changed up to this number.
// Transitions
//   V1 examine, outside of the queue: E = last_sequence, acquire. For each
//   item,
//      take the current SuperVersion, and search its sources for an update
//      after `since` and `examined`. A source whose bound is not above them is
//      skipped. If there is an update, the commit is refused. Otherwise
//      `examined` = E.
//   V2 The writer joins the write queue.
//   V3 lead: a leader with a check, which has made room for its batch, searches
//      as in V1, but does not read tables at first. If it finds an update, or
//      would have to read tables, it leaves the queue and begins with V1. The
//      second time it reads the tables.
//   V4 follow: a leader takes a writer with a check into its group if the
//      batches before it in the group touch no item, and if a search as in V3
//      finds nothing. Otherwise the group ends before that writer, which leads
//      the next one.
//   V5 commit: the leader gives numbers above last_sequence to its group's
//      updates, in the order of the writers. It has the updates inserted into
//      the memtables, has last_sequence stored with release, and leaves.
//   V6 switch: a leader stores last_sequence as the memtable's bound, and then
//      installs a SuperVersion in which that memtable is immutable.
//   V7 A flush or compaction installs a SuperVersion with other tables.
// Invariants
//   I1 Let a snapshot at or before `since` exist. If a key has an update after
//      `since` that is visible, then each SuperVersion that is installed later,
//      or current, has one in its sources. V7 drops such an update only for a
//      newer update or range deletion of the key, and changes none of their
//      numbers (db/compaction/compaction_iterator.h).
//   I2 The bounds hold. For V6, no insert is in progress then, and no later
//      batch goes to that memtable. A memtable that got updates of a failed
//      group has the highest bound.
//   I3 No update of an item has a number after `since` up to `examined`.
//   I4 In V3 and V4, all updates of earlier groups are in the sources and
//      visible, and no others are: the leader has called AwaitIdle, or finds
//      that PublicationOrder is idle.
// The outcome
//   Let N be the number of the batch's first update. By I3 and I4, V3 finds
//   each update of an item after `since` that earlier groups wrote. V4 also
//   finds the updates of writers that come before in the group, the only ones
//   with numbers between last_sequence and N. So at N nothing of the check has
//   changed, and the transaction is as if it had used all of it at N.
// Why each order is needed
//   V1's acquire pairs with V5's release: the lookups see all inserts up to E,
//   and SuperVersionCache::Begin sees a SuperVersion that has them, for it was
//   installed before V5. The SuperVersion is taken after E.
//   V3 and V4: leadership is handed over by release and acquire
//   (db/write/write_queue.h, T6 and T1, T2 and T3).
//   V6: a bound is stored before the install that makes readers use it.
// Bad interleavings prevented
//   B1 The sources are searched, then another commit ends, then E is loaded.
//      The commit's updates are neither found nor after `examined`. V1 loads E
//      first.
//   B2 A write without a check comes between V1 and V5. V3 finds it.
//   B3 Two commits that exclude each other are in one group. Neither is in a
//      memtable when the other is examined. V4 compares them.
//   B4 Between V1 and V3 the memtable is switched and flushed, so that an
//      update after `examined` is only in a table. Its bound tells.
//   B5 A compaction drops the newer update, or sets its number to zero. The
//      snapshot prevents it: I1.
//   B6 The family is dropped between V1 and V3. The leader does not find it,
//      and leaves; V1 then reports the drop.
// Freshness and progress
//   V1 may find an update that is not visible yet. Its write comes first if it
//   succeeds; if it fails, the commit was refused for nothing. Nobody waits for
//   a writer with a check longer than for a search of the memtables, which is
//   some steps for each key, and a walk for each range, or once for a search of
//   newer tables. A leader leaves at most once without a reason: the second
//   time it decides.
// Reclamation
//   SuperVersions: as for reads.

#include "table/block/internal_key.h"

namespace varve {

// Thread-safety: owned by one thread. It is the writer's, or its leader's.
template <typename View>
class CheckProtocol {
 public:
  // A view has these functions, the last three for `examined` or 0:
  //   LastSequence: returns last_sequence, by an acquire load.
  //   Search(examined): searches all sources. Its result has ok().
  //   IsApart(group): returns whether no batch of the group touches an item.
  //   SearchAsLeader(examined, reads_tables): returns whether there is no
  //     update. Without reads_tables, returns false if a table may have one.
  explicit CheckProtocol(View* view) : view_(*view) {}

  // V1.
  auto Examine() {
    const SequenceNumber last = view_.LastSequence();  // B1
    auto result = view_.Search(examined_);
    if (result.ok()) examined_ = last;
    is_second_ = was_led_;
    return result;
  }

  // V3, and V4 if `before` is not null.
  template <typename Group>
  bool Holds(const Group* before) {
    if (before != nullptr && !view_.IsApart(*before)) return false;  // B3
    if (view_.LastSequence() == examined_) return true;
    const bool reads_tables = before == nullptr && is_second_;
    was_led_ |= before == nullptr;
    return view_.SearchAsLeader(examined_, reads_tables);  // B2, B4
  }

 private:
  View& view_;
  SequenceNumber examined_ = 0;
  bool was_led_ = false;    // V3 was done.
  bool is_second_ = false;  // V3 was done before the last V1.
};

}  // namespace varve
