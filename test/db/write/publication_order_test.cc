// Varve: a key-value storage engine. MIT licence, see LICENSE.
// Tags: threads

// Goal: numbers become visible in their order, each only when all updates up to
// it are inserted; each ticket is answered once, and tells whether its updates
// are visible. Method: the bad interleavings of db/write/publication_order.h as
// steps of several threads, with its labels; and a stress test whose plain
// variables ThreadSanitizer watches.

#include "db/write/publication_order.h"

#include "db/write/write_queue.h"
#include "test/testing/seed.h"
#include "test/testing/test_headers.h"
#include "test/testing/threads/actor.h"
#include "test/testing/threads/run_threads.h"

namespace varve {
namespace {

class PublicationOrderTest : public testing::Test {
 protected:
  using Ticket = PublicationOrder::Ticket;

  // A ticket on a thread of its own.
  struct Peer {
    Ticket ticket;
    bool published = false;
    test::Actor actor;
  };

  // Starts Complete, and returns when the thread sleeps.
  void Sleep(Peer& peer) {
    Start(peer);
    while (!PublicationOrder::TEST_IsAsleep(peer.ticket)) {
      std::this_thread::yield();
    }
  }
  void Start(Peer& peer) {
    peer.actor.Start([this, &peer] {
      peer.published = order_.Complete(&peer.ticket, &published_);
    });
  }
  bool Complete(Peer& peer) {
    Start(peer);
    peer.actor.Wait();
    return peer.published;
  }

  PublicationOrder order_;
  std::atomic<SequenceNumber> published_{0};
  Peer a_;
  Peer b_;
  Peer c_;
};

TEST_F(PublicationOrderTest, OneTicketIsPublishedByItsThread) {
  for (SequenceNumber last : {3, 4, 9}) {
    Ticket ticket;
    EXPECT_TRUE(order_.IsIdle());
    EXPECT_EQ(order_.LastIssued(published_), published_);
    order_.Issue(&ticket, last);
    EXPECT_FALSE(order_.IsIdle());
    EXPECT_EQ(order_.LastIssued(published_), last);
    EXPECT_TRUE(order_.Complete(&ticket, &published_));
    EXPECT_EQ(published_, last);
  }
  EXPECT_TRUE(order_.IsIdle());
}

TEST_F(PublicationOrderTest, B1ALaterTicketIsNotPublishedFirst) {
  order_.Issue(&a_.ticket, 2);
  order_.Issue(&b_.ticket, 5);
  order_.Issue(&c_.ticket, 7);
  Sleep(b_);
  Sleep(c_);
  EXPECT_EQ(published_, 0u);
  // B4: both are woken.
  EXPECT_TRUE(Complete(a_));
  EXPECT_EQ(published_, 7u);
  b_.actor.Wait();
  c_.actor.Wait();
  EXPECT_TRUE(b_.published);
  EXPECT_TRUE(c_.published);
  EXPECT_TRUE(order_.IsIdle());
}

TEST_F(PublicationOrderTest, B2TheLaterOfTwoThreadsPublishes) {
  order_.Issue(&a_.ticket, 2);
  order_.Issue(&b_.ticket, 5);
  order_.Issue(&c_.ticket, 7);
  // T6 before T3.
  EXPECT_TRUE(Complete(a_));
  EXPECT_EQ(published_, 2u);
  // T3 of the third one before T6 of the second.
  Sleep(c_);
  EXPECT_EQ(published_, 2u);
  EXPECT_TRUE(Complete(b_));
  c_.actor.Wait();
  EXPECT_TRUE(c_.published);
  EXPECT_EQ(published_, 7u);
}

TEST_F(PublicationOrderTest, B3ATicketIsIssuedWhileTheLastOneEnds) {
  order_.Issue(&a_.ticket, 2);
  order_.Issue(&b_.ticket, 5, [this] {
    // The first one has published its number, and cannot end.
    Start(a_);
    while (published_ != 2) std::this_thread::yield();
    EXPECT_FALSE(order_.IsIdle());
  });
  a_.actor.Wait();
  EXPECT_TRUE(a_.published);
  EXPECT_TRUE(Complete(b_));
  EXPECT_EQ(published_, 5u);
  EXPECT_TRUE(order_.IsIdle());
}

TEST_F(PublicationOrderTest, B6NoNumberIsGivenOutTwice) {
  order_.Issue(&a_.ticket, 2);
  const SequenceNumber before = published_;
  EXPECT_TRUE(Complete(a_));
  EXPECT_EQ(order_.LastIssued(before), 2u);
  // Other work of a leader gives numbers without a ticket.
  EXPECT_EQ(order_.LastIssued(9), 9u);
}

TEST_F(PublicationOrderTest, B7NothingIsPublishedAfterAFailure) {
  order_.Issue(&a_.ticket, 2);
  order_.Issue(&b_.ticket, 5);
  order_.Issue(&c_.ticket, 7);
  b_.ticket.failed = true;
  Sleep(b_);
  EXPECT_TRUE(Complete(a_));
  b_.actor.Wait();
  EXPECT_FALSE(b_.published);
  EXPECT_EQ(published_, 2u);
  EXPECT_FALSE(Complete(c_));
  // Nor a later one.
  Ticket later;
  order_.Issue(&later, 8);
  EXPECT_FALSE(order_.Complete(&later, &published_));
  EXPECT_EQ(published_, 2u);
  // Nor after it was awaited, nor with its numbers.
  order_.AwaitIdle();
  EXPECT_TRUE(order_.has_failed());
  EXPECT_EQ(order_.LastIssued(published_), 8u);
  Ticket last;
  order_.Issue(&last, 9);
  EXPECT_FALSE(order_.Complete(&last, &published_));
  EXPECT_EQ(published_, 2u);
}

TEST_F(PublicationOrderTest, AwaitIdleWaitsForAllTickets) {
  order_.AwaitIdle();
  order_.Issue(&a_.ticket, 2);
  order_.Issue(&b_.ticket, 5);
  Sleep(b_);
  c_.actor.Start([this] {
    order_.AwaitIdle();
    EXPECT_EQ(published_, 5u);
    c_.published = true;
  });
  EXPECT_TRUE(Complete(a_));
  b_.actor.Wait();
  c_.actor.Wait();
  EXPECT_TRUE(c_.published);
  EXPECT_TRUE(order_.IsIdle());
}

// Threads take turns as the leader; each inserts into a plain array what nobody
// else does, and a reader finds all of it up to the published number.
TEST_F(PublicationOrderTest, StressReadersSeeAllUpToThePublishedNumber) {
  constexpr int kWriters = 4;
  constexpr SequenceNumber kUpdates = 60000;
  WriteQueue queue;
  std::vector<uint64_t> inserted(kUpdates + 1);
  SequenceNumber issued = 0;  // Owned by the leader.
  std::atomic<bool> done{false};
  const uint64_t seed = test::TestSeed();
  test::RunThreads(kWriters + 1, [&](int thread) {
    if (thread == kWriters) {
      while (!done) {
        const SequenceNumber last = published_;
        for (SequenceNumber n = last > 50 ? last - 50 : 1; n <= last; ++n) {
          ASSERT_EQ(inserted[n], n);
        }
      }
      return;
    }
    test::Rng rng(seed + static_cast<uint64_t>(thread));
    for (bool more = true; more;) {
      WriteQueue::Writer writer;
      ASSERT_EQ(queue.Join(&writer), WriteQueue::Role::kLeader);
      const SequenceNumber first = queue.order().LastIssued(published_) + 1;
      ASSERT_EQ(first, issued + 1);
      issued = std::min(kUpdates, issued + rng.Below(4) + 1);
      const SequenceNumber last = issued;
      more = last < kUpdates;
      if (rng.OneIn(50)) {
        queue.AwaitIdle();
        ASSERT_EQ(published_, first - 1);
        for (SequenceNumber n = first; n <= last; ++n) inserted[n] = n;
        published_ = last;
        queue.Leave(WriteQueue::Group(&writer), Status::OK());
        continue;
      }
      Ticket ticket;
      queue.order().Issue(&ticket, last);
      queue.HandOver(WriteQueue::Group(&writer));
      for (SequenceNumber n = first; n <= last; ++n) inserted[n] = n;
      if (rng.OneIn(100)) std::this_thread::yield();
      ASSERT_TRUE(queue.order().Complete(&ticket, &published_));
      ASSERT_GE(published_, last);  // Its own are visible.
      queue.Answer(WriteQueue::Group(&writer), Status::OK());
    }
    done = true;
  });
  EXPECT_EQ(published_, kUpdates);
  EXPECT_TRUE(queue.IsIdle());
}

}  // namespace
}  // namespace varve
