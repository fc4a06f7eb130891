// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: the builder writes the exact bytes of the format. Method: blocks small
// enough to write down, and random ones read back by the checked scanner.
#include "table/block/block_builder.h"

#include <gtest/gtest.h>

#include <map>

#include "table/block/entry_scanner.h"
#include "test/testing/table/table_bytes.h"
#include "util/base/random.h"
#include "util/bytes/coding.h"

namespace varve {
namespace {

std::string Bytes(std::initializer_list<int> values) {
  std::string result;
  for (const int value : values) result.push_back(static_cast<char>(value));
  return result;
}

TEST(BlockBuilderTest, EmptyBlockHasOneRestartPoint) {
  BlockBuilder builder(16);
  EXPECT_TRUE(builder.empty());
  EXPECT_EQ(builder.CurrentSize(), 8u);
  EXPECT_EQ(*builder.Finish(), Bytes({0, 0, 0, 0, 1, 0, 0, 0}));
}

TEST(BlockBuilderTest, LeavesOutSharedBytesExceptAtRestarts) {
  BlockBuilder builder(2);
  builder.Add("car", "1");
  builder.Add("cart", "");
  builder.Add("carts", "22");
  EXPECT_EQ(builder.last_key(), "carts");
  const size_t size = builder.CurrentSize();
  const std::string body = *builder.Finish();
  EXPECT_EQ(body, Bytes({0, 3, 1, 'c', 'a', 'r', '1',                 //
                         3, 1, 0, 't',                                //
                         0, 5, 2, 'c', 'a', 'r', 't', 's', '2', '2',  //
                         0, 0, 0, 0,   11,  0,   0,   0,   2,   0,   0, 0}));
  EXPECT_EQ(body.size(), size);
}

TEST(BlockBuilderTest, LeavesOutValueLengthsOnRequest) {
  BlockBuilder builder(1, BlockBuilder::ValueLength::kLeftOut);
  builder.Add("a", Bytes({0, 9}));
  builder.Add("ab", Bytes({14, 9}));
  EXPECT_EQ(*builder.Finish(),
            Bytes({0, 1, 'a', 0, 9, 0, 2, 'a', 'b', 14, 9,  //
                   0, 0, 0,   0, 5, 0, 0, 0,   2,   0,  0, 0}));
}

TEST(BlockBuilderTest, BeginsAnewAfterReset) {
  BlockBuilder builder(16);
  builder.Add("key", "value");
  const std::string first = *builder.Finish();
  builder.Reset();
  EXPECT_TRUE(builder.empty());
  EXPECT_EQ(builder.last_key(), "");
  builder.Add("key", "value");
  EXPECT_EQ(*builder.Finish(), first);
}

TEST(BlockBuilderTest, RandomEntriesReadBack) {
  const uint64_t seed = ::testing::UnitTest::GetInstance()->random_seed() + 1;
  SCOPED_TRACE("seed " + std::to_string(seed));
  Random random(seed);
  for (const int interval : {1, 3, 16, BlockBuilder::kNoRestarts}) {
    std::map<std::string, std::string> expected;
    for (int i = 0; i < 500; ++i) {
      std::string key(random.Uniform(40), 'k');
      for (char& c : key) c = static_cast<char>('a' + random.Uniform(2));
      expected[key] = std::string(random.Uniform(300), 'v');
    }
    BlockBuilder builder(interval);
    for (const auto& [key, value] : expected) {
      const size_t bound = builder.SizeAfter(key, value);
      builder.Add(key, value);
      EXPECT_LE(builder.CurrentSize(), bound + 4);
    }
    const std::string body = *builder.Finish();
    const testing::KeysAndValues all(expected.begin(), expected.end());
    EXPECT_EQ(testing::TableBytes::Entries(body), all);

    BlockTail tail;
    ASSERT_TRUE(DecodeBlockTail(body, &tail).ok());
    const size_t whole = static_cast<size_t>(interval);
    EXPECT_EQ(tail.restart_count, (expected.size() + whole - 1) / whole);
    // Every interval-th entry is where the restart points say.
    EntryScanner scanner(Slice(body.data(), tail.entries_size));
    for (size_t i = 0; scanner.Next(); ++i) {
      if (i % whole != 0) continue;
      EXPECT_EQ(scanner.shared(), 0u);
      EXPECT_EQ(DecodeFixed32(body.data() + tail.entries_size + i / whole * 4),
                scanner.offset());
    }
  }
}

}  // namespace
}  // namespace varve
