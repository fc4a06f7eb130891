// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: indexes of all forms that files have lead to the right blocks, by
// prefixes as by keys, and bad ones are refused. Method: index blocks made here
// in every form; random separators that are hard to tell apart, against
// std::lower_bound; every cut and every flipped byte of one.
#include "table/index/table_index.h"

#include "table/block/block_builder.h"
#include "test/testing/comparators.h"
#include "test/testing/hard_keys.h"
#include "test/testing/seed.h"
#include "test/testing/status_checks.h"
#include "test/testing/test_headers.h"
#include "util/bytes/coding.h"

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

PropertiesBlock PropertiesOf(const Form& form) {
  PropertiesBlock properties;
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
      PutVarint64(&value, 2 * 100);  // As ZigZagDecode wants it.
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

BlockContents Contents(const std::string& body) {
  BlockContents contents;
  memcpy(contents.buffer.Reserve(body.size()), body.data(), body.size());
  contents.size = body.size();
  return contents;
}

Status Decode(const Form& form, const std::string& body, TableIndex* index) {
  return index->Decode(Contents(body), PropertiesOf(form), kFileSize,
                       Comparator(), false);
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
          ASSERT_TRUE(Ok(Decode(
              form, MakeIndex(form, {"bb", "bd", "d", "da", "x"}), &index)));
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
          EXPECT_EQ(index.MayContinue(2, "d"), !user_keys);
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
  EXPECT_EQ(index.Search(Target("a", 1)), 0u);
  EXPECT_TRUE(index.nodes().empty());
}

// Of a partitioned index, one of whose partitions cannot be read at first.
TEST(TableIndexTest, FlattensPartitions) {
  const std::vector<std::string> all = {"bb", "bd", "d", "da", "x", "xy"};
  for (const bool user_keys : {false, true}) {
    for (const bool delta : {false, true}) {
      const Form form{user_keys, delta, 2, 1};
      const std::vector<std::string> partitions = {
          MakeIndex(form, {all[0], all[1]}), MakeIndex(form, {}),
          MakeIndex(form, {all[2]}), MakeIndex(form, {all[3], all[4], all[5]})};
      const std::string top = MakeIndex(form, {"bd", "c", "d", "xy"});
      int readable = 2;
      const TableIndex::ReadPartition read = [&](const BlockHandle& handle,
                                                 Slice* body) {
        // The n-th has n times 100 bytes.
        const auto i = static_cast<int>(handle.size / 100) - 1;
        if (i >= readable) return Status::IOError("no partition");
        *body = partitions[static_cast<size_t>(i)];
        return Status();
      };
      TableIndex index;
      const auto decode = [&] {
        return index.Decode(Contents(top), PropertiesOf(form), kFileSize,
                            Comparator(), false, read);
      };
      EXPECT_EQ(decode().ToString(), "IO error: index: no partition");
      EXPECT_EQ(index.size(), 0u);
      readable = 4;
      ASSERT_TRUE(Ok(decode()));
      ASSERT_EQ(index.size(), all.size());
      for (size_t i = 0; i < all.size(); ++i) {
        EXPECT_EQ(index.SeparatorUserKey(i), Slice(all[i]));
        EXPECT_EQ(index.Find(Target(all[i], 9)), i);
        EXPECT_EQ(index.Search(Target(all[i], 9)), i);
      }
      EXPECT_EQ(index.handle(1).size, 200u);
      EXPECT_EQ(index.handle(3).size, 100u);
      std::vector<BlockHandle> handles;
      ASSERT_TRUE(
          TableIndex::ListHandles(top, PropertiesOf(form), kFileSize, &handles)
              .ok());
      ASSERT_EQ(handles.size(), partitions.size());
      EXPECT_EQ(handles[3].size, 400u);
      // A partitioned filter may be beside an index with first keys.
      PropertiesBlock first_keys = PropertiesOf(form);
      first_keys.index_type = 3;
      EXPECT_TRUE(
          TableIndex::ListHandles(top, first_keys, kFileSize, &handles).ok());
      EXPECT_EQ(handles.size(), partitions.size());
      EXPECT_THAT(
          TableIndex::ListHandles(top, PropertiesOf(form), 1000, &handles)
              .ToString(),
          HasSubstr("block handle beyond the file"));
    }
  }
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

TEST(TableIndexTest, RefusesUnreadableTables) {
  const auto refusal = [](const Form& form, const std::string& body) {
    TableIndex index;
    return Decode(form, body, &index).ToString();
  };
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

TEST(TableIndexTest, RefusesMoreBlocksThanTheFileHasSpaceFor) {
  for (const Form form : {Form{false, false, 0, 1}, Form{true, true, 0, 16}}) {
    const std::string body = MakeIndex(form, {"a", "b", "c"});
    const uint64_t size = 100 + 200 + 300 + 3 * kBlockTrailerSize;
    TableIndex whole;
    EXPECT_TRUE(whole
                    .Decode(Contents(body), PropertiesOf(form), size,
                            Comparator(), false)
                    .ok());
    // One block, twice: each by itself fits.
    BlockBuilder builder(1, form.delta ? BlockBuilder::ValueLength::kLeftOut
                                       : BlockBuilder::ValueLength::kStored);
    std::string value;
    BlockHandle{0, kFileSize / 2}.EncodeTo(&value);
    builder.Add(Target("a", 1), value);
    builder.Add(Target("b", 1), value);
    TableIndex index;
    EXPECT_THAT(Decode(form, *builder.Finish(), &index).ToString(),
                HasSubstr("more blocks than the file has space for"));
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
  const Status s = index.Decode(Contents(body), PropertiesOf(form),
                                uint64_t{1} << 40, Comparator(), false);
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
      for (const char* user_key : {"", "ab", "ac", "ac\xFF", "c"}) {
        ASSERT_LE(index.Find(Target(user_key, 5)), index.size());
        ASSERT_LE(index.Search(Target(user_key, 5)), index.size());
      }
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

// An index with these separators, of one data block each. Its entries stay
// where they are if separators are user keys, and are copied otherwise.
void MakeOf(const std::vector<std::string>& separators, bool user_keys,
            const InternalKeyComparator* comparator, bool binary_search,
            TableIndex* index) {
  const Form form{user_keys, user_keys, 0, user_keys ? 1 : 16};
  BlockBuilder builder(form.restart_interval,
                       form.delta ? BlockBuilder::ValueLength::kLeftOut
                                  : BlockBuilder::ValueLength::kStored);
  BlockHandle handle{0, 10};
  for (const std::string& separator : separators) {
    std::string value;
    handle.EncodeTo(&value);
    builder.Add(separator, value);
    handle.offset += handle.size + kBlockTrailerSize;
  }
  const Status s =
      index->Decode(Contents(*builder.Finish()), PropertiesOf(form), kFileSize,
                    comparator, binary_search);
  ASSERT_TRUE(Ok(s));
  ASSERT_EQ(index->size(), separators.size());
}

// Compares all searches with a plain one. Returns whether prefixes were
// decisive.
bool CheckSearch(const TableIndex& index,
                 const std::vector<std::string>& separators, bool user_keys,
                 const InternalKeyComparator& comparator,
                 const std::string& target) {
  const Slice user_key = ExtractUserKey(target);
  const auto place = std::lower_bound(
      separators.begin(), separators.end(), target,
      [&](const std::string& separator, const std::string& key) {
        return user_keys
                   ? comparator.CompareUser(separator, ExtractUserKey(key)) < 0
                   : comparator.Compare(separator, key) < 0;
      });
  const auto expected = static_cast<size_t>(place - separators.begin());
  EXPECT_EQ(index.Find(target), expected);
  EXPECT_EQ(index.Search(target), expected);
  if (!index.has_prefixes()) return false;
  TableIndex::Place node;
  size_t block = SIZE_MAX;
  const bool told = !index.FindNode(user_key, &node, &block) ||
                    index.FindInNode(node, &block);
  if (told) {
    EXPECT_EQ(block, expected);
  }
  return told;
}

TEST(TableIndexTest, SearchesAgree) {
  static const test::ReverseComparator reverse;
  const InternalKeyComparator reversed(&reverse);
  test::Rng random(test::TestSeed());
  std::set<int> styles_told;
  for (int round = 0; round < 400; ++round) {
    const int style = static_cast<int>(random.Below(test::kHardKeyStyles));
    const bool user_keys = random.OneIn(2);
    // One in four goes the general way.
    const bool general = random.OneIn(4);
    const InternalKeyComparator* comparator =
        general && random.OneIn(2) ? &reversed : Comparator();
    const bool binary_search = general && comparator == Comparator();
    const int count =
        random.Pick({1, 2, 15, 16, 17, 33, 300, 512, 513, 1024, 2100});
    std::vector<std::string> separators;
    std::vector<std::string> targets = {
        Target("", 0), Target("\xFF\xFF\xFF", 0), Target("a long", 5)};
    for (int i = 0; i < count; ++i) {
      const std::string user_key = test::HardKey(&random, style);
      separators.push_back(user_keys ? user_key
                                     : Target(user_key, random.Below(4)));
      targets.push_back(Target(user_key, random.Below(5)));
      targets.push_back(Target(user_key + '\0', 2));
      targets.push_back(Target(user_key.substr(0, user_key.size() / 2), 2));
      targets.push_back(Target(test::HardKey(&random, style), 2));
    }
    std::sort(separators.begin(), separators.end(),
              [&](const std::string& a, const std::string& b) {
                return user_keys ? comparator->CompareUser(a, b) < 0
                                 : comparator->Compare(a, b) < 0;
              });
    separators.erase(std::unique(separators.begin(), separators.end()),
                     separators.end());
    TableIndex index;
    ASSERT_NO_FATAL_FAILURE(
        MakeOf(separators, user_keys, comparator, binary_search, &index));
    ASSERT_EQ(index.has_prefixes(), !general);
    for (const std::string& target : targets) {
      if (CheckSearch(index, separators, user_keys, *comparator, target)) {
        styles_told.insert(style);
      }
      ASSERT_FALSE(HasFailure()) << Slice(target).ToString(true);
    }
  }
  EXPECT_EQ(styles_told.size(), size_t{test::kHardKeyStyles});
}

TEST(TableIndexTest, PrefixesTellWithoutKeys) {
  std::vector<std::string> separators;
  for (int i = 100; i < 900; i += 2) {
    separators.push_back("user" + std::to_string(i) + "/profile");
  }
  TableIndex index;
  ASSERT_NO_FATAL_FAILURE(
      MakeOf(separators, true, Comparator(), false, &index));
  for (int i = 99; i < 901; ++i) {
    const std::string user_key = "user" + std::to_string(i);
    // A shorter key has a prefix of its own; it is no separator's.
    EXPECT_TRUE(CheckSearch(index, separators, true, *Comparator(),
                            Target(user_key, 1)));
    EXPECT_EQ(CheckSearch(index, separators, true, *Comparator(),
                          Target(user_key + "/profile", 1)),
              i % 2 == 1 || i < 100 || i >= 900);
  }
  // A key without the separators' common prefix needs no node.
  TableIndex::Place place;
  size_t block = 0;
  EXPECT_FALSE(index.FindNode("zebra", &place, &block));
  EXPECT_EQ(block, separators.size());
  EXPECT_FALSE(index.FindNode("us", &place, &block));
  EXPECT_EQ(block, 0u);
}

TEST(TableIndexTest, HasAnEmptySlotForEachBlock) {
  std::vector<std::string> separators;
  for (int i = 100; i < 137; ++i) separators.push_back(std::to_string(i));
  for (const bool binary_search : {false, true}) {
    TableIndex index;
    ASSERT_NO_FATAL_FAILURE(
        MakeOf(separators, true, Comparator(), binary_search, &index));
    ASSERT_EQ(index.nodes().size(), 3u);
    for (size_t i = 0; i < index.size(); ++i) {
      const IndexNode& node = index.nodes()[i / IndexNode::kFanout];
      EXPECT_EQ(reinterpret_cast<uintptr_t>(&node) % 64, 0u);
      EXPECT_EQ(&index.slot(i), &node.slots[i % IndexNode::kFanout]);
      EXPECT_EQ(index.slot(i).load(), nullptr);
    }
  }
}

// Wrong answers are all that disorder may cause.
TEST(TableIndexTest, StaysInsideAnIndexWithoutOrder) {
  test::Rng random(test::TestSeed());
  for (int round = 0; round < 300; ++round) {
    const int style = static_cast<int>(random.Below(test::kHardKeyStyles));
    const bool user_keys = random.OneIn(2);
    std::vector<std::string> separators;
    for (uint64_t i = random.Below(random.OneIn(10) ? 2000 : 100) + 1; i > 0;
         --i) {
      const std::string user_key = test::HardKey(&random, style);
      separators.push_back(user_keys ? user_key : Target(user_key, 1));
    }
    TableIndex index;
    ASSERT_NO_FATAL_FAILURE(
        MakeOf(separators, user_keys, Comparator(), false, &index));
    for (int i = 0; i < 50; ++i) {
      const std::string target = Target(test::HardKey(&random, style), 1);
      const size_t block = index.Search(target);
      ASSERT_LE(block, separators.size());
    }
  }
}

}  // namespace
}  // namespace varve
