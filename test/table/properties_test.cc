// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: properties survive a round trip, RocksDB's are understood, and damaged
// blocks are refused. Method: blocks made here and in fixtures; every cut and
// every flipped bit of one under the sanitizers.
#include "table/block/properties.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "table/block/block_builder.h"
#include "table/block/compression_property.h"
#include "test/testing/status_checks.h"
#include "test/testing/table/table_bytes.h"
#include "util/bytes/coding.h"

namespace varve {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

std::string MakeBlock(
    const std::vector<std::pair<std::string, std::string>>& entries) {
  BlockBuilder builder(BlockBuilder::kNoRestarts);
  for (const auto& [name, value] : entries) builder.Add(name, value);
  return *builder.Finish();
}

PropertiesBlock MakeProperties() {
  PropertiesBlock p;
  p.index_key_is_user_key = true;
  p.index_value_is_delta_encoded = true;
  p.whole_key_filtering = true;
  p.prefix_filtering = false;
  p.num_entries = 1000000;
  p.num_deletions = 3;
  p.raw_key_size = uint64_t{1} << 40;
  p.num_hidden_entries = 5;
  p.longest_dead_run = 7;
  p.creation_time_s = 1700000000;
  p.original_file_number = 12;
  p.comparator = "leveldb.BytewiseComparator";
  p.compression = "Snappy";
  p.other = {{"aaa", "first"}, {"varve.x", ""}};
  return p;
}

TEST(PropertiesTest, CountsOfDeadEntriesAreBounded) {
  PropertiesBlock p;
  EXPECT_FALSE(DeadEntriesOf(p).known);
  p.num_entries = 10;
  p.num_deletions = 5;
  p.num_range_deletions = 2;
  p.num_hidden_entries = 4;
  p.longest_dead_run = 6;
  DeadEntries dead = DeadEntriesOf(p);
  EXPECT_TRUE(dead.known);
  EXPECT_EQ(dead.entries, 8u);
  EXPECT_EQ(dead.deletions, 3u);
  EXPECT_EQ(dead.hidden, 4u);
  EXPECT_EQ(dead.longest_run, 6u);
  EXPECT_EQ(dead.Dead(), 7u);
  // Damaged ones.
  for (uint64_t PropertiesBlock::*const field :
       {&PropertiesBlock::num_deletions, &PropertiesBlock::num_range_deletions,
        &PropertiesBlock::num_hidden_entries,
        &PropertiesBlock::longest_dead_run}) {
    PropertiesBlock q = p;
    q.*field = UINT64_MAX;
    dead = DeadEntriesOf(q);
    EXPECT_LE(dead.entries, 10u);
    EXPECT_LE(dead.deletions, dead.entries);
    EXPECT_LE(dead.hidden, dead.entries);
    EXPECT_LE(dead.Dead(), dead.entries);
    EXPECT_LE(dead.longest_run, dead.Dead());
  }
}

TEST(PropertiesTest, RoundTrips) {
  const PropertiesBlock p = MakeProperties();
  PropertiesBlock q;
  ASSERT_TRUE(Ok(DecodeProperties(EncodeProperties(p), "f", &q)));
  EXPECT_TRUE(q.index_key_is_user_key);
  EXPECT_TRUE(q.index_value_is_delta_encoded);
  EXPECT_TRUE(q.whole_key_filtering);
  EXPECT_FALSE(q.prefix_filtering);
  EXPECT_FALSE(q.has_global_sequence);
  EXPECT_EQ(q.num_entries, p.num_entries);
  EXPECT_EQ(q.num_deletions, p.num_deletions);
  EXPECT_EQ(q.num_hidden_entries, 5u);
  EXPECT_EQ(q.longest_dead_run, 7u);
  EXPECT_EQ(q.raw_key_size, p.raw_key_size);
  EXPECT_EQ(q.creation_time_s, p.creation_time_s);
  EXPECT_EQ(q.original_file_number, p.original_file_number);
  EXPECT_EQ(q.comparator, p.comparator);
  EXPECT_EQ(q.compression, p.compression);
  EXPECT_EQ(q.filter_policy, "");
  EXPECT_EQ(q.other, p.other);
}

TEST(PropertiesTest, ReportsTheOffsetOfTheGlobalSequence) {
  PropertiesBlock p = MakeProperties();
  p.external_version = 2;
  p.has_global_sequence = true;
  p.global_sequence = 0x1122334455667788;
  const std::string body = EncodeProperties(p);
  PropertiesBlock q;
  ASSERT_TRUE(DecodeProperties(body, "f", &q).ok());
  EXPECT_EQ(q.external_version, 2u);
  EXPECT_TRUE(q.has_global_sequence);
  EXPECT_EQ(q.global_sequence, p.global_sequence);
  ASSERT_LE(q.global_sequence_offset + 8, body.size());
  EXPECT_EQ(DecodeFixed64(body.data() + q.global_sequence_offset),
            p.global_sequence);
}

TEST(PropertiesTest, KeepsDefaultsOfMissingFields) {
  PropertiesBlock p;
  ASSERT_TRUE(DecodeProperties(MakeBlock({}), "f", &p).ok());
  EXPECT_FALSE(p.index_key_is_user_key);
  EXPECT_FALSE(p.index_value_is_delta_encoded);
  EXPECT_TRUE(p.whole_key_filtering);
  EXPECT_TRUE(p.prefix_filtering);
  EXPECT_EQ(p.comparator, "");
}

TEST(PropertiesTest, UnderstandsRocksDbs) {
  const testing::TableBytes table(
      testing::ReadFixture("rocksdb-bloom-xxh3/db/000012.sst"));
  const PropertiesBlock& p = table.properties();
  EXPECT_TRUE(p.index_key_is_user_key);
  EXPECT_TRUE(p.whole_key_filtering);
  EXPECT_FALSE(p.prefix_filtering);
  EXPECT_EQ(p.num_entries, 868u);
  EXPECT_EQ(p.num_filter_entries, 868u);
  EXPECT_EQ(p.num_data_blocks, table.index().size());
  EXPECT_EQ(p.filter_size, 1093u);
  EXPECT_EQ(p.original_file_number, 12u);
  EXPECT_EQ(p.column_family_name, "default");
  EXPECT_EQ(p.compression, "Snappy");
  EXPECT_EQ(p.filter_policy, "bloomfilter");
  EXPECT_EQ(p.db_identity, "62a320de-10f0-4f89-8f8b-cab23fd9770d");
  EXPECT_EQ(p.session_identity, "KX4M2ZIDRXV5M8GG1TXJ");
  EXPECT_THAT(p.other,
              ::testing::Contains(Pair("rocksdb.merge.operator", "nullptr")));
}

TEST(PropertiesTest, KeepsUnknownOnes) {
  PropertiesBlock p;
  ASSERT_TRUE(
      DecodeProperties(MakeBlock({{"", "nameless"}, {"zz", "last"}}), "f", &p)
          .ok());
  EXPECT_THAT(p.other, ElementsAre(Pair("", "nameless"), Pair("zz", "last")));
}

// Each name is a byte longer than the previous one, so together they grow with
// the square of the block's size.
std::string MakeGrowingBlock(int count) {
  std::string body;
  for (int i = 0; i < count; ++i) {
    PutVarint32(&body, static_cast<uint32_t>(i));
    body += std::string("\1\0z", 3);
  }
  PutFixed32(&body, 0);
  PutFixed32(&body, 1);
  return body;
}

TEST(PropertiesTest, BoundsTheMemoryOfSharedNames) {
  PropertiesBlock p;
  ASSERT_TRUE(DecodeProperties(MakeGrowingBlock(1000), "f", &p).ok());
  EXPECT_EQ(p.other.size(), 1000u);
  const Status status = DecodeProperties(MakeGrowingBlock(20000), "/db/1", &p);
  EXPECT_TRUE(status.IsCorruption());
  EXPECT_THAT(status.ToString(), HasSubstr("/db/1: properties block"));
  EXPECT_THAT(status.ToString(), HasSubstr("the names take too much memory"));
}

TEST(PropertiesTest, RefusesNamesOutOfOrder) {
  for (const auto& names :
       {std::pair("b", "a"), std::pair("a", "a"), std::pair("", ""),
        // Fields, and fields beside names that are none.
        std::pair("rocksdb.num.entries", "rocksdb.data.size"),
        std::pair("rocksdb.data.size", "rocksdb.data.size"),
        std::pair("rocksdb.data.size", "a"),
        std::pair("z", "rocksdb.data.size"),
        std::pair("rocksdb.data.sizes", "rocksdb.data.size")}) {
    PropertiesBlock p;
    const Status status = DecodeProperties(
        MakeBlock({{names.first, "1"}, {names.second, "2"}}), "/db/1.sst", &p);
    EXPECT_TRUE(status.IsCorruption())
        << names.first << ", " << names.second << ": " << status.ToString();
    EXPECT_THAT(status.ToString(), HasSubstr("/db/1.sst"));
  }
}

TEST(PropertiesTest, RefusesValuesThatAreNone) {
  const std::pair<const char*, std::string> kCases[] = {
      {"rocksdb.num.entries", ""},
      {"rocksdb.num.entries", std::string(11, '\xFF')},
      {"rocksdb.index.key.is.user.key", "\x80"},
      {"rocksdb.block.based.table.index.type", "abc"},
      {"rocksdb.external_sst_file.global_seqno", "1234567"},
      {"rocksdb.external_sst_file.version", ""},
  };
  for (const auto& entry : kCases) {
    PropertiesBlock p;
    const Status status =
        DecodeProperties(MakeBlock({{entry.first, entry.second}}), "f", &p);
    EXPECT_TRUE(status.IsCorruption()) << entry.first;
  }
}

TEST(PropertiesTest, SurvivesDamage) {
  const std::string body = EncodeProperties(MakeProperties());
  PropertiesBlock p;
  for (size_t size = 0; size < body.size(); ++size) {
    // An exact copy, so that a read past its end is noticed.
    const std::string cut(body, 0, size);
    DecodeProperties(cut, "f", &p).IgnoreError();  // Any answer will do.
  }
  for (size_t bit = 0; bit < body.size() * 8; ++bit) {
    std::string damaged = body;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ 1 << bit % 8);
    DecodeProperties(damaged, "f", &p).IgnoreError();  // Any answer will do.
  }
}

TEST(CompressionPropertyTest, NamesOneCompression) {
  EXPECT_TRUE(NamesCompression("ZSTD", CompressionType::kZSTD));
  EXPECT_FALSE(NamesCompression("ZSTD", CompressionType::kLZ4));
  EXPECT_FALSE(NamesCompression("LZ4HC", CompressionType::kLZ4));
  EXPECT_FALSE(NamesCompression("", CompressionType::kLZ4));
  EXPECT_EQ(ForeignCompressionManager("ZSTD"), "");
  EXPECT_EQ(ForeignCompressionManager(""), "");
}

TEST(CompressionPropertyTest, NamesAManagerAndTypes) {
  const std::string two = "BuiltinV2;0407;";
  EXPECT_TRUE(NamesCompression(two, CompressionType::kLZ4));
  EXPECT_TRUE(NamesCompression(two, CompressionType::kZSTD));
  EXPECT_FALSE(NamesCompression(two, CompressionType::kSnappy));
  // The digits "40" are not a type of their own.
  EXPECT_FALSE(NamesCompression(two, CompressionType::kZSTDNotFinal));
  EXPECT_EQ(ForeignCompressionManager(two), "");
  // RocksDB may add fields.
  EXPECT_FALSE(NamesCompression("BuiltinV2;04;07;", CompressionType::kZSTD));
  EXPECT_FALSE(NamesCompression(";;", CompressionType::kLZ4));
  EXPECT_EQ(ForeignCompressionManager(";;"), "");
}

TEST(CompressionPropertyTest, NamesAForeignManager) {
  EXPECT_EQ(ForeignCompressionManager("Mine;80;"), "Mine");
  EXPECT_EQ(ForeignCompressionManager("BuiltinV3;01;"), "BuiltinV3");
  EXPECT_EQ(ForeignCompressionManager("Builtin;01;"), "Builtin");
  // It compressed nothing.
  EXPECT_EQ(ForeignCompressionManager("Mine;;"), "");
}

TEST(CompressionPropertyTest, AnyTextIsRead) {
  const std::string whole = "Mine;0480;more;";
  for (size_t size = 0; size <= whole.size(); ++size) {
    const std::string cut = whole.substr(0, size);
    EXPECT_EQ(NamesCompression(cut, CompressionType::kLZ4), size >= 7) << cut;
    EXPECT_EQ(ForeignCompressionManager(cut), size >= 6 ? "Mine" : "") << cut;
  }
}

}  // namespace
}  // namespace varve
