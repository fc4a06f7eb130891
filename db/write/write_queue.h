// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Group commit over a queue of the kind of an MCS lock (Mellor-Crummey and
// Scott, 1991): each writer exchanges the tail and links itself to the writer
// before it. The writer at the front is the leader. Only the leader may write
// the log and choose the memtable. It writes for itself and for the compatible
// writers that follow it, its followers. The followers have left the queue
// when they wake. An uncontended writer executes two atomic instructions.
//
// Thread-safety: any thread may call Join, with a Writer of its own. The other
// functions may be called only in the role that Join returned.
//
// *Words and states.*
//   `tail_`: the writer that joined last; null if the queue is empty.
//   `next` of a writer: the writer that joined directly after it. It is null
//   until that writer, which may be suspended between T1 and T2, has linked
//   itself.
//   `state` of a writer: kWaiting; kAsleep, it waits and its thread is in the
//   kernel; kLeader; kInsert, it must insert its own batch; kDone. The writer's
//   own thread stores kAsleep, and kWaiting before T1. The leader stores all
//   other states.
//   `inserting` of the leader: the number of followers that still insert. The
//   highest bit is set if the leader sleeps until that number is 0.
//   `awaited_`: the number of writers that the leader sleeps for in
//   DelayGroupCommit, else 0. It affects only the length of the delay.
// *Transitions.*
//   T1 join: exchange of `tail_`, seq_cst. If the old value is null, the writer
//      leads.
//      A writer without a batch may also join by a compare-and-swap from null,
//      which fails if there is a leader (TryLead).
//   T2 link: the writer stores itself in the old value's `next`, release. It
//      then waits for T4, T6 or T7.
//   T3 group: the leader follows `next`, acquire, from itself up to a null or a
//      writer that does not fit.
//   T4 insert: the leader gives kInsert to a follower, exchange, acq_rel.
//   T5 inserted: the follower subtracts one from the leader's `inserting`,
//      acq_rel, and waits for T7. The leader waits for 0, acquire.
//   T6 hand over: if the group's last writer is `tail_`, compare-and-swap
//      `tail_` to null, release. Otherwise wait until that writer has a `next`
//      and give kLeader to the `next`, exchange, acq_rel. It comes after T5, or
//      before T4 if the group overlaps with the next one.
//   T7 done: the leader gives kDone to each follower, exchange, acq_rel.
//   T8 delay: the leader stores the number of missing writers in `awaited_`. It
//      sleeps if `tail_` is then the last writer that it counted. Both accesses
//      are seq_cst. After T2 each writer loads `awaited_`, seq_cst. If it is
//      not 0, the writer subtracts one, and wakes the leader if 0 is left.
// *Invariants.*
//   I1 At most one writer leads. A writer becomes leader by T1 on an empty
//      queue or by T6. In both cases the previous leadership has ended before.
//   I2 A writer between the leader and `tail_` does not leave. The leader reads
//      only writers whose threads wait.
//   I3 The leader does not access a writer after that writer's T7, and a
//      follower does not access the leader after its own T5. Both may still use
//      the address.
//   I4 If a group's updates may be still in insertion, `overlaps_left_` is not
//      0. So a leader that finds 0 knows that all earlier groups are visible.
// *Why each order is needed.*
//   T6 is a release and pairs with the next T1, or with the wait for kLeader.
//   So a leader sees all that earlier leaders did to the log and to the other
//   state that leaders own. T2 and T3: the leader sees the batches. T4 and its
//   wait: the follower sees the memtable and its sequence number. T5: the
//   leader sees all inserts of its followers, and so do all readers of the
//   sequence number that it then publishes. T7: the follower sees its status.
//   The exchanges of `state` are acquires only because they may replace
//   kAsleep, which needs no order.
// *Bad interleavings prevented.*
//   B1 A writer joins after the leader loads `tail_` and before it leaves, and
//      waits for ever. T6 is one compare-and-swap, which then fails.
//   B2 T6 finds another `tail_` but a null `next`, because the next writer is
//      between T1 and T2. The leader waits for `next` and yields its processor.
//   B3 A follower's Writer is destroyed before the leader reads its `next`. The
//      leader reads each `next` before that writer's T7, and T6 precedes all
//      T7.
//   B4 A follower gets kDone between its last load of `state` and its sleep. It
//      sleeps only if it replaced kWaiting (or kInsert) by kAsleep. T7 then
//      finds kAsleep and wakes it.
//   B5 The group grows while the leader counts it, and a writer is reported
//      done that was not written. T3 fixes the last follower of the group.
//   B6 A writer joins between the leader's count and its store to `awaited_`.
//      It subtracts nothing, and the leader sleeps for a writer that has
//      already come. The writer does T1, then loads `awaited_`; the leader
//      stores `awaited_`, then loads `tail_`. One of the two sees the other's
//      store. A writer may be counted and also subtract itself. The leader then
//      wakes too early, and counts again.
// *Freshness and progress.* Writers are served in the order in which they join.
// Each sleeping writer in a group costs the leader one wake-up. A writer
// suspended between T1 and T2 delays the writers after it. A follower
// suspended while it inserts delays its group. Writers wait for space outside
// the queue (DBImpl::Write), so that they do not delay other writers.
// *Overlap.* Among several writers with batches, a leader hands over before it
// inserts. The groups then become visible in their order (publication_order.h),
// and work that requires that nobody inserts begins with AwaitIdle. A lone
// writer does without: it keeps its leadership until its updates are visible.
// *Reclamation.* None: Writers are on their threads' stacks. A wake-up may come
// late and reach a later user of the address (util/base/futex.h).

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "db/write/publication_order.h"
#include "table/block/internal_key.h"
#include "varve/options.h"
#include "varve/slice.h"
#include "varve/status.h"
#include "varve/write_batch.h"

namespace varve {

class ColumnFamily;
class SpanQueue;

class WriteQueue {
 public:
  enum class Role : uint8_t {
    kLeader,  // Lead until Leave.
    kInsert,  // Insert the batch into memtables, then call FinishInsert.
    kDone,    // A leader has done the work; `status` is the outcome.
  };

  // The only update of a batch, for which the batch need not be decoded.
  struct SingleUpdate {
    ColumnFamily* family;  // The queue only carries it.
    ValueType type;
    Slice key;
    Slice value;
    uint64_t hash;  // PreviewXxh3 of the key.
  };

  struct Group;

  // A condition for the write of a batch: db/transaction/validation.
  class Condition {
   public:
    // For the writer's thread, each time before it joins. Returns OK if the
    // condition held at some moment of the call, else the result of the write.
    virtual Status Examine() = 0;
    // For a leader, after the last Examine. Returns true if the condition holds
    // when the writer comes after all earlier groups, and after the writers of
    // `before`, the group of this leader up to now. Null if the writer itself
    // is the leader. It may return false if that would take long to find out,
    // but not for ever to a leader that examines again. Does not wait.
    virtual bool Holds(const Group* before) = 0;

   protected:
    ~Condition() = default;
  };

  // A write, or other work of a leader. It lives on its thread's stack.
  struct Writer {
    // Creates a writer without a batch. It leads a group of one, for work that
    // must not run during a write.
    Writer() = default;
    // With a condition and no batch: its group has only such writers, and its
    // leader knows what to write.
    Writer(const WriteOptions& options, WriteBatch* its_batch,
           const SingleUpdate* its_update = nullptr,
           Condition* its_condition = nullptr)
        : batch(its_batch),
          update(its_update),
          sync(options.sync),
          disable_wal(options.disable_wal),
          condition(its_condition) {}
    Writer(const Writer&) = delete;
    Writer& operator=(const Writer&) = delete;

    WriteBatch* const batch = nullptr;
    // The batch's only update, or null. Like the batch, it must not change
    // while the writer waits: its leader reads it.
    const SingleUpdate* const update = nullptr;
    const bool sync = false;
    const bool disable_wal = false;
    // Set by the leader: the batch updates a column family that was dropped, so
    // nothing of it is written.
    bool is_refused = false;
    // Set by the leader: the condition holds in its group.
    bool holds = false;
    Status status;
    bool waited = false;  // Whether Join had to wait.
    // The trace of the write, and the write's span in it. While the writer
    // waits, its leader may add spans. Null if the write is not traced.
    SpanQueue* spans = nullptr;
    uint32_t span = 0;
    // Null without one. It belongs to the leader while the writer waits.
    Condition* const condition = nullptr;

   private:
    friend class WriteQueue;
    Writer* leader_ = nullptr;  // Set with kInsert.
    std::atomic<Writer*> next_{nullptr};
    std::atomic<uint32_t> state_{0};
    std::atomic<uint32_t> inserting_{0};
  };

  // Returns whether the queue is empty and all updates are inserted.
  bool IsIdle() const {
    // relaxed: called only when the process has no other thread.
    return tail_.load(std::memory_order_relaxed) == nullptr && order_.IsIdle();
  }

  // Writers whose batches are written to the log together, the leader first.
  struct Group {
    explicit Group(Writer* leader) : first(leader), last(leader) {}

    // Calls `function` with each writer.
    template <typename Function>
    [[gnu::always_inline]] void ForEach(Function function) const {
      for (Writer* writer = first;; writer = Next(writer)) {
        function(writer);
        if (writer == last) return;
      }
    }

    Writer* first;
    Writer* last;
    size_t count = 1;
  };

  // Holds leadership of a group of one for the object's lifetime. Nobody
  // inserts meanwhile.
  class Exclusive {
   public:
    explicit Exclusive(WriteQueue* queue) : queue_(queue) {
      static_cast<void>(queue_->Join(&writer_));  // Can only lead.
      queue_->AwaitIdle();
    }
    ~Exclusive() { Leave(); }
    Exclusive(const Exclusive&) = delete;
    Exclusive& operator=(const Exclusive&) = delete;

    // Gives up leadership before the end of the scope. Does not wait for other
    // writers' work.
    void Leave() {
      if (left_) return;
      left_ = true;
      queue_->Leave(Group(&writer_), Status::OK());
    }

   private:
    WriteQueue* const queue_;
    Writer writer_;
    bool left_ = false;
  };

  WriteQueue() = default;
  WriteQueue(const WriteQueue&) = delete;
  WriteQueue& operator=(const WriteQueue&) = delete;

  // Appends the writer to the queue and waits until it has a role.
  // REQUIRES: the caller holds no mutex that a leader takes.
  [[nodiscard]] Role Join(Writer* writer);

  // Joins as the leader, like Join, if nobody leads or inserts. Otherwise
  // returns false at once. `writer` has no batch.
  [[nodiscard]] bool TryLead(Writer* writer);

  // Waits up to `limit_us` for more writers to join. A leader calls it before
  // a sync of the log. It waits for as many writers as shared the last sync or
  // were queued after it. Their calls have just returned, so their next writes
  // can share this sync.
  void DelayGroupCommit(Writer* leader, uint64_t limit_us);

  // Returns the leader's group: the compatible writers that follow it, up to a
  // size limit, or to one whose condition does not hold after the others.
  Group Form(Writer* leader) const;

  // For a leader, before work that must not run while earlier groups insert:
  // waits until all of these are visible.
  void AwaitIdle() { order_.AwaitIdle(); }

  // For a leader that has formed its group. Returns whether it should hand over
  // before it inserts, and publish by order(). If not, all earlier groups are
  // visible.
  bool Overlaps(const Group& group) {
    return overlaps_left_ != 0 && DecideOverlap(group);
  }
  PublicationOrder& order() { return order_; }
  // Makes the next groups overlap, fewer than `count`, as after a writer has
  // waited for another. For a leader, in measurements where no writer waits.
  void OverlapNext(uint32_t count) { overlaps_left_ = count; }

  // Runs `insert`, a function of a Writer, for each writer of the group. The
  // leader calls this. Each insert runs on the follower's thread or on the
  // leader's. Waits for all of them; then the status of each writer is set.
  template <typename Insert>
  [[gnu::always_inline]] void InsertAll(const Group& group, Insert insert) {
    if (group.count == 1) return insert(group.first);
    AssignInserts(group);
    group.ForEach([&](Writer* writer) {
      if (writer->leader_ == nullptr) insert(writer);
    });
    AwaitInserts(group.first);
  }

  // Waits until the group is done. A follower with the role kInsert calls this
  // after it has set its status. On return `status` is the group's.
  void FinishInsert(Writer* writer);

  // Hands leadership to the next writer, then gives `status` to the group.
  void Leave(const Group& group, const Status& status);
  // Does the first half of Leave. The caller still has its group, and must call
  // Answer.
  void HandOver(const Group& group);
  void Answer(const Group& group, const Status& status);

 private:
  static Writer* Next(const Writer* writer) {
    // T3. acquire pairs with T2.
    return writer->next_.load(std::memory_order_acquire);
  }
  static void Give(Writer* writer, uint32_t state);
  // Adds the followers to a group of its leader.
  [[gnu::noinline]] void AddWriters(Group* group) const;
  void AssignInserts(const Group& group);
  void AwaitInserts(Writer* leader);
  [[gnu::noinline]] bool DecideOverlap(const Group& group);
  void AnnounceArrival();
  void YieldDuringDelay(uint64_t deadline_ns);

  // What each leader uses is on the line of `tail_`, which has come to its
  // processor by T1. Threads that publish use only the other line.
  alignas(64) std::atomic<Writer*> tail_{nullptr};
  std::atomic<uint32_t> awaited_{0};
  // The number of groups that overlap, even if no other writer comes. Begins
  // anew when a writer with a batch has waited for another. Owned by the
  // leader.
  uint32_t overlaps_left_ = 0;
  alignas(64) PublicationOrder order_;

  // The rest is owned by the leader too, and used only with `sync`.
  //
  // The number of writers to wait for, with the leader.
  alignas(64) size_t expected_group_size_ = 0;
  // The number of leaders that skip the delay after a useless one, and the
  // number of skips that are left.
  uint32_t delay_backoff_ = 0;
  uint32_t delays_to_skip_ = 0;
  // The number of leaders that do not yield after a slow yield, and the number
  // of these that are left.
  uint32_t yield_backoff_ = 0;
  uint32_t yields_to_skip_ = 0;
  uint32_t good_yields_ = 0;  // Since the last slow one.
};

}  // namespace varve
