// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: filters equal RocksDB's to the byte, filters of older formats are read,
// and no filter denies a key that it contains. Method: filters of real tables
// are rebuilt and queried for all keys; random and damaged bodies.
#include "table/index/bloom_filter.h"

#include <gtest/gtest.h>

#include "table/block/format.h"
#include "table/block/internal_key.h"
#include "test/testing/table/table_bytes.h"
#include "util/base/random.h"
#include "util/bytes/coding.h"
#include "util/bytes/hash.h"

namespace varve {
namespace {

using Kind = FilterReader::Kind;

bool MayMatch(const FilterReader& reader, const Slice& key) {
  return reader.MayMatch(PreviewXxh3(key), key);
}

std::string BuildFilter(double bits_per_key,
                        const std::vector<std::string>& keys) {
  BloomFilterBuilder builder(bits_per_key);
  for (const std::string& key : keys) builder.AddHash(PreviewXxh3(key));
  std::string body;
  builder.Finish(&body);
  return body;
}

std::vector<std::string> UserKeys(const testing::TableBytes& table) {
  std::vector<std::string> keys;
  for (const auto& entry : table.AllEntries()) {
    keys.push_back(ExtractUserKey(entry.first).ToString());
  }
  return keys;
}

void CheckRebuild(const std::string& fixture, double bits_per_key) {
  SCOPED_TRACE(fixture);
  const testing::TableBytes table(testing::ReadFixture(fixture));
  ASSERT_EQ(table.meta_blocks().count(kFullBloomBlockName), 1u);
  const std::vector<std::string> keys = UserKeys(table);
  ASSERT_FALSE(keys.empty());
  EXPECT_EQ(BuildFilter(bits_per_key, keys),
            table.ReadBlock(table.meta_blocks().at(kFullBloomBlockName)));
}

TEST(BloomFilterTest, RebuildsRocksDbsFiltersByteForByte) {
  CheckRebuild("rocksdb-bloom-xxh3/db/000012.sst", 10);
  CheckRebuild("rocksdb-bloom-xxh3/db/000014.sst", 10);
  CheckRebuild("rocksdb-bloom-crc32c/db/000012.sst", 10);
  CheckRebuild("rocksdb-bloom-16bits/db/000012.sst", 16);
}

TEST(BloomFilterTest, EmptyForNoKeys) {
  const std::string body = BuildFilter(10, {});
  EXPECT_EQ(body, "");
  FilterReader reader;
  reader.Init(kFullBloomBlockName, body, nullptr);
  EXPECT_EQ(reader.kind(), Kind::kMatchesNothing);
  EXPECT_FALSE(MayMatch(reader, "key"));
}

TEST(BloomFilterTest, CountsEqualNeighboursOnce) {
  std::vector<std::string> keys;
  for (int i = 0; i < 1000; ++i) keys.push_back(std::to_string(i / 10));
  const std::string repeated = BuildFilter(10, keys);
  keys.clear();
  for (int i = 0; i < 100; ++i) keys.push_back(std::to_string(i));
  EXPECT_EQ(repeated, BuildFilter(10, keys));
  EXPECT_EQ(repeated.size(), 128u + 5);
}

TEST(BloomFilterTest, NeverDeniesAKeyAndRarelyClaimsOne) {
  constexpr int kKeys = 20000;
  struct Case {
    double bits_per_key;
    double max_false_rate;
  };
  for (const Case& c : {Case{1, 0.7}, Case{4, 0.2}, Case{10, 0.013},
                        Case{20, 0.0006}, Case{100, 0.0002}}) {
    SCOPED_TRACE(c.bits_per_key);
    std::vector<std::string> keys;
    for (int i = 0; i < kKeys; ++i) keys.push_back("key" + std::to_string(i));
    const std::string body = BuildFilter(c.bits_per_key, keys);
    FilterReader reader;
    reader.Init(kFullBloomBlockName, body, nullptr);
    ASSERT_EQ(reader.kind(), Kind::kFastLocal);
    int false_answers = 0;
    for (int i = 0; i < kKeys; ++i) {
      ASSERT_TRUE(MayMatch(reader, keys[static_cast<size_t>(i)]));
      false_answers += MayMatch(reader, "other" + std::to_string(i));
    }
    EXPECT_LT(false_answers, kKeys * c.max_false_rate);
  }
}

TEST(BloomFilterTest, ClampsBitsPerKey) {
  std::vector<std::string> many;
  for (int i = 0; i < 5000; ++i) many.push_back(std::to_string(i));
  EXPECT_EQ(BuildFilter(-5, many), BuildFilter(1, many));
  EXPECT_EQ(BuildFilter(0.001, many), BuildFilter(1, many));
  EXPECT_EQ(BuildFilter(std::stod("nan"), many), BuildFilter(1, many));
  EXPECT_EQ(BuildFilter(1e300, many), BuildFilter(100, many));
  EXPECT_EQ(BuildFilter(10.0004, many), BuildFilter(10, many));
  EXPECT_NE(BuildFilter(10.5, many), BuildFilter(10, many));
}

TEST(BloomFilterTest, ReadsFiltersOfOlderRocksDbTables) {
  for (const char* fixture :
       {"rocksdb-fv4/db/000012.sst", "rocksdb-fv4/db/000014.sst"}) {
    const testing::TableBytes table(testing::ReadFixture(fixture));
    const std::string body =
        table.ReadBlock(table.meta_blocks().at(kFullBloomBlockName));
    FilterReader reader;
    reader.Init(kFullBloomBlockName, body, nullptr);
    ASSERT_EQ(reader.kind(), Kind::kOldLocal);
    for (const std::string& key : UserKeys(table)) {
      ASSERT_TRUE(MayMatch(reader, key)) << Slice(key).ToString(true);
    }
    int claimed = 0;
    for (int i = 0; i < 1000; ++i) {
      claimed += MayMatch(reader, "absent" + std::to_string(i));
    }
    EXPECT_LT(claimed, 60);
  }
}

// One filter of LevelDB's for the keys.
std::string MakeLevelDbFilter(const std::vector<std::string>& keys) {
  std::string bits(std::max<size_t>(keys.size() * 10 / 8, 8), '\0');
  for (const std::string& key : keys) {
    uint32_t h = Hash32(key, 0xBC9F1D34, TailBytes::kZeroExtended);
    const uint32_t delta = h >> 17 | h << 15;
    for (int i = 0; i < 6; ++i, h += delta) {
      const size_t bit = h % (bits.size() * 8);
      bits[bit / 8] = static_cast<char>(bits[bit / 8] | 1 << bit % 8);
    }
  }
  return bits + '\6';
}

TEST(BloomFilterTest, ReadsLevelDbFiltersByBlock) {
  const std::vector<std::string> first = {"a", "b\xFF", "c"};
  const std::vector<std::string> third = {"x", "y\x80\x90"};
  std::string body = MakeLevelDbFilter(first);
  const size_t middle = body.size();
  body += MakeLevelDbFilter(third);
  const size_t end = body.size();
  // Nothing is in the second range.
  for (const size_t offset : {size_t{0}, middle, middle, end}) {
    PutFixed32(&body, static_cast<uint32_t>(offset));
  }
  body += '\x0B';

  FilterReader reader;
  reader.Init(kLevelDbBloomBlockName, body, nullptr);
  ASSERT_EQ(reader.kind(), Kind::kLevelDb);
  EXPECT_TRUE(MayMatch(reader, "absent"));
  for (const std::string& key : first) {
    EXPECT_TRUE(reader.MayMatchInBlock(key, 0));
    EXPECT_TRUE(reader.MayMatchInBlock(key, 2047));
    EXPECT_FALSE(reader.MayMatchInBlock(key, 2048));
    EXPECT_FALSE(reader.MayMatchInBlock(key, 4096));
    // Beyond what the filter knows of.
    EXPECT_TRUE(reader.MayMatchInBlock(key, 6144));
    EXPECT_TRUE(reader.MayMatchInBlock(key, UINT64_MAX));
  }
  for (const std::string& key : third) {
    EXPECT_FALSE(reader.MayMatchInBlock(key, 0));
    EXPECT_TRUE(reader.MayMatchInBlock(key, 4096));
  }
}

TEST(BloomFilterTest, AnswersMaybeForUnknownFilters) {
  const std::string good = BuildFilter(10, {"a", "b", "c"});
  std::vector<std::string> bodies;
  // Ribbon and other kinds, other lines, too many probes, reserved bytes.
  for (const auto& [from_end, byte] :
       std::vector<std::pair<size_t, char>>{{5, '\xFE'},
                                            {5, '\0'},
                                            {5, '\x40'},
                                            {4, '\1'},
                                            {3, '\0'},
                                            {3, '\x26'},
                                            {3, '\x1F'},
                                            {2, '\1'},
                                            {1, '\1'}}) {
    bodies.push_back(good);
    bodies.back()[good.size() - from_end] = byte;
  }
  bodies.push_back(good.substr(1));
  bodies.push_back("ab");
  for (const std::string& body : bodies) {
    FilterReader reader;
    reader.Init(kFullBloomBlockName, body, nullptr);
    EXPECT_EQ(reader.kind(), Kind::kAlwaysMaybe);
    EXPECT_TRUE(MayMatch(reader, "absent"));
    EXPECT_TRUE(reader.MayMatchInBlock("absent", 0));
  }
  FilterReader reader;
  reader.Init("fullfilter.other", good, nullptr);
  EXPECT_EQ(reader.kind(), Kind::kAlwaysMaybe);
  reader.Init("filter.varve.policy.mine", good, nullptr);
  EXPECT_EQ(reader.kind(), Kind::kAlwaysMaybe);
  EXPECT_EQ(FilterReader().kind(), Kind::kAlwaysMaybe);
  EXPECT_TRUE(MayMatch(FilterReader(), "absent"));
}

TEST(BloomFilterTest, SurvivesRandomBodies) {
  const uint64_t seed = ::testing::UnitTest::GetInstance()->random_seed() + 1;
  SCOPED_TRACE("seed " + std::to_string(seed));
  Random random(seed);
  for (int i = 0; i < 20000; ++i) {
    std::string body(random.Uniform(150), '\0');
    for (char& c : body) {
      c = static_cast<char>(random.Uniform(2) ? random.Uniform(256) : 0);
    }
    for (const char* name : {kFullBloomBlockName, kLevelDbBloomBlockName}) {
      FilterReader reader;
      reader.Init(name, body, nullptr);
      reader.Prefetch(PreviewXxh3("key"));
      MayMatch(reader, "key");
      for (const uint64_t offset : {uint64_t{0}, uint64_t{9000}, UINT64_MAX}) {
        reader.MayMatchInBlock("key", offset);
      }
    }
  }
}

TEST(BloomFilterTest, BuiltInPolicyUsesTheSameFormat) {
  const auto policy = NewBloomFilterPolicy(12.5);
  EXPECT_EQ(policy->BuiltinBloomBitsPerKey(), 12.5);
  const std::vector<Slice> keys = {"a", "b", "b", "c"};
  std::string filter = "kept";
  policy->CreateFilter(keys, &filter);
  EXPECT_EQ(filter, "kept" + BuildFilter(12.5, {"a", "b", "c"}));
  for (const Slice& key : keys) {
    EXPECT_TRUE(
        policy->KeyMayMatch(key, Slice(filter.data() + 4, filter.size() - 4)));
  }
  EXPECT_EQ(NewBloomFilterPolicy(1000)->BuiltinBloomBitsPerKey(), 100);
}

// Claims keys by their first byte.
class FirstBytePolicy : public FilterPolicy {
 public:
  const char* Name() const override { return "first_byte"; }
  void CreateFilter(const std::vector<Slice>& keys,
                    std::string* filter) const override {
    for (const Slice& key : keys) filter->push_back(key[0]);
  }
  bool KeyMayMatch(const Slice& key, const Slice& filter) const override {
    return filter.ToStringView().find(key[0]) != std::string_view::npos;
  }
};

TEST(BloomFilterTest, AsksACustomPolicyOfThatName) {
  const FirstBytePolicy policy;
  FilterReader reader;
  const std::string name = std::string(kCustomFilterPrefix) + "first_byte";
  reader.Init(name, "ab", &policy);
  EXPECT_EQ(reader.kind(), Kind::kCustom);
  EXPECT_TRUE(MayMatch(reader, "apple"));
  EXPECT_FALSE(MayMatch(reader, "cherry"));
  reader.Init(name + "2", "ab", &policy);
  EXPECT_TRUE(MayMatch(reader, "cherry"));
}

}  // namespace
}  // namespace varve
