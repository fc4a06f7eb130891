// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Group commit: writers queue up without a lock. The one at the front leads:
// it alone may touch the log and choose the memtable. It writes for itself and
// for those behind it that want the same; these are gone from the queue when
// they wake. A writer that meets nobody takes two atomic instructions.
//
// Thread-safety: Join may be called by any thread, each with a Writer of its
// own; the other functions by those to whom Join gave the role.
//
// *Words and states.*
//   `tail_`: the writer that joined last; null, nobody is in the queue.
//   `next` of a writer: who joined right behind it; null until that one, which
//   may be suspended between T1 and T2, has said so.
//   `state` of a writer: kWaiting; kAsleep, the same, and its thread is in the
//   kernel; kLeader; kInsert, it is to insert its own batch; kDone. kAsleep is
//   written by the writer's own thread, kWaiting by it as well, before T1; all
//   else by the leader.
//   `inserting` of the leader: how many of its group insert and are not ready
//   yet, and, in the highest bit, that it sleeps until there are none.
//   `awaited_`: how many writers the leader sleeps for, in DelayGroupCommit;
//   else 0. Nothing but the time that this takes depends on it.
// *Transitions.*
//   T1 join: exchange of `tail_`, seq_cst. Old value null: the writer leads.
//   T2 link: the old value's `next`, release. The writer waits for T4 or T6.
//   T3 group: the leader follows `next`, acquire, from itself up to a null or a
//      writer that does not fit.
//   T4 insert: the leader gives kInsert to a follower, exchange, acq_rel.
//   T5 inserted: the follower subtracts one from the leader's `inserting`,
//      acq_rel, and waits for T7. The leader waits for 0, acquire.
//   T6 hand over: if the last of the group is `tail_`, compare-and-swap of it
//      to null, release; else kLeader to the `next` of that last one, exchange,
//      acq_rel, once there is one.
//   T7 done: the leader gives kDone to each follower, exchange, acq_rel.
//   T8 delay: the leader stores in `awaited_` how many have not come yet,
//      and sleeps if `tail_` then is the last one that it counted; seq_cst,
//      both. Who has done T2 looks at `awaited_`, seq_cst, subtracts one from
//      it, if it is not 0, and wakes the leader if it is then.
// *Invariants.*
//   I1 at most one writer leads: a new leader comes out of T1 on an empty
//      queue or out of T6, each ends another writer's leadership first.
//   I2 who is between the leader and `tail_` does not leave: the leader reads
//      only writers whose threads wait.
//   I3 the leader does not touch a writer after that one's T7, nor any follower
//      the leader after its own T5 but by address.
// *Why each order is needed.*
//   T6 is a release and pairs with the next T1, or with the wait for kLeader: a
//   leader sees what all leaders before it did to the log and to what else
//   they own. T2 and T3: the leader sees the batches. T4 and its wait: the
//   follower sees the memtable and its sequence number. T5: the leader, and by
//   what it then publishes all readers, see what the follower inserted. T7: the
//   follower sees its status. Exchanges of `state` are acquires as well, for
//   nothing but that kAsleep, which needs no order, may be what they replace.
// *Bad interleavings prevented.*
//   B1 a writer joins between the leader's look at `tail_` and its leaving,
//      and waits for ever: T6 is one compare-and-swap, which then fails.
//   B2 T6 finds another `tail_` but no `next` yet, as that writer is between
//      T1 and T2: the leader waits for `next`, and lets others run meanwhile.
//   B3 a follower's Writer is gone when the leader looks for the one behind it:
//      all `next` are read, and T6 done, before a follower's T7.
//   B4 a follower is made kDone between its last look at `state` and its sleep:
//      it sleeps only if it could put kAsleep in the place of kWaiting (or
//      kInsert), and then T7 sees that and wakes it.
//   B5 the group grows while the leader counts it, and someone is answered who
//      was not written: the group is fixed by T3, at its last follower.
//   B6 a writer joins between the leader's count and its store to `awaited_`,
//      subtracts nothing, and the leader sleeps for one who is there: of T1 and
//      the look after it, and the store and the look at `tail_` after it, one
//      sees the other. A writer may be counted and subtract itself as well; the
//      leader then wakes too early, and counts again.
// *Freshness and progress.* First come, first served. A group of writers that
// sleep costs the leader one wake-up each. Who is suspended between T1 and T2
// delays those behind it; a follower that is suspended while it inserts delays
// its group. Waiting for space is done outside of the queue (DBImpl::Write), so
// that nobody waits behind somebody who waits.
// *Reclamation.* None: Writers are on their threads' stacks. A wake-up may
// come late and meet another use of the address (util/base/futex.h).

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "varve/options.h"
#include "varve/status.h"
#include "varve/write_batch.h"

namespace varve {

class MemTable;
class SpanQueue;

class WriteQueue {
 public:
  enum class Role : uint8_t {
    kLeader,  // Lead until Leave.
    kInsert,  // Insert the batch into `memtable`, then call FinishInsert.
    kDone,    // A leader has done the work; `status` tells how.
  };

  struct Writer {
    // To have the front of the queue to oneself, for work that must not meet
    // a write.
    Writer() = default;
    Writer(const WriteOptions& options, WriteBatch* its_batch)
        : batch(its_batch),
          sync(options.sync),
          disable_wal(options.disable_wal) {}
    Writer(const Writer&) = delete;
    Writer& operator=(const Writer&) = delete;

    WriteBatch* const batch = nullptr;
    const bool sync = false;
    const bool disable_wal = false;
    MemTable* memtable = nullptr;  // For kInsert.
    Status status;
    bool waited = false;  // In Join.
    // Where its trace is, and the span of the write in it. While the writer
    // waits, its leader may add to it. Null: it is not traced.
    SpanQueue* spans = nullptr;
    uint32_t span = 0;

   private:
    friend class WriteQueue;
    Writer* leader_ = nullptr;  // For kInsert.
    std::atomic<Writer*> next_{nullptr};
    std::atomic<uint32_t> state_{0};
    std::atomic<uint32_t> inserting_{0};
  };

  // Whether nobody is in the queue at the moment.
  bool IsIdle() const {
    // relaxed: for a process that has no other thread.
    return tail_.load(std::memory_order_relaxed) == nullptr;
  }

  // Writers whose batches go into the log together, the leader first.
  struct Group {
    explicit Group(Writer* leader) : first(leader), last(leader) {}

    // Calls `function` with each of them.
    template <typename Function>
    void ForEach(Function function) const {
      for (Writer* writer = first;; writer = Next(writer)) {
        function(writer);
        if (writer == last) return;
      }
    }

    Writer* first;
    Writer* last;
    size_t count = 1;
  };

  // The front of the queue for as long as this lives.
  class Exclusive {
   public:
    explicit Exclusive(WriteQueue* queue) : queue_(queue) {
      static_cast<void>(queue_->Join(&writer_));  // Can only lead.
    }
    ~Exclusive() { Leave(); }
    Exclusive(const Exclusive&) = delete;
    Exclusive& operator=(const Exclusive&) = delete;

    // Before the end of the scope. Does not wait for other writers' work.
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

  // Waits for a role.
  // REQUIRES: no mutex is held that a leader takes.
  [[nodiscard]] Role Join(Writer* writer);

  // For a leader that is to wait for the device: waits `limit_us` at most for
  // the writers who shared the last such wait, or stood behind it. They have
  // been answered just now, and what they write next can share this one.
  void DelayGroupCommit(Writer* leader, uint64_t limit_us);

  // The leader's group: as many as want the same.
  Group Form(Writer* leader) const;

  // Has `insert`, a function of a Writer, done for each of the group, by the
  // followers themselves or by the leader, which calls this; waits for all.
  // Each has its status then.
  template <typename Insert>
  void InsertAll(const Group& group, MemTable* memtable, Insert insert) {
    if (group.count == 1) return insert(group.first);
    AssignInserts(group, memtable);
    group.ForEach([&](Writer* writer) {
      if (writer->leader_ == nullptr) insert(writer);
    });
    AwaitInserts(group.first);
  }

  // For a follower with the role kInsert, when it has set its status. Waits
  // until the group is done; `status` is then the group's.
  void FinishInsert(Writer* writer);

  // Gives leadership to the next writer, and then the outcome to the followers.
  void Leave(const Group& group, const Status& status);

 private:
  static Writer* Next(const Writer* writer) {
    // T3, of a writer before the last. acquire pairs with T2.
    return writer->next_.load(std::memory_order_acquire);
  }
  static void Give(Writer* writer, uint32_t state);
  void AssignInserts(const Group& group, MemTable* memtable);
  void AwaitInserts(Writer* leader);
  void AnnounceArrival();
  void YieldDuringDelay(uint64_t deadline_ns);

  std::atomic<Writer*> tail_{nullptr};
  std::atomic<uint32_t> awaited_{0};

  // Owned by the leader.
  size_t expected_group_size_ = 0;  // Writers to wait for, with the leader.
  // Leaders that skip the delay after it was in vain, and those left.
  uint32_t delay_backoff_ = 0;
  uint32_t delays_to_skip_ = 0;
  // Leaders that do not yield after a slow yield, and those left.
  uint32_t yield_backoff_ = 0;
  uint32_t yields_to_skip_ = 0;
  uint32_t good_yields_ = 0;  // Since the last slow one.
};

}  // namespace varve
