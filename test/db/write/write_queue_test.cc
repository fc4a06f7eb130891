// Varve: a key-value storage engine. MIT licence, see LICENSE.
// Tags: threads

// Goal: at any time one writer leads, in the order of arrival. Each writer is
// answered exactly once, by the leader that wrote for it. A group contains only
// writers that may share it. Method: interleavings as steps of several threads,
// with the labels of db/write/write_queue.h; and a stress test whose plain
// variables ThreadSanitizer watches.

#include "db/write/write_queue.h"

#include "test/testing/seed.h"
#include "test/testing/test_headers.h"
#include "test/testing/threads/actor.h"
#include "test/testing/threads/run_threads.h"

namespace varve {
namespace {

using Role = WriteQueue::Role;

constexpr uint64_t kFarTooLongUs = 3600ull * 1000 * 1000;

WriteOptions Sync() {
  WriteOptions options{.sync = true};
  return options;
}
WriteOptions NoWal() {
  WriteOptions options{.disable_wal = true};
  return options;
}

// A writer on a thread of its own.
struct Peer {
  Peer(const WriteOptions& options, size_t bytes,
       WriteQueue::Condition* condition)
      : writer(options, &batch, nullptr, condition) {
    batch.Put("k", std::string(bytes, 'v'));
  }

  WriteBatch batch;
  WriteQueue::Writer writer;
  Role role = Role::kDone;
  std::thread::id inserted_by;
  test::Actor actor;
};

class WriteQueueTest : public testing::Test {
 protected:
  ~WriteQueueTest() override {
    for (auto& peer : peers_) peer->actor.Wait();
  }

  Peer& New(const WriteOptions& options = {}, size_t bytes = 10,
            WriteQueue::Condition* condition = nullptr) {
    peers_.push_back(std::make_unique<Peer>(options, bytes, condition));
    return *peers_.back();
  }
  // Starts a Join, and returns when it is in the queue after the leader.
  void StartJoin(Peer& peer, Peer& leader, size_t count) {
    Start(peer);
    while (queue_.Form(&leader.writer).count < count) {
      std::this_thread::yield();
    }
  }
  void Start(Peer& peer) {
    peer.actor.Start([this, &peer] {
      peer.role = queue_.Join(&peer.writer);
      if (peer.role == Role::kInsert) {
        peer.inserted_by = std::this_thread::get_id();
        queue_.FinishInsert(&peer.writer);
      }
    });
  }
  void Leave(Peer& leader, const Status& status = Status::OK()) {
    queue_.Leave(queue_.Form(&leader.writer), status);
  }

  // From now on a leader expects followers.
  void ShareASync(Peer& leader, Peer& follower) {
    ASSERT_EQ(queue_.Join(&leader.writer), Role::kLeader);
    StartJoin(follower, leader, 2);
    Leave(leader);
    follower.actor.Wait();
  }

  WriteQueue queue_;
  std::vector<std::unique_ptr<Peer>> peers_;
};

TEST_F(WriteQueueTest, LoneWriterLeadsRepeatedly) {
  Peer& peer = New();
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(queue_.Join(&peer.writer), Role::kLeader);
    EXPECT_EQ(queue_.Form(&peer.writer).count, 1u);
    Leave(peer);
  }
}

TEST_F(WriteQueueTest, MembersGetTheStatusOfTheGroup) {
  Peer& leader = New();
  Peer& second = New();
  Peer& third = New();
  ASSERT_EQ(queue_.Join(&leader.writer), Role::kLeader);
  StartJoin(second, leader, 2);
  StartJoin(third, leader, 3);
  Leave(leader, Status::IOError("broken"));
  second.actor.Wait();
  third.actor.Wait();
  EXPECT_EQ(second.role, Role::kDone);
  EXPECT_EQ(third.role, Role::kDone);
  EXPECT_TRUE(leader.writer.status.IsIOError());
  EXPECT_TRUE(second.writer.status.IsIOError());
  EXPECT_TRUE(third.writer.status.IsIOError());
  EXPECT_EQ(queue_.Join(&leader.writer), Role::kLeader);
  Leave(leader);
}

// B5.
TEST_F(WriteQueueTest, ALaterWriterLeadsTheNextGroup) {
  Peer& leader = New();
  Peer& follower = New();
  Peer& late = New();
  ASSERT_EQ(queue_.Join(&leader.writer), Role::kLeader);
  StartJoin(follower, leader, 2);
  const WriteQueue::Group group = queue_.Form(&leader.writer);
  StartJoin(late, leader, 3);
  queue_.Leave(group, Status::OK());
  follower.actor.Wait();
  late.actor.Wait();
  EXPECT_EQ(follower.role, Role::kDone);
  EXPECT_EQ(late.role, Role::kLeader);
  Leave(late);
}

// A condition with a fixed answer.
struct FixedCondition : WriteQueue::Condition {
  Status Examine() override { return Status::OK(); }
  bool Holds(const WriteQueue::Group* before) override {
    ++calls;
    count_before = before == nullptr ? 0 : before->count;
    return holds;
  }
  bool holds = true;
  int calls = 0;
  size_t count_before = 0;
};

TEST_F(WriteQueueTest, GroupEndsBeforeAConditionThatDoesNotHold) {
  FixedCondition good;
  FixedCondition bad;
  bad.holds = false;
  Peer& leader = New();
  Peer& follower = New({}, 10, &good);
  Peer& next = New({}, 10, &bad);
  Peer& last = New();
  ASSERT_EQ(queue_.Join(&leader.writer), Role::kLeader);
  StartJoin(follower, leader, 2);
  Start(next);
  // The leader asks it as soon as it has come.
  while (bad.calls == 0) {
    EXPECT_EQ(queue_.Form(&leader.writer).count, 2u);
    std::this_thread::yield();
  }
  EXPECT_EQ(good.calls, 1);  // It held, and holds.
  EXPECT_EQ(good.count_before, 1u);
  EXPECT_EQ(bad.count_before, 2u);
  EXPECT_EQ(queue_.Form(&leader.writer).count, 2u);
  Leave(leader);
  follower.actor.Wait();
  next.actor.Wait();
  EXPECT_EQ(follower.role, Role::kDone);
  EXPECT_EQ(next.role, Role::kLeader);
  // It is not asked as the leader of its own group.
  const int calls = bad.calls;
  StartJoin(last, next, 2);
  EXPECT_EQ(bad.calls, calls);
  Leave(next);
  last.actor.Wait();
}

TEST_F(WriteQueueTest, GroupEndsWhereSomebodyWantsSomethingElse) {
  const struct {
    WriteOptions leader, follower;
    size_t leader_bytes, follower_bytes, count;
  } cases[] = {
      {{}, {}, 10, 10, 2},
      {Sync(), {}, 10, 10, 2},
      {{}, Sync(), 10, 10, 1},
      {Sync(), Sync(), 10, 10, 2},
      {{}, NoWal(), 10, 10, 1},
      {NoWal(), {}, 10, 10, 1},
      {NoWal(), NoWal(), 10, 10, 2},
      // A small batch does not wait for a large one.
      {{}, {}, 10, 200 << 10, 1},
      {{}, {}, 200 << 10, 200 << 10, 2},
      {{}, {}, 2 << 20, 10, 1},
  };
  for (const auto& c : cases) {
    Peer& leader = New(c.leader, c.leader_bytes);
    Peer& follower = New(c.follower, c.follower_bytes);
    ASSERT_EQ(queue_.Join(&leader.writer), Role::kLeader);
    if (c.count == 2) {
      StartJoin(follower, leader, 2);
    } else {
      Start(follower);
      // It joins some time.
      for (int i = 0; i < 1000; ++i) {
        ASSERT_EQ(queue_.Form(&leader.writer).count, 1u);
        std::this_thread::yield();
      }
    }
    Leave(leader);
    follower.actor.Wait();
    EXPECT_EQ(follower.role, c.count == 2 ? Role::kDone : Role::kLeader);
    if (follower.role == Role::kLeader) Leave(follower);
  }
}

TEST_F(WriteQueueTest, MembersInsertTheirOwnAndTheLeaderTheRest) {
  constexpr int kRounds = 200;
  int by_followers = 0;
  for (int round = 0; round < kRounds; ++round) {
    Peer& leader = New();
    Peer& small = New();
    Peer& large = New({}, 60 << 10);
    ASSERT_EQ(queue_.Join(&leader.writer), Role::kLeader);
    StartJoin(small, leader, 2);
    StartJoin(large, leader, 3);
    const WriteQueue::Group group = queue_.Form(&leader.writer);
    std::vector<WriteQueue::Writer*> by_leader;
    queue_.InsertAll(group, [&](WriteQueue::Writer* writer) {
      by_leader.push_back(writer);
    });
    ASSERT_FALSE(by_leader.empty());
    EXPECT_EQ(by_leader[0], &leader.writer);
    queue_.Leave(group, Status::OK());
    small.actor.Wait();
    large.actor.Wait();
    // Whether it sleeps or not: it is large.
    EXPECT_EQ(large.role, Role::kInsert);
    EXPECT_EQ(by_leader.size(), small.role == Role::kInsert ? 1u : 2u);
    by_followers += small.role == Role::kInsert ? 1 : 0;
    peers_.clear();
  }
  printf("%d of %d small batches inserted by their followers\n", by_followers,
         kRounds);
}

TEST_F(WriteQueueTest, ExclusiveWorkRunsAlone) {
  Peer& leader = New();
  ASSERT_EQ(queue_.Join(&leader.writer), Role::kLeader);
  test::Actor other;
  std::atomic<bool> inside = false;
  other.Start([&] {
    WriteQueue::Exclusive exclusive(&queue_);
    inside = true;
    exclusive.Leave();
    exclusive.Leave();
  });
  for (int i = 0; i < 1000; ++i) {
    EXPECT_EQ(queue_.Form(&leader.writer).count, 1u);
    EXPECT_FALSE(inside);
  }
  Leave(leader);
  other.Wait();
  EXPECT_TRUE(inside);
}

TEST_F(WriteQueueTest, LeaderWaitsForWritersThatSharedTheLastSync) {
  Peer& leader = New(Sync());
  Peer& follower = New(Sync());
  Peer& behind = New(Sync());
  ASSERT_EQ(queue_.Join(&leader.writer), Role::kLeader);
  queue_.DelayGroupCommit(&leader.writer, kFarTooLongUs);  // Waits in vain.
  StartJoin(follower, leader, 2);
  const WriteQueue::Group group = queue_.Form(&leader.writer);
  StartJoin(behind, leader, 3);
  queue_.Leave(group, Status::OK());
  follower.actor.Wait();
  behind.actor.Wait();
  ASSERT_EQ(behind.role, Role::kLeader);

  // The two that were answered come back, sooner or later.
  test::Actor second_leader;
  second_leader.Start([&] {
    queue_.DelayGroupCommit(&behind.writer, kFarTooLongUs);
    EXPECT_EQ(queue_.Form(&behind.writer).count, 3u);
  });
  Start(leader);
  Start(follower);
  second_leader.Wait();
  Leave(behind);
  leader.actor.Wait();
  follower.actor.Wait();
}

// B6: a leader that waits for a writer already in the queue would sleep for an
// hour.
TEST_F(WriteQueueTest, LeaderNeverWaitsForWritersInTheQueue) {
  const int writes = test::EnvironmentInt("VARVE_QUEUE_WRITES", 20000);
  Peer& leader = New(Sync());
  Peer& follower = New(Sync());
  ShareASync(leader, follower);
  if (HasFatalFailure()) return;
  // Each expects the other one from now on, so that no group has less.
  std::atomic<int> groups = 0;
  test::RunThreads(2, [&](int) {
    WriteBatch batch;
    for (int i = 0; i < writes; ++i) {
      WriteQueue::Writer writer(Sync(), &batch);
      if (queue_.Join(&writer) != Role::kLeader) continue;
      queue_.DelayGroupCommit(&writer, kFarTooLongUs);
      const WriteQueue::Group group = queue_.Form(&writer);
      EXPECT_EQ(group.count, 2u);
      ++groups;
      queue_.Leave(group, Status::OK());
    }
  });
  EXPECT_EQ(groups, writes);
}

TEST_F(WriteQueueTest, LeaderDoesNotWaitIfAWriterDoesNotFit) {
  Peer& leader = New(Sync());
  Peer& follower = New(Sync());
  ShareASync(leader, follower);
  if (HasFatalFailure()) return;

  ASSERT_EQ(queue_.Join(&leader.writer), Role::kLeader);
  test::Actor awaiting;
  awaiting.Start(
      [&] { queue_.DelayGroupCommit(&leader.writer, kFarTooLongUs); });
  test::Actor other;
  other.Start([&] { WriteQueue::Exclusive exclusive(&queue_); });
  awaiting.Wait();
  EXPECT_EQ(queue_.Form(&leader.writer).count, 1u);
  Leave(leader);
  other.Wait();
}

TEST_F(WriteQueueTest, LeaderWaitsInVainLessAndLessOften) {
  Peer& leader = New(Sync());
  Peer& follower = New(Sync());
  ShareASync(leader, follower);
  if (HasFatalFailure()) return;
  // In vain, and each time more leaders after it do not wait at all.
  for (const int unawaited : {1, 3, 7}) {
    ASSERT_EQ(queue_.Join(&leader.writer), Role::kLeader);
    queue_.DelayGroupCommit(&leader.writer, 1);
    for (int i = 0; i < unawaited; ++i) {
      queue_.DelayGroupCommit(&leader.writer, kFarTooLongUs);
    }
    queue_.Leave(WriteQueue::Group(&leader.writer), Status::OK());
    // Without it, no writer is expected any more.
    ASSERT_EQ(queue_.Join(&leader.writer), Role::kLeader);
    queue_.DelayGroupCommit(&leader.writer, kFarTooLongUs);
    StartJoin(follower, leader, 2);
    Leave(leader);
    follower.actor.Wait();
  }
}

TEST_F(WriteQueueTest, GroupsOfALoneWriterOverlapIfTold) {
  Peer& leader = New();
  ASSERT_EQ(queue_.Join(&leader.writer), Role::kLeader);
  const WriteQueue::Group group = queue_.Form(&leader.writer);
  EXPECT_FALSE(queue_.Overlaps(group));
  queue_.OverlapNext(3);
  EXPECT_TRUE(queue_.Overlaps(group));
  EXPECT_TRUE(queue_.Overlaps(group));
  EXPECT_FALSE(queue_.Overlaps(group));
  Leave(leader);
}

// B1 to B5 at random: `log` and `memtable` are plain, so that a second leader,
// or a follower that inserts when it should not, is a race.
TEST_F(WriteQueueTest, StressEveryWriterIsAnsweredOnce) {
  constexpr int kThreads = 4;
  const int writes = test::EnvironmentInt("VARVE_QUEUE_WRITES", 20000);
  std::vector<int> log;
  std::vector<int> memtable(kThreads * static_cast<size_t>(writes), 0);
  int switches = 0;
  size_t published = 0;
  std::atomic<uint64_t> grouped = 0;
  test::RunThreads(kThreads, [&](int t) {
    test::Rng rng(static_cast<uint64_t>(t) + 1);
    for (int i = 0; i < writes; ++i) {
      const int id = t * writes + i;
      WriteBatch batch;
      batch.Put(std::to_string(id), std::string(rng.Below(20), 'v'));
      const auto insert = [&](const WriteBatch& its) {
        struct Handler : WriteBatch::Handler {
          void Put(const Slice& key, const Slice&) override {
            id = atoi(key.ToString().c_str());
          }
          void Delete(const Slice&) override {}
          void DeleteRange(const Slice&, const Slice&) override {}
          int id = -1;
        } handler;
        EXPECT_TRUE(its.Iterate(&handler).ok());
        ++memtable[static_cast<size_t>(handler.id)];
      };
      WriteQueue::Writer writer(rng.OneIn(3) ? Sync() : WriteOptions(), &batch);
      switch (queue_.Join(&writer)) {
        case Role::kLeader: {
          if (writer.sync) queue_.DelayGroupCommit(&writer, 5);
          const WriteQueue::Group group = queue_.Form(&writer);
          group.ForEach([&](WriteQueue::Writer* w) {
            log.push_back(static_cast<int>(w->batch->Count()));
          });
          queue_.InsertAll(group,
                           [&](WriteQueue::Writer* w) { insert(*w->batch); });
          published += group.count;
          grouped += group.count - 1;
          queue_.Leave(group, Status::OK());
          break;
        }
        case Role::kInsert:
          insert(batch);
          queue_.FinishInsert(&writer);
          break;
        case Role::kDone:
          break;
      }
      EXPECT_TRUE(writer.status.ok());
      if (rng.OneIn(50)) {
        const WriteQueue::Exclusive exclusive(&queue_);
        ++switches;
      }
    }
  });
  EXPECT_EQ(log.size(), memtable.size());
  EXPECT_EQ(published, memtable.size());
  for (const int count : memtable) ASSERT_EQ(count, 1);
  EXPECT_GT(switches, 0);
  printf("%llu of %zu writes in another's group\n",
         static_cast<unsigned long long>(grouped.load()), memtable.size());
}

}  // namespace
}  // namespace varve
