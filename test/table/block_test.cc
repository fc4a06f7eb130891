// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: a block either gives back exactly its entries, in every kind of walk
// and lookup, or is refused; no bytes make it read beyond itself or take all
// memory. Method: random blocks against a sorted vector; blocks made by hand
// with one fault each; every cut and every changed byte of a small block,
// walked if it is accepted (under the sanitizers this finds any access out of
// bounds).
#include "table/block/block.h"

#include "table/block/block_builder.h"
#include "test/testing/comparators.h"
#include "test/testing/random_entries.h"
#include "test/testing/seed.h"
#include "test/testing/status_checks.h"
#include "test/testing/test_headers.h"
#include "util/bytes/hash.h"

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

Status Create(const std::string& body, BlockRef* block,
              const BlockBuildOptions& options = {}) {
  // Exactly as large as the body, so that one byte too far is noticed, and
  // freed before the block is used.
  const std::unique_ptr<char[]> bytes(new char[body.size()]);
  memcpy(bytes.get(), body.data(), body.size());
  Block* made = nullptr;
  Status s = Block::Create(Slice(bytes.get(), body.size()), options, &made);
  EXPECT_EQ(s.ok(), made != nullptr);
  if (s.ok()) *block = BlockRef(made);
  return s;
}

BlockRef MakeBlock(const std::string& body,
                   const BlockBuildOptions& options = {}) {
  BlockRef block;
  EXPECT_TRUE(Ok(Create(body, &block, options)));
  return block;
}

BlockBuildOptions WithSequence(SequenceNumber global_sequence) {
  BlockBuildOptions options{.global_sequence = global_sequence};
  return options;
}

std::string RefusalOf(const std::string& body) {
  BlockRef block;
  const Status s = Create(body, &block);
  EXPECT_FALSE(block);
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

// Visits everything that a reader can reach, whatever the order of keys.
void WalkEverywhere(const Block& block) {
  BlockIterator it;
  it.Reset(&block, Comparator());
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
    const uint64_t hash = PreviewXxh3(ExtractUserKey(key));
    for (uint32_t i = block.FindCandidate(hash, 0); i < block.EntryCount();
         i = block.FindCandidate(hash, i + 1)) {
      block.PrefetchEntry(i);
      ASSERT_GE(block.EntryAt(i).rest.size() + block.Prefix().size(), 0u);
    }
  }
}

// Compares the walks with a sorted vector.
void CheckWalks(const Block& block, const Entries& expected,
                const InternalKeyComparator* comparator) {
  BlockIterator it;
  it.Reset(&block, comparator);
  EXPECT_FALSE(it.Valid());
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
}

// Compares the ordered lookups of a key with a sorted vector.
void CheckTarget(const Block& block, const Entries& expected,
                 const InternalKeyComparator* comparator,
                 const std::string& target) {
  const auto at_or_behind =
      std::lower_bound(expected.begin(), expected.end(), target,
                       [comparator](const auto& entry, const std::string& key) {
                         return comparator->Compare(entry.first, key) < 0;
                       });
  ASSERT_EQ(block.LowerBound(*comparator, ExtractUserKey(target),
                             ExtractTrailer(target)),
            static_cast<uint32_t>(at_or_behind - expected.begin()));
  BlockIterator it;
  it.Reset(&block, comparator);
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

// The entries by number, and which of them a hash leads to.
void CheckPointLookup(const Block& block, const Entries& expected) {
  const auto count = static_cast<uint32_t>(expected.size());
  std::vector<uint8_t> fingerprints;
  for (uint32_t i = 0; i < count; ++i) {
    const Block::Entry entry = block.EntryAt(i);
    const Slice user_key = ExtractUserKey(expected[i].first);
    ASSERT_EQ(block.Prefix().ToString() + entry.rest.ToString(), user_key);
    ASSERT_EQ(entry.trailer, ExtractTrailer(expected[i].first));
    ASSERT_EQ(entry.value, expected[i].second);
    fingerprints.push_back(Block::Fingerprint(PreviewXxh3(user_key)));
  }
  if (!block.has_fingerprints()) return;
  const uint32_t starts[] = {0, 1, 15, 16, 17, 31, 33, 48, count};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    for (const uint32_t from : starts) {
      if (from > count) continue;
      const auto found =
          std::find(fingerprints.begin() + from, fingerprints.end(), byte);
      ASSERT_EQ(block.FindCandidate(uint64_t{byte} << 56 | 0xABCDEF, from),
                static_cast<uint32_t>(found - fingerprints.begin()));
    }
  }
}

void CheckAgainst(const Block& block, const Entries& expected,
                  const std::vector<std::string>& targets,
                  const InternalKeyComparator* comparator = Comparator()) {
  ASSERT_EQ(block.EntryCount(), expected.size());
  ASSERT_NO_FATAL_FAILURE(CheckWalks(block, expected, comparator));
  ASSERT_NO_FATAL_FAILURE(CheckPointLookup(block, expected));
  for (const std::string& target : targets) {
    ASSERT_NO_FATAL_FAILURE(CheckTarget(block, expected, comparator, target));
  }
}

TEST(BlockTest, GivesBackRandomEntries) {
  test::Rng random(test::TestSeed());
  for (int round = 0; round < 200; ++round) {
    // Every other block as ingested tables have them.
    const SequenceNumber global_sequence = round % 2 == 0 ? 0 : 12345;
    const test::RandomEntries random_entries(&random);
    const auto& [common, model] = random_entries;
    Entries stored;
    Entries expected;
    std::vector<std::string> targets = {
        Key("", 1), Key("\xFF", 1), Key(common, 1), Key(common + '\xFF', 1),
        Key(common.substr(0, common.size() / 2), 1)};
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
    BlockBuildOptions options = WithSequence(global_sequence);
    options.fingerprints = !random.OneIn(4);
    const BlockRef block = MakeBlock(Body(stored, interval), options);
    ASSERT_TRUE(block);
    ASSERT_EQ(block->has_fingerprints(), options.fingerprints);
    ASSERT_NO_FATAL_FAILURE(CheckAgainst(*block.get(), expected, targets));
  }
}

TEST(BlockTest, EmptyBlockIsEmpty) {
  // Nothing is left of the block that this thread made before.
  MakeBlock(Body({{Key("prefix", 1), "v"}}));
  for (const bool bytewise : {true, false}) {
    BlockBuildOptions options = WithSequence(7);
    options.bytewise = options.fingerprints = bytewise;
    // Without restart points, as org.iq80.leveldb writes it.
    for (const std::string& body : {Body({}), WithRestarts("", {}, 0)}) {
      const BlockRef block = MakeBlock(body, options);
      EXPECT_EQ(block->Prefix(), "");
      CheckAgainst(*block.get(), {}, {Key("a", 1)});
    }
  }
}

TEST(BlockTest, RewritesTrailersThatAreShared) {
  // The user key of the second entry continues with the first one's trailer,
  // so that its stored form shares bytes of it.
  const std::string first = Key("a", 0);
  const std::string second = Key(first + "b", 0);
  const BlockRef block =
      MakeBlock(Body({{first, "1"}, {second, "2"}}), WithSequence(99));
  CheckAgainst(*block.get(), {{Key("a", 99), "1"}, {Key(first + "b", 99), "2"}},
               {Key("a", 99), Key("a", 98), Key(first + "b", 99)});
}

TEST(BlockTest, PointsIntoTheBlockForFullKeys) {
  const BlockRef block =
      MakeBlock(Body({{Key("abc", 1), "v"}, {Key("b", 1), "w"}}));
  BlockIterator it;
  it.Reset(block.get(), Comparator());
  it.SeekToFirst();
  EXPECT_EQ(it.key().end(), it.value().data());
}

TEST(BlockTest, SkipsHashIndex) {
  std::string body = Body({{Key("a", 1), "1"}, {Key("b", 1), "2"}}, 1);
  body.resize(body.size() - 4);
  body += std::string("\x00\xFF\x01", 3);  // Buckets.
  body += std::string("\x03\x00", 2);
  PutFixed32(&body, 2 | 1u << 31);
  const BlockRef block = MakeBlock(body);
  CheckAgainst(*block.get(), {{Key("a", 1), "1"}, {Key("b", 1), "2"}}, {});

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
  EXPECT_THAT(RefusalOf(WithRestarts(entry, {0}, 1000)), HasSubstr("overrun"));
  EXPECT_THAT(RefusalOf(WithRestarts(entry, {0}, 0x8000000)),
              HasSubstr("overrun"));
  // Beyond the entries, inside an entry, after the last one, not ascending.
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
  BlockRef block;
  const auto use = [&block](std::string bytes,
                            const BlockBuildOptions& options) {
    if (!Create(bytes, &block, options).ok()) return false;
    WalkEverywhere(*block.get());
    return true;
  };
  BlockBuildOptions general;
  general.bytewise = general.fingerprints = false;
  for (size_t size = 0; size < body.size(); ++size) {
    for (const BlockBuildOptions& options : {BlockBuildOptions(), general}) {
      use(body.substr(0, size), options);
      use(body.substr(body.size() - size), options);
    }
  }
  int accepted = 0;
  for (size_t i = 0; i < body.size(); ++i) {
    for (int change = 1; change < 256; ++change) {
      std::string changed = body;
      changed[i] = static_cast<char>(changed[i] ^ change);
      if (!use(changed, {})) continue;
      ++accepted;
      EXPECT_TRUE(use(changed, WithSequence(77)));
      EXPECT_TRUE(use(changed, general));
      ASSERT_FALSE(HasFatalFailure());
    }
  }
  // Changed values and user keys cannot be noticed here.
  EXPECT_GT(accepted, 0);
}

TEST(BlockTest, CountsItsMemory) {
  const std::string body = Body({{Key("a", 1), std::string(1000, 'v')}});
  const size_t bytes = MakeBlock(body)->ApproximateMemoryUsage();
  EXPECT_GE(bytes, body.size());
  EXPECT_LE(bytes, sizeof(Block) + body.size());
  EXPECT_GE(MakeBlock(Body({}))->ApproximateMemoryUsage(), sizeof(Block));
}

TEST(BlockTest, RemovesTheCommonPrefixOfKeys) {
  const auto prefix_of = [](const std::vector<std::string>& user_keys,
                            const BlockBuildOptions& options) {
    Entries entries;
    for (const std::string& user_key : user_keys) {
      entries.emplace_back(Key(user_key, 5), user_key);
    }
    const BlockRef block = MakeBlock(Body(entries), options);
    CheckAgainst(*block.get(), entries,
                 {Key("", 1), Key("comm", 1), Key("common", 1),
                  Key("commonz", 1), Key("d", 1)});
    return block->Prefix().ToString();
  };
  EXPECT_EQ(prefix_of({"common1", "common12", "common2"}, {}), "common");
  EXPECT_EQ(prefix_of({"common", "common12", "common2"}, {}), "common");
  EXPECT_EQ(prefix_of({"common"}, {}), "common");
  EXPECT_EQ(prefix_of({"", "common"}, {}), "");
  EXPECT_EQ(prefix_of({"a", "b"}, {}), "");
  EXPECT_EQ(prefix_of({std::string(2, '\0'), std::string(3, '\0')}, {}),
            std::string(2, '\0'));
  BlockBuildOptions general;
  general.bytewise = general.fingerprints = false;
  EXPECT_EQ(prefix_of({"common1", "common2"}, general), "");
}

TEST(BlockTest, HoldsManyVersionsOfOneKey) {
  Entries entries;
  std::vector<std::string> targets;
  for (SequenceNumber sequence = 60; sequence > 0; --sequence) {
    entries.emplace_back(Key("key", 2 * sequence), std::to_string(sequence));
    targets.push_back(MakeInternalKey("key", SeekTrailer(sequence)));
  }
  const BlockRef block = MakeBlock(Body(entries));
  EXPECT_EQ(block->Prefix(), "key");
  CheckAgainst(*block.get(), entries, targets);
}

// Two bytes for an offset are enough up to a certain size.
TEST(BlockTest, ReadsBlocksAroundTheLimitOfShortOffsets) {
  for (size_t last = 65300; last < 65600; ++last) {
    const Entries entries = {{Key("a", 1), std::string(last, 'v')},
                             {Key("b", 1), "end"}};
    const BlockRef block = MakeBlock(Body(entries));
    ASSERT_EQ(block->EntryAt(0).value.size(), last);
    ASSERT_EQ(block->EntryAt(1).rest, "b");
    ASSERT_EQ(block->EntryAt(1).value, "end");
  }
}

TEST(BlockTest, ReadsLargeBlocks) {
  test::Rng random(test::TestSeed());
  Entries entries;
  std::vector<std::string> targets;
  for (int i = 0; i < 400; ++i) {
    char number[16];
    snprintf(number, sizeof(number), "%05d", i);
    // Sizes of keys and values on both sides of what one byte can say.
    const size_t key_size = random.Pick({0, 100, 122, 123, 200, 20000});
    const size_t value_size = random.Pick({0, 127, 128, 1000, 40000});
    const std::string user_key = number + std::string(key_size, 'k');
    entries.emplace_back(Key(user_key, 3), random.Bytes(value_size));
    targets.push_back(Key(user_key, 9));
    targets.push_back(Key(user_key, 1));
    targets.push_back(Key(number, 1));
  }
  for (const bool bytewise : {true, false}) {
    BlockBuildOptions options;
    options.bytewise = options.fingerprints = bytewise;
    const BlockRef block = MakeBlock(Body(entries), options);
    ASSERT_GT(block->ApproximateMemoryUsage(), 1u << 20);
    CheckAgainst(*block.get(), entries, targets);
  }
}

TEST(BlockTest, HasNoFingerprintsOfTooManyEntries) {
  Entries entries;
  for (int i = 0; i <= 1 << 15; ++i) {
    char number[16];
    snprintf(number, sizeof(number), "%06d", i);
    entries.emplace_back(Key(number, 3), "v");
  }
  const BlockRef without = MakeBlock(Body(entries));
  EXPECT_FALSE(without->has_fingerprints());
  CheckAgainst(*without.get(), entries, {entries[1234].first});
  entries.pop_back();
  const BlockRef with = MakeBlock(Body(entries));
  EXPECT_TRUE(with->has_fingerprints());
  CheckAgainst(*with.get(), entries, {entries[1234].first});
}

TEST(BlockTest, FollowsACustomOrder) {
  static const test::ReverseComparator reverse;
  const InternalKeyComparator comparator(&reverse);
  Entries entries;
  std::vector<std::string> targets = {Key("", 1), Key("\xFF", 1)};
  for (int i = 99; i >= 0; --i) {
    const std::string user_key = "common" + std::to_string(100 + i);
    for (SequenceNumber sequence = 3; sequence > 1; --sequence) {
      entries.emplace_back(Key(user_key, sequence), std::to_string(i));
    }
    for (SequenceNumber sequence = 1; sequence < 5; ++sequence) {
      targets.push_back(Key(user_key, sequence));
      targets.push_back(Key(user_key + "x", sequence));
    }
  }
  BlockBuildOptions options;
  options.bytewise = options.fingerprints = false;
  const BlockRef block = MakeBlock(Body(entries), options);
  CheckAgainst(*block.get(), entries, targets, &comparator);
}

// A body with one long key, and many entries whose keys are the same.
std::string BodyOfSharedKeys(int count) {
  const std::string key = Key(std::string(1 << 14, 'k'), 1);
  std::string entries = Raw(0, key, "");
  for (int i = 0; i < count; ++i) {
    entries += Raw(static_cast<int>(key.size()), "", "");
  }
  return WithRestarts(entries, {0}, 1);
}

TEST(BlockTest, BoundsTheMemoryOfSharedKeys) {
  // Put together, the keys would take 320 MB: more than a block of 100 kB may.
  EXPECT_THAT(RefusalOf(BodyOfSharedKeys(20000)),
              HasSubstr("Corruption: entry at byte"));
  EXPECT_THAT(RefusalOf(BodyOfSharedKeys(20000)),
              HasSubstr("the keys take too much memory"));
  const BlockRef block = MakeBlock(BodyOfSharedKeys(1000));
  EXPECT_EQ(block->EntryCount(), 1001u);
  EXPECT_EQ(block->Prefix().size(), 1u << 14);
  EXPECT_LT(block->ApproximateMemoryUsage(), 40000u);
}

// The header's notes on entries take eight times the size of the smallest
// entries, which compress to almost nothing.
TEST(BlockTest, BoundsTheMemoryOfManyEntries) {
  std::string entries = Raw(0, Key("", 1), "");
  const std::string same = Raw(8, "", "");
  while (entries.size() < 60 << 20) entries += same;
  EXPECT_THAT(RefusalOf(WithRestarts(entries, {0}, 1)),
              HasSubstr("the keys take too much memory"));
  entries.resize(Raw(0, Key("", 1), "").size() + same.size() * 3000000);
  const BlockRef block = MakeBlock(WithRestarts(entries, {0}, 1));
  EXPECT_EQ(block->EntryCount(), 3000001u);
}

TEST(BlockTest, ReadsLongKeysWithFarRestartPoints) {
  // Other writers ignore the keys' full size. In full, these keys take hundreds
  // of times the block's size.
  BlockBuilder builder(1024);
  const std::string prefix(16 << 10, 'p');
  int count = 0;
  while (builder.CurrentSize() < 256 << 10) {
    char number[16];
    snprintf(number, sizeof(number), "%08d", count++);
    builder.Add(Key(prefix + number, 1), "value");
  }
  EXPECT_GT(builder.KeyBytes(), 400 * builder.CurrentSize());
  const BlockRef block = MakeBlock(*builder.Finish());
  EXPECT_EQ(block->EntryCount(), static_cast<uint32_t>(count));
  EXPECT_EQ(block->Prefix().size(), prefix.size() + 4);
  EXPECT_LT(block->ApproximateMemoryUsage(), size_t{1} << 20);
}

TEST(BlockTest, MarkIsTakenOnce) {
  const BlockRef ref = MakeBlock(Body({{Key("a", 1), "v"}}));
  auto* const block = const_cast<Block*>(ref.get());
  EXPECT_FALSE(block->TakeReferenced());
  block->Touch();
  block->Touch();
  EXPECT_TRUE(block->TakeReferenced());
  EXPECT_FALSE(block->TakeReferenced());
}

TEST(BlockTest, LivesUntilTheLastPinOrHoldGoes) {
  Block* block = nullptr;
  const std::string body = Body({{Key("a", 1), "v"}});
  ASSERT_TRUE(Block::Create(body, {}, &block).ok());
  EXPECT_TRUE(block->IsPinned());
  block->Hold();
  Block::Unpin(block);
  EXPECT_FALSE(block->IsPinned());
  block->Pin();
  Block::DropHold(block);
  EXPECT_TRUE(block->IsPinned());
  EXPECT_EQ(block->EntryAt(0).value, "v");
  Block::Unpin(block);
}

TEST(BlockTest, RefsMoveAndDetach) {
  BlockRef ref = MakeBlock(Body({{Key("a", 1), "v"}}));
  BlockRef other = std::move(ref);
  EXPECT_TRUE(other);
  ref = std::move(other);
  const auto [release, argument] = ref.Detach();
  EXPECT_FALSE(ref);
  EXPECT_EQ(static_cast<Block*>(argument)->EntryAt(0).value, "v");
  release(argument);

  int released = 0;
  const auto count = [](void* counter) { ++*static_cast<int*>(counter); };
  const BlockRef kept = MakeBlock(Body({}));
  {
    BlockRef first(kept.get(), count, &released);
    BlockRef second(kept.get(), count, &released);
    second = std::move(first);
    EXPECT_EQ(released, 1);
    second.Reset();
    EXPECT_EQ(released, 2);
  }
  EXPECT_EQ(released, 2);
}

}  // namespace
}  // namespace varve
