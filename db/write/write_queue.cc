// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "db/write/write_queue.h"

#include <sched.h>

#include <algorithm>

#include "util/base/check.h"
#include "util/base/futex.h"

namespace varve {

namespace {

enum State : uint32_t { kWaiting = 0, kAsleep, kLeader, kInsert, kDone };

constexpr uint32_t kLeaderSleeps = uint32_t{1} << 31;

// The most bytes of a group. The group of a leader with a small batch is
// smaller, so that the leader does not wait long.
constexpr size_t kMaxGroupBytes = 1 << 20;
constexpr size_t kSmallBatchBytes = 128 << 10;

// A sleeping follower is woken to insert a batch of at least this size. The
// leader inserts a smaller one in less time than the two wake-ups take.
constexpr size_t kWorthWakingBytes = 8 << 10;

// The most leaders that skip the group-commit delay after repeated useless
// delays. So less than a hundredth of the time is lost by waiting.
constexpr uint32_t kMaxSkippedDelays = 63;

// Other writers usually arrive in less time than a sleep and a wake-up take. So
// a leader first yields its processor, and sleeps only after kYieldNanos. If a
// yield takes longer than kSlowYieldNanos, the processor went to threads other
// than writers. Then more and more leaders do not yield, because one slow yield
// costs as much as a hundred good ones gain.
constexpr uint64_t kYieldNanos = 60 * 1000;
constexpr uint64_t kSlowYieldNanos = 100 * 1000;
constexpr uint32_t kMaxSkippedYields = 1023;
constexpr uint32_t kYieldsToResetBackoff = 256;

// After one writer had to wait for another, so many groups overlap. A group
// that overlaps with none executes three more atomic instructions than one that
// does not try to.
constexpr uint32_t kOverlaps = 64;

}  // namespace

WriteQueue::Role WriteQueue::Join(Writer* writer) {
  // relaxed, both: no other thread knows the writer before T1 and T2.
  writer->next_.store(nullptr, std::memory_order_relaxed);
  writer->state_.store(kWaiting, std::memory_order_relaxed);
  writer->leader_ = nullptr;
  // T1. acquire pairs with the release of T6; release, so that the next writer
  // sees the fields above; seq_cst for B6.
  Writer* const before = tail_.exchange(writer, std::memory_order_seq_cst);
  if (before == nullptr) return Role::kLeader;
  writer->waited = true;
  // T2. release pairs with T3.
  before->next_.store(writer, std::memory_order_release);
  AnnounceArrival();
  switch (AwaitChange(&writer->state_, kWaiting, kAsleep, writer->sync)) {
    case kLeader:
      return Role::kLeader;
    case kInsert:
      return Role::kInsert;
    default:
      return Role::kDone;
  }
}

bool WriteQueue::TryLead(Writer* writer) {
  // relaxed: a guess. It takes the word from no writer's processor.
  if (tail_.load(std::memory_order_relaxed) != nullptr) return false;
  // relaxed, both: no other thread knows the writer before T1.
  writer->next_.store(nullptr, std::memory_order_relaxed);
  writer->state_.store(kWaiting, std::memory_order_relaxed);
  writer->leader_ = nullptr;
  Writer* expected = nullptr;
  // T1. seq_cst: as in Join. relaxed if it fails: nothing is read.
  if (!tail_.compare_exchange_strong(expected, writer,
                                     std::memory_order_seq_cst,
                                     std::memory_order_relaxed)) {
    return false;
  }
  if (order_.IsIdle()) return true;
  Leave(Group(writer), Status::OK());
  return false;
}

WriteQueue::Group WriteQueue::Form(Writer* leader) const {
  Group group(leader);
  if ((leader->batch != nullptr || leader->condition != nullptr) &&
      Next(leader) != nullptr) {
    AddWriters(&group);
  }
  return group;
}

// Apart from Form, so that a lone writer saves no registers for the loop.
void WriteQueue::AddWriters(Group* group) const {
  const Writer* const leader = group->first;
  const bool has_batches = leader->batch != nullptr;
  size_t bytes = has_batches ? leader->batch->ApproximateSize() : 0;
  const size_t limit =
      bytes <= kSmallBatchBytes ? bytes + kSmallBatchBytes : kMaxGroupBytes;
  for (;;) {
    Writer* const writer = Next(group->last);
    if (writer == nullptr || (writer->batch != nullptr) != has_batches ||
        (!has_batches && writer->condition == nullptr) ||
        (writer->sync && !leader->sync) ||
        writer->disable_wal != leader->disable_wal) {
      return;
    }
    if (has_batches) bytes += writer->batch->ApproximateSize();
    if (bytes > limit) return;
    if (writer->condition != nullptr && !writer->holds) {
      // It then leads the next group, in which nothing comes before it.
      if (!order_.IsIdle() || !writer->condition->Holds(group)) return;
      writer->holds = true;
    }
    group->last = writer;
    ++group->count;
  }
}

bool WriteQueue::DecideOverlap(const Group& group) {
  const Writer& leader = *group.first;
  overlaps_left_ = group.count > 1 ? kOverlaps : overlaps_left_ - 1;
  // A sync takes much longer than the inserts, what a condition examines is in
  // the memtables, and so are the bytes that tell whether one is full.
  if (overlaps_left_ > 0 && !leader.sync && leader.condition == nullptr &&
      leader.batch->ApproximateSize() <= kMaxGroupBytes) {
    return true;
  }
  AwaitIdle();
  // Then this group is to fail as well, like all later ones.
  if (!order_.has_failed()) return false;
  overlaps_left_ = kOverlaps;
  return true;
}

void WriteQueue::AnnounceArrival() {
  // T8. seq_cst, after T1: B6.
  uint32_t awaited = awaited_.load(std::memory_order_seq_cst);
  while (awaited != 0) {
    // relaxed: it only affects when the leader wakes.
    if (!awaited_.compare_exchange_weak(awaited, awaited - 1,
                                        std::memory_order_relaxed)) {
      continue;
    }
    if (awaited == 1) FutexWake(&awaited_);
    return;
  }
}

// Without the delay, half of the writers would wait for one sync, while the
// other half waits in the queue for the next one. Writers whose sync has ended
// would then join too late for that.
void WriteQueue::DelayGroupCommit(Writer* leader, uint64_t limit_us) {
  Group group = Form(leader);
  if (group.count >= expected_group_size_ || limit_us == 0) return;
  if (delays_to_skip_ > 0) {
    --delays_to_skip_;
    return;
  }
  const size_t before = group.count;
  const uint64_t deadline_ns = FutexClockNanos() + limit_us * 1000;
  bool in_time = true;
  while (in_time && group.count < expected_group_size_) {
    // T8. seq_cst: B6.
    awaited_.store(static_cast<uint32_t>(expected_group_size_ - group.count),
                   std::memory_order_seq_cst);
    Writer* const last = group.last;
    // seq_cst: B6.
    if (tail_.load(std::memory_order_seq_cst) == last) {
      YieldDuringDelay(deadline_ns);
      in_time = AwaitZeroUntil(&awaited_, deadline_ns);
      group = Form(leader);
      continue;
    }
    const bool linked = Next(last) != nullptr;
    group = Form(leader);
    if (group.last != last) continue;
    if (linked) break;  // It does not fit, so no later writer can join.
    sched_yield();
    in_time = FutexClockNanos() < deadline_ns;
  }
  // relaxed: it affects only how long a writer's check of it takes.
  awaited_.store(0, std::memory_order_relaxed);
  if (group.count >= expected_group_size_ ||
      group.count >= before + before / 2 + 1) {
    delay_backoff_ = 0;
    return;
  }
  delay_backoff_ = std::min(2 * delay_backoff_ + 1, kMaxSkippedDelays);
  delays_to_skip_ = delay_backoff_;
}

void WriteQueue::YieldDuringDelay(uint64_t deadline_ns) {
  if (yields_to_skip_ > 0) {
    --yields_to_skip_;
    return;
  }
  uint64_t now_ns = FutexClockNanos();
  deadline_ns = std::min(deadline_ns, now_ns + kYieldNanos);
  // relaxed: it only affects when the leader continues.
  while (awaited_.load(std::memory_order_relaxed) != 0 &&
         now_ns < deadline_ns) {
    sched_yield();
    const uint64_t before_ns = now_ns;
    now_ns = FutexClockNanos();
    if (now_ns - before_ns > kSlowYieldNanos) {
      yield_backoff_ = std::min(2 * yield_backoff_ + 1, kMaxSkippedYields);
      yields_to_skip_ = yield_backoff_;
      good_yields_ = 0;
      return;
    }
  }
  if (++good_yields_ % kYieldsToResetBackoff == 0) yield_backoff_ = 0;
}

void WriteQueue::AssignInserts(const Group& group) {
  uint32_t assigned = 0;
  group.ForEach([&](Writer* writer) {
    if (writer == group.first) return;
    // relaxed: a guess.
    if (writer->state_.load(std::memory_order_relaxed) == kAsleep &&
        writer->batch->ApproximateSize() < kWorthWakingBytes) {
      return;
    }
    writer->leader_ = group.first;
    ++assigned;
  });
  // relaxed: T4 publishes it.
  group.first->inserting_.store(assigned, std::memory_order_relaxed);
  group.ForEach([](Writer* writer) {
    if (writer->leader_ != nullptr) Give(writer, kInsert);  // T4
  });
}

void WriteQueue::FinishInsert(Writer* writer) {
  std::atomic<uint32_t>* const inserting = &writer->leader_->inserting_;
  // T5. release pairs with the acquire of AwaitInserts; acq_rel, so that the
  // last follower's release also publishes the earlier inserts. After this the
  // leader may be destroyed. Only its address may be used.
  if (inserting->fetch_sub(1, std::memory_order_acq_rel) ==
      (kLeaderSleeps | 1)) {
    FutexWake(inserting);
  }
  AwaitChange(&writer->state_, kInsert, kAsleep);
}

void WriteQueue::AwaitInserts(Writer* leader) {
  std::atomic<uint32_t>* const inserting = &leader->inserting_;
  // acquire pairs with T5.
  uint32_t left = inserting->load(std::memory_order_acquire);
  while ((left & ~kLeaderSleeps) != 0) {
    left = AwaitChange(inserting, left, left | kLeaderSleeps);
  }
}

void WriteQueue::Give(Writer* writer, uint32_t state) {
  // release pairs with the acquire of the writer's wait. After kDone the writer
  // may be destroyed. Only its address may be used.
  if (writer->state_.exchange(state, std::memory_order_acq_rel) == kAsleep) {
    FutexWake(&writer->state_);
  }
}

// A lone writer calls nothing more.
[[gnu::flatten]] void WriteQueue::Leave(const Group& group,
                                        const Status& status) {
  HandOver(group);
  Answer(group, status);
}

void WriteQueue::HandOver(const Group& group) {
  if (group.first->sync) {
    expected_group_size_ = group.count;
    for (const Writer* writer = group.last;
         (writer = Next(writer)) != nullptr;) {
      ++expected_group_size_;
    }
  }
  Writer* last = group.last;
  // T6. release pairs with T1; relaxed if it fails: T3 below acquires.
  if (!tail_.compare_exchange_strong(last, nullptr, std::memory_order_release,
                                     std::memory_order_relaxed)) {
    Writer* next;
    while ((next = Next(group.last)) == nullptr) sched_yield();  // B2
    if (group.first->batch != nullptr && next->batch != nullptr) {
      overlaps_left_ = kOverlaps;
    }
    Give(next, kLeader);
  }
}

void WriteQueue::Answer(const Group& group, const Status& status) {
  if (!status.ok()) group.first->status = status;
  for (Writer* writer = group.first; writer != group.last;) {
    // B3: before the writer's T7.
    Writer* const next = Next(writer);
    if (writer != group.first) {
      writer->status = status;
      Give(writer, kDone);  // T7
    }
    writer = next;
  }
  if (group.last != group.first) {
    group.last->status = status;
    Give(group.last, kDone);  // T7
  }
}

}  // namespace varve
