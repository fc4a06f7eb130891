// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: indexes of all forms that files have lead to the right blocks, and bad
// ones are refused. Method: index blocks made here in every form; every cut
// and every flipped byte of one.
#include "table/table_index.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "table/block_builder.h"
#include "util/coding.h"

namespace varve {
namespace {

using ::testing::HasSubstr;

constexpr uint64_t kFileSize = 100000;

const InternalKeyComparator* Comparator() {
  static const InternalKeyComparator comparator(BytewiseComparator());
  return &comparator;
}

struct Form {
  bool user_keys = false;
  bool delta = false;
  uint32_t type = 0;
  int restart_interval = 1;
};

TableProperties PropertiesOf(const Form& form) {
  TableProperties properties;
  properties.index_key_is_user_key = form.user_keys;
  properties.index_value_is_delta_encoded = form.delta;
  properties.index_type = form.type;
  return properties;
}

// The index of blocks that end with these user keys. Each has 100 bytes more
// than the one before.
std::string MakeIndex(const Form& form, const std::vector<std::string>& last) {
  BlockBuilder builder(form.restart_interval,
                       form.delta ? BlockBuilder::ValueLength::kLeftOut
                                  : BlockBuilder::ValueLength::kStored);
  BlockHandle handle;
  std::string previous;
  int entries = 0;
  for (const std::string& user_key : last) {
    const std::string key =
        form.user_keys
            ? user_key
            : MakeInternalKey(user_key, PackTrailer(5, ValueType::kValue));
    handle.offset += entries == 0 ? 0 : handle.size + kBlockTrailerSize;
    handle.size += 100;
    const bool shares = !previous.empty() && key[0] == previous[0] &&
                        entries % form.restart_interval != 0;
    std::string value;
    if (form.delta && shares) {
      PutVarint64(&value, ZigZagEncode(100));
    } else {
      handle.EncodeTo(&value);
    }
    if (form.type == 3) PutLengthPrefixedSlice(&value, "first key");
    builder.Add(key, value);
    previous = key;
    ++entries;
  }
  return *builder.Finish();
}

Status Decode(const Form& form, const std::string& body, TableIndex* index) {
  return index->Decode(body, PropertiesOf(form), kFileSize, Comparator());
}

std::string Target(const Slice& user_key, SequenceNumber sequence) {
  return MakeInternalKey(user_key, SeekTrailer(sequence));
}

TEST(TableIndexTest, FindsBlocksInEveryForm) {
  for (const bool user_keys : {false, true}) {
    for (const bool delta : {false, true}) {
      for (const uint32_t type : {0u, 1u, 3u}) {
        for (const int interval : {1, 3, 16}) {
          const Form form{user_keys, delta, type, interval};
          TableIndex index;
          const Status s = Decode(
              form, MakeIndex(form, {"bb", "bd", "d", "da", "x"}), &index);
          ASSERT_TRUE(s.ok()) << s.ToString();
          ASSERT_EQ(index.size(), 5u);
          EXPECT_EQ(index.handle(0).offset, 0u);
          EXPECT_EQ(index.handle(0).size, 100u);
          EXPECT_EQ(index.handle(4).offset, 100u + 200 + 300 + 400 + 20);
          EXPECT_EQ(index.handle(4).size, 500u);
          EXPECT_EQ(index.Find(Target("", 9)), 0u);
          EXPECT_EQ(index.Find(Target("bb", 9)), 0u);
          EXPECT_EQ(index.Find(Target("bc", 9)), 1u);
          EXPECT_EQ(index.Find(Target("d", 5)), 2u);
          // Versions before the separator's may be in the next block, unless
          // separators are user keys.
          EXPECT_EQ(index.Find(Target("d", 4)), user_keys ? 2u : 3u);
          EXPECT_EQ(index.Find(Target("x", 9)), 4u);
          EXPECT_EQ(index.Find(Target("y", 9)), 5u);
          EXPECT_TRUE(index.MayContinue(2, "d"));
          EXPECT_FALSE(index.MayContinue(2, "c"));
          EXPECT_GT(index.ApproximateMemoryUsage(), 5 * sizeof(BlockHandle));
        }
      }
    }
  }
}

TEST(TableIndexTest, EmptyIndexHasNoBlocks) {
  TableIndex index;
  ASSERT_TRUE(Decode({}, MakeIndex({}, {}), &index).ok());
  EXPECT_EQ(index.size(), 0u);
  EXPECT_EQ(index.Find(Target("a", 1)), 0u);
}

TEST(TableIndexTest, TakesAnyTypeInSeparators) {
  BlockBuilder builder(1);
  std::string value;
  BlockHandle{0, 10}.EncodeTo(&value);
  builder.Add(MakeInternalKey("v", UINT64_MAX), value);
  TableIndex index;
  ASSERT_TRUE(Decode({}, *builder.Finish(), &index).ok());
  EXPECT_EQ(index.Find(Target("u", 1)), 0u);
}

TEST(TableIndexTest, RefusesWhatItCannotRead) {
  const auto refusal = [](const Form& form, const std::string& body) {
    TableIndex index;
    return Decode(form, body, &index).ToString();
  };
  EXPECT_THAT(refusal({true, true, 2, 1}, MakeIndex({}, {"a"})),
              HasSubstr("Not supported: partitioned index"));
  EXPECT_THAT(refusal({true, true, 4, 1}, MakeIndex({}, {"a"})),
              HasSubstr("Not supported: index type 4"));
  EXPECT_THAT(refusal({}, ""), HasSubstr("Corruption: index: "));

  const auto with_value = [](const std::string& key, const BlockHandle& handle,
                             size_t cut) {
    BlockBuilder builder(1);
    std::string value;
    handle.EncodeTo(&value);
    builder.Add(key, value.substr(0, value.size() - cut));
    return *builder.Finish();
  };
  const std::string key = Target("key", 1);
  EXPECT_THAT(refusal({}, with_value(key, {0, 10}, 1)),
              HasSubstr("bad block handle"));
  EXPECT_THAT(refusal({}, with_value("short", {0, 10}, 0)),
              HasSubstr("no trailer"));
  for (const BlockHandle handle :
       {BlockHandle{kFileSize, 0}, BlockHandle{kFileSize - 14, 10},
        BlockHandle{10, uint64_t{1} << 62}, BlockHandle{UINT64_MAX, 10},
        BlockHandle{UINT64_MAX - 3, UINT64_MAX - 3}}) {
    EXPECT_THAT(
        refusal({}, with_value(key, handle, 0)),
        HasSubstr("beyond the file: offset " + std::to_string(handle.offset)));
  }
}

TEST(TableIndexTest, BoundsTheMemoryOfSharedSeparators) {
  // One long separator, and many that differ from it in nothing.
  std::string body;
  const std::string key(1 << 14, 'k');
  PutVarint32(&body, 0);
  PutVarint32(&body, 1 << 14);
  body += key + std::string("\0\x0A", 2);
  for (int i = 0; i < 20000; ++i) {
    PutVarint32(&body, 1 << 14);
    body += std::string("\0\0", 2);
  }
  PutFixed32(&body, 0);
  PutFixed32(&body, 1);
  const Form form{true, true, 0, 16};
  TableIndex index;
  // The handles fit a large file; the keys would take 320 MB.
  const Status s =
      index.Decode(body, PropertiesOf(form), uint64_t{1} << 40, Comparator());
  EXPECT_THAT(s.ToString(), HasSubstr("too much memory"));
}

TEST(TableIndexTest, SurvivesEveryCutAndEveryChangedByte) {
  for (const Form form : {Form{false, false, 0, 1}, Form{true, true, 3, 16}}) {
    const std::string body = MakeIndex(form, {"ab", "ac", "acd", "b"});
    const auto use = [&form](std::string bytes) {
      bytes.shrink_to_fit();
      TableIndex index;
      if (!Decode(form, bytes, &index).ok()) return;
      for (size_t i = 0; i < index.size(); ++i) {
        ASSERT_TRUE(index.handle(i).FitsIn(kFileSize));
        index.MayContinue(i, "ac");
      }
      ASSERT_LE(index.Find(Target("ac", 5)), index.size());
    };
    for (size_t size = 0; size < body.size(); ++size) {
      use(body.substr(0, size));
      use(body.substr(size));
    }
    for (size_t i = 0; i < body.size(); ++i) {
      for (int change = 1; change < 256; ++change) {
        std::string changed = body;
        changed[i] = static_cast<char>(changed[i] ^ change);
        use(changed);
      }
    }
  }
}

}  // namespace
}  // namespace varve
