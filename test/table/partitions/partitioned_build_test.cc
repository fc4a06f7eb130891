// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: tables that are written with partitions hold what was added, are cut
// where the options say, and describe themselves. Method: tables of random
// forms are built and read; their blocks are taken apart by independent code.

#include "table/build/table_builder.h"
#include "test/table/partitions/partitioned_table_use.h"
#include "test/testing/env/string_file.h"
#include "test/testing/list_policy.h"
#include "test/testing/seed.h"
#include "varve/slice_transform.h"

namespace varve::test {
namespace {

using testing::kTableComparator;
using testing::StringFile;
using testing::TableBytes;

TableBuilderOptions BuilderOptions(uint64_t metadata_block_size) {
  TableBuilderOptions options;
  options.comparator = &kTableComparator;
  options.partitioned_index = true;
  options.partition_filters = true;
  options.metadata_block_size = metadata_block_size;
  options.filter_policy = NewBloomFilterPolicy(10);
  return options;
}

std::string Build(const TableBuilderOptions& options,
                  const KeysAndValues& entries) {
  StringFile file;
  TableBuilder builder(options, &file);
  for (const auto& [key, value] : entries) builder.Add(key, value);
  EXPECT_TRUE(Ok(builder.Finish()));
  return file.contents();
}

std::unique_ptr<Table> OpenBuilt(const std::string& bytes) {
  std::unique_ptr<Table> table;
  EXPECT_TRUE(Ok(Open(ReaderOptions(bytes), bytes, &table)));
  return table;
}

TEST(PartitionedBuildTest, TablesHoldWhatWasAdded) {
  Rng random(TestSeed());
  for (int round = 0; round < 40; ++round) {
    TableBuilderOptions options =
        BuilderOptions(random.Pick({1u, 60u, 300u, 4096u, 1u << 30}));
    options.block_size = static_cast<size_t>(random.Pick({1, 64, 1000}));
    options.partition_filters = !random.OneIn(3);
    if (random.OneIn(4)) options.filter_policy = nullptr;
    if (random.OneIn(2)) {
      // One prefix can be in several partitions.
      options.prefix_extractor =
          NewFixedPrefixTransform(static_cast<size_t>(random.Between(0, 8)));
      options.whole_key_filtering = random.OneIn(2);
    }
    KeysAndValues entries;
    const int count = random.Between(1, 800);
    for (int i = 0; i < count; ++i) {
      // Keys with many versions make separators internal keys.
      const int versions = random.OneIn(20) ? random.Between(1, 30) : 1;
      for (int version = versions; version > 0; --version) {
        entries.emplace_back(
            Key(Numbered(2 * i), static_cast<SequenceNumber>(version)),
            random.Bytes(random.Below(30)));
      }
    }
    const auto table = OpenBuilt(Build(options, entries));
    ASSERT_NE(table, nullptr);
    ASSERT_NO_FATAL_FAILURE(CheckTable(*table, entries));
  }
}

TEST(PartitionedBuildTest, IndexAndFilterAreCutAtTheSameKeys) {
  TableBuilderOptions options = BuilderOptions(500);
  options.block_size = 100;
  const KeysAndValues entries = NumberedEntries(3000);
  const std::string bytes = Build(options, entries);
  const TableBytes table(bytes);
  const PropertiesBlock& properties = table.properties();
  EXPECT_EQ(properties.index_type, kTwoLevelIndexType);
  EXPECT_EQ(properties.index_partitions, table.index().size());
  EXPECT_GT(properties.index_partitions, 20u);
  EXPECT_EQ(properties.top_level_index_size, table.footer().index.size);
  EXPECT_EQ(properties.num_filter_entries, entries.size());
  uint64_t index_bytes = table.footer().index.size + kBlockTrailerSize;
  for (const auto& [separator, handle] : table.index()) {
    index_bytes += handle.size;
    EXPECT_LE(handle.size, 600u);
  }
  EXPECT_EQ(properties.index_size, index_bytes);
  const auto names = table.meta_blocks().find(kPartitionedBloomBlockName);
  ASSERT_NE(names, table.meta_blocks().end());
  EXPECT_EQ(table.meta_blocks().count(kFullBloomBlockName), 0u);
  std::vector<BlockHandle> filters;
  ASSERT_TRUE(Ok(TableIndex::ListHandles(table.ReadBlock(names->second),
                                         properties, bytes.size(), &filters)));
  ASSERT_EQ(filters.size(), table.index().size());
  uint64_t filter_bytes = 0;
  for (const BlockHandle& filter : filters) {
    filter_bytes += filter.size;
    EXPECT_LE(filter.size, 600u);
  }
  EXPECT_EQ(properties.filter_size, filter_bytes);
}

TEST(PartitionedBuildTest, FiltersDecideOnCutsToo) {
  // One data block has many keys, so that the index alone would not be cut.
  TableBuilderOptions options = BuilderOptions(1000);
  const std::string bytes = Build(options, NumberedEntries(4000));
  const uint64_t with_filters = TableBytes(bytes).properties().index_partitions;
  options.partition_filters = false;
  const std::string whole = Build(options, NumberedEntries(4000));
  EXPECT_GT(with_filters, TableBytes(whole).properties().index_partitions);
  EXPECT_EQ(TableBytes(whole).meta_blocks().count(kFullBloomBlockName), 1u);
}

TEST(PartitionedBuildTest, FiltersExcludeAbsentKeys) {
  const auto table =
      OpenBuilt(Build(BuilderOptions(300), NumberedEntries(3000)));
  ASSERT_NE(table, nullptr);
  ASSERT_NE(table->core().filter_partitions, nullptr);
  int positives = 0;
  for (int i = 0; i < 3000; ++i) {
    const std::string absent = Numbered(2 * i + 1);
    positives += static_cast<int>(
        table->core().filter_partitions->MayMatch(PreviewXxh3(absent), absent));
  }
  EXPECT_LT(positives, 150);
}

// A policy of the user's own has one filter.
TEST(PartitionedBuildTest, FiltersOfOtherPoliciesStayWhole) {
  TableBuilderOptions options = BuilderOptions(300);
  options.filter_policy = std::make_shared<ListPolicy>();
  const KeysAndValues entries = NumberedEntries(500);
  const std::string bytes = Build(options, entries);
  EXPECT_EQ(TableBytes(bytes).meta_blocks().count(kPartitionedBloomBlockName),
            0u);
  EXPECT_EQ(
      TableBytes(bytes).meta_blocks().count(std::string(kCustomFilterPrefix) +
                                            options.filter_policy->Name()),
      1u);
  const auto table = OpenBuilt(bytes);
  ASSERT_NO_FATAL_FAILURE(CheckTable(*table, entries));
}

// It has no partition that a block could name.
TEST(PartitionedBuildTest, TablesOfRangeDeletionsHaveAPlainIndex) {
  StringFile file;
  TableBuilder builder(BuilderOptions(300), &file);
  builder.AddRangeTombstone("a", "b", 5);
  ASSERT_TRUE(Ok(builder.Finish()));
  EXPECT_EQ(TableBytes(file.contents()).properties().index_type, 0u);
  const auto table = OpenBuilt(file.contents());
  ASSERT_NE(table, nullptr);
  EXPECT_NE(table->tombstones(), nullptr);
}

}  // namespace
}  // namespace varve::test
