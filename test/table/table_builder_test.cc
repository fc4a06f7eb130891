// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: tables are written as the format wants them, and as RocksDB cuts them.
// Method: tables are taken apart by independent code; the entries of RocksDB's
// own tables must give the same data blocks and index, byte for byte.
#include "table/build/table_builder.h"

#include "table/block/block.h"
#include "table/index/bloom_filter.h"
#include "table/index/index_builder.h"
#include "test/testing/comparators.h"
#include "test/testing/env/string_file.h"
#include "test/testing/list_policy.h"
#include "test/testing/status_checks.h"
#include "test/testing/table/table_bytes.h"
#include "test/testing/test_headers.h"
#include "util/base/random.h"
#include "util/bytes/hash.h"

namespace varve {
namespace {

using ::testing::HasSubstr;
using testing::KeysAndValues;
using testing::StringFile;
using testing::TableBytes;

const InternalKeyComparator* Comparator() {
  static const InternalKeyComparator comparator(BytewiseComparator());
  return &comparator;
}

TableBuilderOptions Options() {
  TableBuilderOptions options;
  options.comparator = Comparator();
  return options;
}

std::string Key(const Slice& user_key, SequenceNumber sequence = 1,
                ValueType type = ValueType::kValue) {
  return MakeInternalKey(user_key, PackTrailer(sequence, type));
}

std::string Numbered(const char* prefix, int i) {
  char buffer[40];
  snprintf(buffer, sizeof(buffer), "%s%08d", prefix, i);
  return buffer;
}

std::string Build(const TableBuilderOptions& options,
                  const KeysAndValues& entries) {
  StringFile file;
  TableBuilder builder(options, &file);
  for (const auto& [key, value] : entries) builder.Add(key, value);
  EXPECT_TRUE(Ok(builder.Finish()));
  EXPECT_EQ(builder.FileSize(), file.contents().size());
  EXPECT_EQ(builder.TEST_EntryCount(), entries.size());
  return file.contents();
}

// Checks properties that hold for every table.
void CheckInvariants(const TableBytes& table, const KeysAndValues& entries) {
  EXPECT_EQ(table.footer().format_version, 5u);
  EXPECT_EQ(table.AllEntries(), entries);
  const PropertiesBlock& p = table.properties();
  EXPECT_EQ(p.num_entries, entries.size());
  EXPECT_EQ(p.num_data_blocks, table.index().size());
  EXPECT_TRUE(p.whole_key_filtering);
  EXPECT_FALSE(p.prefix_filtering);

  uint64_t offset = 0;
  for (size_t i = 0; i < table.index().size(); ++i) {
    const auto& [separator, handle] = table.index()[i];
    EXPECT_EQ(handle.offset, offset);
    offset += handle.size + kBlockTrailerSize;
    const KeysAndValues block = TableBytes::Entries(table.ReadBlock(handle));
    ASSERT_FALSE(block.empty());
    const std::string next =
        i + 1 == table.index().size()
            ? ""
            : TableBytes::Entries(table.ReadBlock(table.index()[i + 1].handle))
                  .front()
                  .first;
    const std::string& last = block.back().first;
    if (p.index_key_is_user_key) {
      EXPECT_GE(Slice(separator).compare(ExtractUserKey(last)), 0);
      if (next.empty()) continue;
      EXPECT_LT(Slice(separator).compare(ExtractUserKey(next)), 0);
    } else {
      EXPECT_GE(Comparator()->Compare(separator, last), 0);
      if (next.empty()) continue;
      EXPECT_LT(Comparator()->Compare(separator, next), 0);
    }
  }
  EXPECT_EQ(p.data_size, offset);
}

KeysAndValues ManyEntries(int count, size_t value_size) {
  Random random(301);
  KeysAndValues entries;
  for (int i = 0; i < count; ++i) {
    // Half of it random, so that it shrinks by about a half.
    std::string value(value_size, 'v');
    for (size_t j = 0; j < value_size / 2; ++j) {
      value[j] = static_cast<char>(random.Uniform(256));
    }
    const bool deleted = i % 10 == 9;
    entries.emplace_back(
        Key(Numbered("key", i), static_cast<SequenceNumber>(i + 1),
            deleted ? ValueType::kDeletion : ValueType::kValue),
        deleted ? "" : value);
  }
  return entries;
}

// ---- Against RocksDB's own tables -------------------------------------------

TEST(TableBuilderTest, CutsAndWritesDataAndIndexLikeRocksDb) {
  for (const char* fixture :
       {"rocksdb-none/db/000012.sst", "rocksdb-none/db/000014.sst"}) {
    SCOPED_TRACE(fixture);
    const TableBytes theirs(testing::ReadFixture(fixture));
    TableBuilderOptions options = Options();
    options.compression = CompressionType::kNone;
    const TableBytes ours(Build(options, theirs.AllEntries()));

    const PropertiesBlock& p = theirs.properties();
    const PropertiesBlock& q = ours.properties();
    ASSERT_EQ(q.data_size, p.data_size);
    EXPECT_EQ(ours.file().substr(0, q.data_size),
              theirs.file().substr(0, p.data_size));
    EXPECT_EQ(ours.ReadBlock(ours.footer().index),
              theirs.ReadBlock(theirs.footer().index));
    EXPECT_EQ(q.num_data_blocks, p.num_data_blocks);
    EXPECT_EQ(q.index_size, p.index_size);
    EXPECT_EQ(q.raw_key_size, p.raw_key_size);
    EXPECT_EQ(q.raw_value_size, p.raw_value_size);
    EXPECT_EQ(q.num_deletions, p.num_deletions);
    EXPECT_EQ(q.compression, p.compression);
  }
}

TEST(TableBuilderTest, SeparatesVersionsOfAKeyLikeRocksDb) {
  const TableBytes theirs(
      testing::ReadFixture("rocksdb-multiversion/db/000020.sst"));
  ASSERT_FALSE(theirs.properties().index_key_is_user_key);
  const TableBytes ours(Build(Options(), theirs.AllEntries()));
  EXPECT_FALSE(ours.properties().index_key_is_user_key);
  // Handles depend on the compression library, separators do not.
  ASSERT_EQ(ours.index().size(), theirs.index().size());
  for (size_t i = 0; i < ours.index().size(); ++i) {
    EXPECT_EQ(Slice(ours.index()[i].separator).ToString(true),
              Slice(theirs.index()[i].separator).ToString(true));
  }
}

// ---- Contents ---------------------------------------------------------------

TEST(TableBuilderTest, WritesEveryCompressionAndChecksum) {
  const KeysAndValues entries = ManyEntries(2000, 100);
  for (const CompressionType compression :
       {CompressionType::kNone, CompressionType::kSnappy,
        CompressionType::kZlib, CompressionType::kBZip2, CompressionType::kLZ4,
        CompressionType::kLZ4HC, CompressionType::kZSTD}) {
    for (const ChecksumType checksum :
         {ChecksumType::kNone, ChecksumType::kCrc32c, ChecksumType::kXxHash32,
          ChecksumType::kXxHash64, ChecksumType::kXxh3}) {
      TableBuilderOptions options = Options();
      options.compression = compression;
      options.checksum = checksum;
      options.filter_policy = NewBloomFilterPolicy(10);
      const TableBytes table(Build(options, entries));
      SCOPED_TRACE(table.properties().compression);
      CheckInvariants(table, entries);
      EXPECT_EQ(table.footer().checksum, checksum);
      EXPECT_EQ(table.properties().compression, CompressionName(compression));
      EXPECT_TRUE(table.properties().index_key_is_user_key);
      EXPECT_EQ(table.properties().num_deletions, 200u);
      for (const auto& entry : table.index()) {
        EXPECT_EQ(table.TypeOf(entry.handle), compression);
      }
      EXPECT_EQ(table.TypeOf(table.footer().index), CompressionType::kNone);
      EXPECT_EQ(table.TypeOf(table.footer().metaindex), CompressionType::kNone);
    }
  }
}

TEST(TableBuilderTest, KeepsBlocksRawThatDoNotShrink) {
  Random random(17);
  KeysAndValues entries;
  for (int i = 0; i < 100; ++i) {
    std::string value(400, '\0');
    for (char& c : value) c = static_cast<char>(random.Uniform(256));
    entries.emplace_back(Key(Numbered("k", i)), value);
  }
  const TableBytes table(Build(Options(), entries));
  CheckInvariants(table, entries);
  for (const auto& entry : table.index()) {
    EXPECT_EQ(table.TypeOf(entry.handle), CompressionType::kNone);
  }
}

TEST(TableBuilderTest, WritesATableWithoutEntries) {
  TableBuilderOptions options = Options();
  options.filter_policy = NewBloomFilterPolicy(10);
  const TableBytes table(Build(options, {}));
  CheckInvariants(table, {});
  EXPECT_EQ(table.meta_blocks().size(), 1u);
}

TEST(TableBuilderTest, WritesEmptyAndHugeKeysAndValues) {
  const KeysAndValues entries = {
      {Key(""), ""},
      {Key(std::string(1, '\0')), std::string(3 << 20, 'x')},
      {Key("a"), ""},
      {Key(std::string(70000, 'b')), "after a long key"},
      {Key(std::string(70001, 'b')), std::string(100000, '\0')},
      {Key("c"), "end"}};
  for (const CompressionType compression :
       {CompressionType::kNone, CompressionType::kSnappy}) {
    TableBuilderOptions options = Options();
    options.compression = compression;
    options.filter_policy = NewBloomFilterPolicy(10);
    CheckInvariants(TableBytes(Build(options, entries)), entries);
  }
}

TEST(TableBuilderTest, BoundsTheFullSizeOfABlocksKeys) {
  TableBuilderOptions options = Options();
  options.block_size = 16 << 20;
  options.block_restart_interval = 1024;
  // They share all but a few bytes, so that the block's size says little.
  const std::string prefix(64 << 10, 'p');
  KeysAndValues entries;
  for (int i = 0; i < 600; ++i) {
    entries.emplace_back(Key(prefix + Numbered("", i)), "v");
  }
  // One that takes all by itself, and so its neighbours have none of it.
  entries.emplace_back(Key(std::string(kMaxWrittenKeyBytes, 'q')), "v");
  entries.emplace_back(Key("r"), "v");
  const TableBytes table(Build(options, entries));
  CheckInvariants(table, entries);
  ASSERT_EQ(table.index().size(), 4u);
  std::vector<size_t> counts;
  for (const auto& [separator, handle] : table.index()) {
    const std::string body = table.ReadBlock(handle);
    size_t key_bytes = 0;
    counts.push_back(0);
    for (const auto& [key, value] : TableBytes::Entries(body)) {
      key_bytes += key.size();
      ++counts.back();
    }
    if (counts.back() > 1) {
      EXPECT_LE(key_bytes, kMaxWrittenKeyBytes);
    }
    Block* block = nullptr;
    ASSERT_TRUE(Ok(Block::Create(body, {}, &block)));
    Block::Unpin(block);
  }
  // No more of them than needed.
  const size_t full = kMaxWrittenKeyBytes / entries[0].first.size();
  EXPECT_EQ(counts, (std::vector<size_t>{full, 600 - full, 1, 1}));
}

TEST(TableBuilderTest, RefusesEntriesThatNoBlockCanHold) {
  StringFile file;
  TableBuilder builder(Options(), &file);
  const std::string key = Key("key");
  // It is refused before a byte of the value is looked at.
  const Slice huge("", kMaxEntryBytes - key.size() + 1);
  EXPECT_FALSE(builder.Add(key, huge));
  EXPECT_THAT(builder.Finish().ToString(), HasSubstr("more than 3 GiB"));
  EXPECT_EQ(file.contents(), "");
}

TEST(TableBuilderTest, KeysSpanningBlocksGetInternalSeparators) {
  KeysAndValues entries;
  entries.emplace_back(Key("before", 5), std::string(100, 'v'));
  for (SequenceNumber sequence = 500; sequence > 0; --sequence) {
    entries.emplace_back(Key("key", sequence), std::string(100, 'v'));
  }
  entries.emplace_back(Key("later", 5), std::string(100, 'v'));
  const TableBytes table(Build(Options(), entries));
  ASSERT_GT(table.index().size(), 3u);
  EXPECT_FALSE(table.properties().index_key_is_user_key);
  CheckInvariants(table, entries);

  // Many versions within blocks need none.
  TableBuilderOptions options = Options();
  options.block_size = 1 << 20;
  const TableBytes one_block(Build(options, entries));
  EXPECT_TRUE(one_block.properties().index_key_is_user_key);
  CheckInvariants(one_block, entries);
}

TEST(TableBuilderTest, RandomTablesKeepTheInvariants) {
  const uint64_t seed = ::testing::UnitTest::GetInstance()->random_seed() + 1;
  SCOPED_TRACE("seed " + std::to_string(seed));
  Random random(seed);
  for (int round = 0; round < 60; ++round) {
    const auto later = [](const std::string& a, const std::string& b) {
      return Comparator()->Compare(a, b) < 0;
    };
    std::map<std::string, std::string, decltype(later)> sorted(later);
    const uint64_t alphabet = 1 + random.Uniform(4);
    for (uint64_t i = random.Uniform(300); i > 0; --i) {
      std::string user_key(random.Uniform(6), '\0');
      for (char& c : user_key) {
        c = "\xFF"
            "a\x00"
            "b"[random.Uniform(alphabet)];
      }
      sorted[Key(user_key, random.Uniform(50))] =
          std::string(random.Uniform(200), 'v');
    }
    TableBuilderOptions options = Options();
    options.block_size = random.Uniform(2000);
    options.block_restart_interval = static_cast<int>(random.Uniform(20));
    const KeysAndValues entries(sorted.begin(), sorted.end());
    CheckInvariants(TableBytes(Build(options, entries)), entries);
  }
}

// ---- Filters ----------------------------------------------------------------

TEST(TableBuilderTest, WritesTheBuiltInFilter) {
  const KeysAndValues entries = ManyEntries(1000, 20);
  TableBuilderOptions options = Options();
  options.filter_policy = NewBloomFilterPolicy(10);
  const TableBytes table(Build(options, entries));
  const BlockHandle handle = table.meta_blocks().at(kFullBloomBlockName);
  EXPECT_EQ(table.TypeOf(handle), CompressionType::kNone);
  BloomFilterBuilder expected(10);
  for (const auto& entry : entries) {
    expected.AddHash(PreviewXxh3(ExtractUserKey(entry.first)));
  }
  std::string body;
  expected.Finish(&body);
  EXPECT_EQ(table.ReadBlock(handle), body);
  EXPECT_EQ(table.properties().filter_policy, "bloomfilter");
  EXPECT_EQ(table.properties().num_filter_entries, 1000u);
  EXPECT_EQ(table.properties().filter_size, body.size());
}

TEST(TableBuilderTest, WritesPrefixesIntoFilters) {
  const KeysAndValues entries = {{Key("a"), "1"},      {Key("aa1", 9), "2"},
                                 {Key("aa1", 8), "3"}, {Key("aa2"), "4"},
                                 {Key("ab1"), "5"},    {Key("b"), "6"}};
  for (const bool whole_keys : {true, false}) {
    TableBuilderOptions options = Options();
    options.prefix_extractor = NewFixedPrefixTransform(2);
    options.whole_key_filtering = whole_keys;
    options.filter_policy = NewBloomFilterPolicy(10);
    const TableBytes table(Build(options, entries));
    BloomFilterBuilder expected(10);
    for (const char* hashed :
         whole_keys ? std::vector<const char*>{"a", "aa", "aa1", "aa2", "ab",
                                               "ab1", "b"}
                    : std::vector<const char*>{"aa", "ab"}) {
      expected.AddHash(PreviewXxh3(hashed));
    }
    EXPECT_EQ(table.properties().num_filter_entries, expected.HashCount());
    std::string body;
    expected.Finish(&body);
    EXPECT_EQ(table.ReadBlock(table.meta_blocks().at(kFullBloomBlockName)),
              body);
    EXPECT_EQ(table.properties().prefix_extractor, "rocksdb.FixedPrefix.2");
    EXPECT_EQ(table.properties().prefix_filtering, true);
    EXPECT_EQ(table.properties().whole_key_filtering, whole_keys);

    options.filter_policy = std::make_shared<test::ListPolicy>();
    const TableBytes custom(Build(options, entries));
    EXPECT_EQ(custom.ReadBlock(custom.meta_blocks().at(
                  std::string(kCustomFilterPrefix) + "list")),
              whole_keys ? "a,aa,aa1,aa2,ab,ab1,b," : "aa,ab,");
  }
}

// Without prefixes, a filter always has the keys.
TEST(TableBuilderTest, HasWholeKeysWithoutAnExtractor) {
  TableBuilderOptions options = Options();
  options.whole_key_filtering = false;
  options.filter_policy = std::make_shared<test::ListPolicy>();
  const TableBytes table(Build(options, {{Key("a"), "1"}}));
  EXPECT_EQ(table.ReadBlock(table.meta_blocks().at(
                std::string(kCustomFilterPrefix) + "list")),
            "a,");
  EXPECT_TRUE(table.properties().whole_key_filtering);
  EXPECT_FALSE(table.properties().prefix_filtering);
  EXPECT_EQ(table.properties().prefix_extractor, "nullptr");
}

TEST(TableBuilderTest, WritesACustomFilterUnderItsName) {
  TableBuilderOptions options = Options();
  options.filter_policy = std::make_shared<test::ListPolicy>();
  const TableBytes table(Build(options, {{Key(""), "1"},
                                         {Key("a", 9), "2"},
                                         {Key("a", 8), "3"},
                                         {Key("b"), "4"}}));
  const BlockHandle handle =
      table.meta_blocks().at(std::string(kCustomFilterPrefix) + "list");
  EXPECT_EQ(table.ReadBlock(handle), ",a,b,");
  EXPECT_EQ(table.properties().filter_policy, "list");
  EXPECT_EQ(table.properties().num_filter_entries, 3u);
}

class SilentPolicy : public test::ListPolicy {
 public:
  void CreateFilter(const std::vector<Slice>& /*keys*/,
                    std::string* /*filter*/) const override {}
};

TEST(TableBuilderTest, WritesNoFilterWhereThePolicyMakesNone) {
  TableBuilderOptions options = Options();
  options.filter_policy = std::make_shared<SilentPolicy>();
  const TableBytes table(Build(options, {{Key("a"), "1"}}));
  EXPECT_EQ(
      table.meta_blocks().count(std::string(kCustomFilterPrefix) + "list"), 0u);
  EXPECT_EQ(table.properties().filter_policy, "");
  EXPECT_EQ(table.properties().num_filter_entries, 0u);
}

// ---- The builder itself -----------------------------------------------------

TEST(TableBuilderTest, TellsSizes) {
  StringFile file;
  TableBuilderOptions options = Options();
  options.compression = CompressionType::kNone;
  TableBuilder builder(options, &file);
  EXPECT_EQ(builder.EstimatedFileSize(), 0u);
  uint64_t before = 0;
  for (const auto& [key, value] : ManyEntries(500, 100)) {
    builder.Add(key, value);
    EXPECT_GT(builder.EstimatedFileSize(), before);
    before = builder.EstimatedFileSize();
    EXPECT_GE(before, file.contents().size());
    EXPECT_LE(before, file.contents().size() + 5000);
    EXPECT_EQ(builder.FileSize(), file.contents().size());
  }
  ASSERT_TRUE(builder.Finish().ok());
  const TableBytes table(file.contents());
  EXPECT_EQ(builder.FileSize(), file.contents().size());
  EXPECT_EQ(builder.TailSize(),
            file.contents().size() - table.properties().data_size);
}

TEST(TableBuilderTest, AppendsEachBlockAtOnce) {
  StringFile file;
  TableBuilder builder(Options(), &file);
  for (const auto& [key, value] : ManyEntries(500, 100)) {
    builder.Add(key, value);
  }
  ASSERT_TRUE(builder.Finish().ok());
  const TableBytes table(file.contents());
  // And index, properties, metaindex and footer.
  EXPECT_EQ(static_cast<size_t>(file.append_count()), table.index().size() + 4);
}

TEST(TableBuilderTest, RecordsWhereItComesFrom) {
  TableBuilderOptions options = Options();
  options.db_identity = "an identity";
  options.session_identity = "KX4M2ZIDRXV5M8GG1TXJ";
  options.file_number = 77;
  options.creation_time_s = 1600000000;
  options.file_creation_time_s = 1700000000;
  const TableBytes table(Build(options, ManyEntries(10, 10)));
  const PropertiesBlock& p = table.properties();
  EXPECT_EQ(p.db_identity, "an identity");
  EXPECT_EQ(p.session_identity, "KX4M2ZIDRXV5M8GG1TXJ");
  EXPECT_EQ(p.original_file_number, 77u);
  EXPECT_EQ(p.creation_time_s, 1600000000u);
  EXPECT_EQ(p.file_creation_time_s, 1700000000u);
  EXPECT_EQ(p.comparator, "leveldb.BytewiseComparator");
  EXPECT_EQ(p.column_family_name, "default");
}

TEST(TableBuilderTest, RefusesEntriesThatWouldBreakATable) {
  const auto add_after_b = [](const Slice& key) {
    StringFile file;
    TableBuilder builder(Options(), &file);
    builder.Add(Key("b", 5), "value");
    EXPECT_TRUE(builder.status().ok());
    builder.Add(key, "value");
    EXPECT_EQ(builder.Finish().code(), builder.status().code());
    EXPECT_EQ(builder.TEST_EntryCount(), builder.status().ok() ? 2u : 1u);
    return builder.status();
  };
  EXPECT_TRUE(add_after_b(Key("b", 4)).ok());
  for (const std::string& key : {Key("a"), Key("b", 5), Key("b", 6)}) {
    EXPECT_TRUE(IsInvalidArgument(add_after_b(key), "out of order"));
  }
  EXPECT_TRUE(add_after_b("short").IsInvalidArgument());
}

TEST(TableBuilderTest, RefusesCompressionItCannotWrite) {
  StringFile file;
  TableBuilderOptions options = Options();
  options.compression = CompressionType::kXpress;
  TableBuilder builder(options, &file);
  EXPECT_TRUE(builder.status().IsNotSupported());
  builder.Add(Key("a"), "value");
  EXPECT_TRUE(builder.Finish().IsNotSupported());
  EXPECT_EQ(file.contents(), "");
}

TEST(TableBuilderTest, ReportsFailedWritesWhereverTheyHappen) {
  const KeysAndValues entries = ManyEntries(200, 100);
  TableBuilderOptions options = Options();
  options.filter_policy = NewBloomFilterPolicy(10);
  const size_t size = Build(options, entries).size();
  for (size_t limit = 0; limit < size; limit += 97) {
    StringFile file;
    file.FailAbove(limit);
    TableBuilder builder(options, &file);
    for (const auto& [key, value] : entries) builder.Add(key, value);
    const Status status = builder.Finish();
    EXPECT_TRUE(IsIOError(status));
    EXPECT_TRUE(builder.status().IsIOError());
    EXPECT_EQ(builder.FileSize(), file.contents().size());
  }
}

// The versions of a key may be in different blocks.
TEST(TableBuilderTest, CountsDeadEntries) {
  const test::ReverseComparator reverse;
  const InternalKeyComparator reversed(&reverse);
  Random random(7);
  for (const InternalKeyComparator* comparator : {Comparator(), &reversed}) {
    for (const size_t block_size : {1, 200, 4096}) {
      KeysAndValues entries;
      DeadEntries expected;
      uint64_t run = 0;
      for (int i = 0; i < 500; ++i) {
        const std::string user_key =
            Numbered("k", comparator == &reversed ? 999 - i : i);
        const uint64_t versions = 1 + random.Uniform(3);
        for (uint64_t v = 0; v < versions; ++v) {
          const uint64_t kind = random.Uniform(6);
          const ValueType type = kind == 0   ? ValueType::kDeletion
                                 : kind == 1 ? ValueType::kSingleDeletion
                                             : ValueType::kValue;
          entries.emplace_back(Key(user_key, 10 - v, type),
                               std::string(random.Uniform(100), 'v'));
          ++expected.entries;
          if (type != ValueType::kValue) ++expected.deletions;
          if (v > 0) ++expected.hidden;
          run = type != ValueType::kValue || v > 0 ? run + 1 : 0;
          expected.longest_run = std::max(expected.longest_run, run);
        }
      }
      TableBuilderOptions options = Options();
      options.comparator = comparator;
      options.block_size = block_size;
      StringFile file;
      TableBuilder builder(options, &file);
      for (const auto& [key, value] : entries) {
        ASSERT_TRUE(builder.Add(key, value));
      }
      builder.AddRangeTombstone("x", "y", 1);
      ASSERT_TRUE(builder.Finish().ok());
      const TableBytes table(file.contents());
      for (const DeadEntries& dead :
           {builder.Dead(), DeadEntriesOf(table.properties())}) {
        EXPECT_TRUE(dead.known);
        EXPECT_EQ(dead.entries, expected.entries);
        EXPECT_EQ(dead.deletions, expected.deletions);
        EXPECT_EQ(dead.hidden, expected.hidden);
        EXPECT_EQ(dead.longest_run, expected.longest_run);
      }
    }
  }
}

TEST(TableBuilderTest, FollowsAnotherComparator) {
  // Its separators must be left alone.
  const test::ReverseComparator reverse;
  const InternalKeyComparator comparator(&reverse);
  TableBuilderOptions options = Options();
  options.comparator = &comparator;
  KeysAndValues entries;
  for (int i = 999; i >= 0; --i) {
    entries.emplace_back(Key(Numbered("k", i)), std::string(50, 'v'));
  }
  const TableBytes table(Build(options, entries));
  EXPECT_EQ(table.AllEntries(), entries);
  EXPECT_EQ(table.properties().comparator, "test.reverse");
  for (const auto& entry : table.index()) {
    const KeysAndValues block =
        TableBytes::Entries(table.ReadBlock(entry.handle));
    EXPECT_EQ(Slice(entry.separator), ExtractUserKey(block.back().first));
  }
}

}  // namespace
}  // namespace varve
