// Varve: a key-value storage engine. MIT licence, see LICENSE.
// Tags: threads
//
// Goal: the channel delivers each value once, keeps the order of one sender's
// values, and refuses values that it has no space for. Method: senders that
// retry, concurrent with the receiver, through a channel so small that it is
// always full or empty.
#include "monitoring/bounded_channel.h"
#include "test/testing/test_headers.h"

namespace varve {
namespace {

TEST(BoundedChannelTest, RefusesValuesWithoutSpace) {
  BoundedChannel<int, 4> channel;
  int value;
  EXPECT_FALSE(channel.Receive(&value));
  channel.Allocate();
  for (int lap = 0; lap < 5; ++lap) {
    EXPECT_FALSE(channel.Receive(&value));
    for (int i = 0; i < 4; ++i) EXPECT_TRUE(channel.Send(i));
    EXPECT_FALSE(channel.Send(4));
    for (int i = 0; i < 4; ++i) {
      ASSERT_TRUE(channel.Receive(&value));
      EXPECT_EQ(value, i);
    }
  }
}

TEST(BoundedChannelTest, DeliversAllInTheOrderOfEachSender) {
  struct Value {
    size_t sender = 0;
    int number = 0;
  };
  constexpr size_t kSenders = 4;
  constexpr int kEach = 20000;
  BoundedChannel<Value, 8> channel;
  channel.Allocate();
  std::vector<std::thread> senders;
  for (size_t s = 0; s < kSenders; ++s) {
    senders.emplace_back([&channel, s] {
      for (int i = 0; i < kEach; ++i) {
        while (!channel.Send({s, i})) std::this_thread::yield();
      }
    });
  }
  int next[kSenders] = {};
  for (size_t received = 0; received < kSenders * kEach;) {
    Value value;
    if (!channel.Receive(&value)) {
      std::this_thread::yield();
      continue;
    }
    ASSERT_EQ(value.number, next[value.sender]);
    ++next[value.sender];
    ++received;
  }
  for (auto& sender : senders) sender.join();
}

}  // namespace
}  // namespace varve
