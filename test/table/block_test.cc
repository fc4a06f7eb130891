// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: a block either gives back exactly its entries, in every kind of walk,
// or is refused; no bytes make it read beyond itself. Method: random blocks
// against a sorted vector; blocks made by hand with one fault each; every cut
// and every changed byte of a small block, walked if it is accepted (under the
// sanitizers this finds any access out of bounds).
#include "table/block.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "table/block_builder.h"
#include "test/testing/seed.h"

namespace varve {
namespace {

using ::testing::HasSubstr;
using Entries = std::vector<std::pair<std::string, std::string>>;

const InternalKeyComparator* Comparator() {
  static const InternalKeyComparator comparator(BytewiseComparator());
  return &comparator;
}

std::string Key(const Slice& user_key, SequenceNumber sequence,
                ValueType type = ValueType::kValue) {
  return MakeInternalKey(user_key, PackTrailer(sequence, type));
}

std::string Body(const Entries& entries, int restart_interval = 16) {
  BlockBuilder builder(restart_interval);
  for (const auto& [key, value] : entries) builder.Add(key, value);
  return *builder.Finish();
}

Status Create(const std::string& body, std::unique_ptr<Block>* block) {
  BlockContents contents;
  // Exactly as large as the body, so that one byte too far is noticed.
  contents.data.reset(new char[body.size()]);
  memcpy(contents.data.get(), body.data(), body.size());
  contents.size = contents.allocated_bytes = body.size();
  return Block::Create(std::move(contents), block);
}

std::unique_ptr<Block> MakeBlock(const std::string& body) {
  std::unique_ptr<Block> block;
  const Status s = Create(body, &block);
  EXPECT_TRUE(s.ok()) << s.ToString();
  return block;
}

std::string RefusalOf(const std::string& body) {
  std::unique_ptr<Block> block;
  const Status s = Create(body, &block);
  EXPECT_EQ(block, nullptr);
  return s.ToString();
}

// An entry as it is stored.
std::string Raw(int shared, const std::string& rest, const std::string& value) {
  std::string entry;
  PutVarint32(&entry, static_cast<uint32_t>(shared));
  PutVarint32(&entry, static_cast<uint32_t>(rest.size()));
  PutVarint32(&entry, static_cast<uint32_t>(value.size()));
  return entry + rest + value;
}

std::string WithRestarts(std::string entries,
                         const std::vector<uint32_t>& restarts,
                         uint32_t count) {
  for (const uint32_t offset : restarts) PutFixed32(&entries, offset);
  PutFixed32(&entries, count);
  return entries;
}

// Visits everything that an iterator can reach, whatever the order of keys.
void WalkEverywhere(const Block& block, SequenceNumber global_sequence) {
  BlockIterator it;
  it.Reset(&block, Comparator(), global_sequence);
  std::vector<std::string> keys;
  size_t bytes = 0;
  for (it.SeekToFirst(); it.Valid(); it.Next()) {
    keys.push_back(it.key().ToString());
    bytes += it.value().ToString().size();
  }
  ASSERT_EQ(keys.size(), block.EntryCount());
  ASSERT_LE(bytes, block.ApproximateMemoryUsage());
  size_t count = 0;
  for (it.SeekToLast(); it.Valid(); it.Prev()) {
    ++count;
    ASSERT_LE(count, keys.size());
    ASSERT_EQ(it.key(), keys[keys.size() - count]);
  }
  ASSERT_EQ(count, keys.size());
  keys.push_back(Key("", kMaxSequenceNumber));
  keys.push_back(Key("\xFF\xFF", 0));
  for (const std::string& key : keys) {
    it.Seek(key);
    if (it.Valid()) it.Prev();
    it.SeekForPrev(key);
    if (it.Valid()) it.Next();
  }
}

// Compares all walks with a sorted vector.
void CheckAgainst(const Block& block, const Entries& expected,
                  SequenceNumber global_sequence,
                  const std::vector<std::string>& targets) {
  BlockIterator it;
  it.Reset(&block, Comparator(), global_sequence);
  EXPECT_FALSE(it.Valid());
  ASSERT_EQ(block.EntryCount(), expected.size());
  size_t i = 0;
  for (it.SeekToFirst(); it.Valid(); it.Next(), ++i) {
    ASSERT_EQ(it.key(), expected[i].first);
    ASSERT_EQ(it.value(), expected[i].second);
  }
  ASSERT_EQ(i, expected.size());
  for (it.SeekToLast(); it.Valid(); it.Prev()) {
    ASSERT_EQ(it.key(), expected[--i].first);
    ASSERT_EQ(it.value(), expected[i].second);
  }
  ASSERT_EQ(i, 0u);
  for (const std::string& target : targets) {
    const auto at_or_behind = std::find_if(
        expected.begin(), expected.end(), [&target](const auto& entry) {
          return Comparator()->Compare(entry.first, target) >= 0;
        });
    it.Seek(target);
    ASSERT_EQ(it.Valid(), at_or_behind != expected.end());
    if (it.Valid()) {
      ASSERT_EQ(it.key(), at_or_behind->first);
      it.Prev();
      ASSERT_EQ(it.Valid(), at_or_behind != expected.begin());
    }
    auto before = at_or_behind;
    if (before == expected.end() || before->first != target) {
      before = before == expected.begin() ? expected.end() : before - 1;
    }
    it.SeekForPrev(target);
    ASSERT_EQ(it.Valid(), before != expected.end());
    if (it.Valid()) {
      ASSERT_EQ(it.key(), before->first);
    }
  }
}

TEST(BlockTest, GivesBackRandomEntries) {
  test::Rng random(test::TestSeed());
  for (int round = 0; round < 200; ++round) {
    // Every other block as ingested tables have them.
    const SequenceNumber global_sequence = round % 2 == 0 ? 0 : 12345;
    std::map<std::string, std::string> model;
    const int count = random.Between(0, 120);
    for (int i = 0; i < count; ++i) {
      std::string user_key(random.Below(12), 'k');
      if (random.OneIn(20)) user_key.append(300, 'l');
      user_key += static_cast<char>(random.Below(4));
      user_key += static_cast<char>(random.Next());
      model[user_key] = random.Bytes(random.Below(150));
    }
    Entries stored;
    Entries expected;
    std::vector<std::string> targets = {Key("", 1), Key("\xFF", 1)};
    for (const auto& [user_key, value] : model) {
      const auto type = random.Pick({ValueType::kValue, ValueType::kDeletion,
                                     ValueType::kSingleDeletion});
      const int versions = global_sequence != 0 ? 1 : random.Between(1, 3);
      for (int v = versions; v > 0; --v) {
        const auto sequence = static_cast<SequenceNumber>(10 * v);
        stored.emplace_back(
            Key(user_key, global_sequence != 0 ? 0 : sequence, type), value);
        expected.emplace_back(
            Key(user_key, global_sequence != 0 ? global_sequence : sequence,
                type),
            value);
        targets.push_back(expected.back().first);
        targets.push_back(Key(user_key, sequence + random.Below(3)));
      }
      targets.push_back(Key(user_key + '\0', 5));
    }
    const int interval = random.Pick({1, 2, 3, 16});
    const auto block = MakeBlock(Body(stored, interval));
    ASSERT_NE(block, nullptr);
    ASSERT_NO_FATAL_FAILURE(
        CheckAgainst(*block, expected, global_sequence, targets));
  }
}

TEST(BlockTest, EmptyBlockIsEmpty) {
  const auto block = MakeBlock(Body({}));
  CheckAgainst(*block, {}, 0, {Key("a", 1)});
  CheckAgainst(*block, {}, 7, {Key("a", 1)});
}

TEST(BlockTest, RewritesTrailersThatAreShared) {
  // The user key of the second entry continues with the first one's trailer,
  // so that its stored form shares bytes of it.
  const std::string first = Key("a", 0);
  const std::string second = Key(first + "b", 0);
  const auto block = MakeBlock(Body({{first, "1"}, {second, "2"}}));
  CheckAgainst(*block, {{Key("a", 99), "1"}, {Key(first + "b", 99), "2"}}, 99,
               {});
}

TEST(BlockTest, PointsIntoTheBlockForFullKeys) {
  const auto block = MakeBlock(Body({{Key("abc", 1), "v"}}));
  BlockIterator it;
  it.Reset(block.get(), Comparator(), 0);
  it.SeekToFirst();
  EXPECT_EQ(it.key().end(), it.value().data());
}

TEST(BlockTest, SkipsHashIndex) {
  std::string body = Body({{Key("a", 1), "1"}, {Key("b", 1), "2"}}, 1);
  body.resize(body.size() - 4);
  body += std::string("\x00\xFF\x01", 3);  // Buckets.
  body += std::string("\x03\x00", 2);
  PutFixed32(&body, 2 | 1u << 31);
  const auto block = MakeBlock(body);
  CheckAgainst(*block, {{Key("a", 1), "1"}, {Key("b", 1), "2"}}, 0, {});

  std::string overrun = Body({{Key("a", 1), "1"}});
  overrun.resize(overrun.size() - 4);
  overrun += "\xFF\xFF";
  PutFixed32(&overrun, 1 | 1u << 31);
  EXPECT_THAT(RefusalOf(overrun), HasSubstr("hash index overruns"));
}

TEST(BlockTest, RefusesBadRestartPoints) {
  const std::string entry = Raw(0, Key("a", 1), "v");
  const auto size = static_cast<uint32_t>(entry.size());
  const std::string two = entry + Raw(1, "b" + Key("", 1), "v");
  EXPECT_THAT(RefusalOf(""), HasSubstr("Corruption: a block of 0 bytes"));
  EXPECT_THAT(RefusalOf("abc"), HasSubstr("too short"));
  EXPECT_THAT(RefusalOf(WithRestarts(entry, {}, 0)),
              HasSubstr("without restart points"));
  EXPECT_THAT(RefusalOf(WithRestarts("", {}, 0)),
              HasSubstr("without restart points"));
  EXPECT_THAT(RefusalOf(WithRestarts(entry, {0}, 1000)), HasSubstr("overrun"));
  EXPECT_THAT(RefusalOf(WithRestarts(entry, {0}, 0x8000000)),
              HasSubstr("overrun"));
  // Beyond the entries, inside an entry, behind the last, not ascending.
  EXPECT_THAT(RefusalOf(WithRestarts(entry, {0, 1u << 30}, 2)),
              HasSubstr("restart point 1"));
  EXPECT_THAT(RefusalOf(WithRestarts(entry, {0, 3}, 2)),
              HasSubstr("restart point 1"));
  EXPECT_THAT(RefusalOf(WithRestarts(entry, {0, size}, 2)),
              HasSubstr("restart point 1"));
  EXPECT_THAT(RefusalOf(WithRestarts(entry + entry, {size, 0}, 2)),
              HasSubstr("before all restart points"));
  EXPECT_THAT(RefusalOf(WithRestarts(entry, {0, 0}, 2)),
              HasSubstr("restart point 1"));
  EXPECT_THAT(RefusalOf(WithRestarts("", {5}, 1)), HasSubstr("restart point"));
  // Where bytes are shared.
  EXPECT_THAT(RefusalOf(WithRestarts(two, {0, size}, 2)),
              HasSubstr("shares bytes at a restart point"));
  for (const uint32_t flag : {1u << 28, 1u << 29, 1u << 30}) {
    EXPECT_THAT(RefusalOf(WithRestarts(entry, {0}, 1 | flag)),
                HasSubstr("Not supported: block layout"));
  }
}

TEST(BlockTest, RefusesBadEntries) {
  const auto refusal = [](const std::string& entries) {
    return RefusalOf(WithRestarts(entries, {0}, 1));
  };
  const std::string good = Raw(0, Key("a", 1), "v");
  EXPECT_THAT(refusal(Raw(1, Key("a", 1), "v")), HasSubstr("shares more"));
  EXPECT_THAT(refusal(good + Raw(10, Key("a", 1), "v")),
              HasSubstr("entry at byte 13 of the block: shares more"));
  EXPECT_THAT(refusal(Raw(0, "1234567", "v")), HasSubstr("no trailer"));
  EXPECT_THAT(refusal(Raw(0, "", "")), HasSubstr("no trailer"));
  EXPECT_THAT(refusal(good.substr(0, good.size() - 1)), HasSubstr("overruns"));
  EXPECT_THAT(refusal(good + "\x01"), HasSubstr("bad length"));
  EXPECT_THAT(refusal(std::string("\0\xFF\xFF\xFF\xFF\x0F\0", 7) + good),
              HasSubstr("overruns"));
  EXPECT_THAT(refusal(std::string("\0\x08\xFF\xFF\xFF\xFF\x0F", 7) + good),
              HasSubstr("overruns"));
  EXPECT_THAT(refusal(std::string("\0\xFF\xFF\xFF\xFF\xFF\x01", 7) + good),
              HasSubstr("bad length"));
}

TEST(BlockTest, NamesFeaturesThatItLacks) {
  const auto refusal = [](int type) {
    return RefusalOf(Body({{Key("a", 9), "v"},
                           {Key("b", 9, static_cast<ValueType>(type)), "v"}}));
  };
  EXPECT_THAT(refusal(0x02), HasSubstr("Not supported: merge operands"));
  EXPECT_THAT(refusal(0x0F), HasSubstr("Not supported: range tombstones"));
  EXPECT_THAT(refusal(0x11), HasSubstr("Not supported: blob files"));
  EXPECT_THAT(refusal(0x14), HasSubstr("Not supported: user timestamps"));
  EXPECT_THAT(refusal(0x16), HasSubstr("Not supported: wide columns"));
  EXPECT_THAT(refusal(0x18), HasSubstr("Not supported: values with"));
  EXPECT_THAT(refusal(0x55), HasSubstr("unknown value type 85"));
  EXPECT_THAT(refusal(0xFF), HasSubstr("Corruption"));
}

TEST(BlockTest, SurvivesEveryCutAndEveryChangedByte) {
  const std::string body = Body({{Key("apple", 3), "red"},
                                 {Key("apple", 2, ValueType::kDeletion), ""},
                                 {Key("apricot", 9), std::string(20, 'x')},
                                 {Key("b", 1), ""}},
                                2);
  std::unique_ptr<Block> block;
  for (size_t size = 0; size < body.size(); ++size) {
    if (Create(body.substr(0, size), &block).ok()) {
      ASSERT_NO_FATAL_FAILURE(WalkEverywhere(*block, 0));
    }
    if (Create(body.substr(body.size() - size), &block).ok()) {
      ASSERT_NO_FATAL_FAILURE(WalkEverywhere(*block, 0));
    }
  }
  int accepted = 0;
  for (size_t i = 0; i < body.size(); ++i) {
    for (int change = 1; change < 256; ++change) {
      std::string changed = body;
      changed[i] = static_cast<char>(changed[i] ^ change);
      if (!Create(changed, &block).ok()) continue;
      ++accepted;
      ASSERT_NO_FATAL_FAILURE(WalkEverywhere(*block, 0));
      ASSERT_NO_FATAL_FAILURE(WalkEverywhere(*block, 77));
    }
  }
  // Changed values and user keys cannot be noticed here.
  EXPECT_GT(accepted, 0);
}

TEST(BlockTest, CountsItsMemory) {
  const std::string body = Body({{Key("a", 1), std::string(1000, 'v')}});
  EXPECT_EQ(MakeBlock(body)->ApproximateMemoryUsage(),
            sizeof(Block) + body.size());
}

}  // namespace
}  // namespace varve
