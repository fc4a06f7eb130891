// Varve: a key-value storage engine. MIT licence, see LICENSE.
// Tags: threads
//
// Goal: a table whose partitions are read one by one gives the same answers as
// one that is loaded as a whole, keeps no more than it may, and reads no more
// than it needs. Method: tables of many forms with block caches of many sizes;
// reads are counted; damage and failed reads at chosen places.

#include "table/reader/table_parts.h"

#include "test/table/partitions/partitioned_table_use.h"
#include "test/testing/seed.h"
#include "util/threads/epoch.h"

namespace varve::test {
namespace {

using ::testing::HasSubstr;

class TablePartsTest : public testing::PartsTestBase {
 protected:
  void OpenParts(const std::string& bytes) {
    table_.reset();
    const Status status = Open(Options(bytes), bytes, &table_, &log_);
    ASSERT_TRUE(Ok(status));
    ASSERT_NE(table_->core().parts, nullptr);
    ASSERT_EQ(table_->core().index.size(), 0u);
  }

  std::unique_ptr<Table> table_;
};

TEST_F(TablePartsTest, ReadsEveryForm) {
  Rng random(TestSeed());
  for (int round = 0; round < 30; ++round) {
    PartitionedForm form;
    form.user_keys = random.OneIn(2);
    form.delta = random.OneIn(2);
    form.format_version = form.user_keys || form.delta ? 5 : 2;
    form.layout = random.Pick({PartitionedForm::Layout::kAfterData,
                               PartitionedForm::Layout::kReversed,
                               PartitionedForm::Layout::kAmongBlocks});
    if (form.layout == PartitionedForm::Layout::kAfterData) {
      form.restart_interval = random.Pick({1, 4, 16});
    }
    form.block_entries = static_cast<size_t>(random.Between(1, 5));
    form.partition_blocks = static_cast<size_t>(random.Between(1, 10));
    // At the same keys, at others, or none.
    form.filter_blocks = random.Pick<size_t>({form.partition_blocks, 3, 0});
    const KeysAndValues entries = NumberedEntries(random.Between(1, 300));
    UseCache(random.Pick<size_t>({0, 4 << 10, 1 << 20}));
    ASSERT_NO_FATAL_FAILURE(
        OpenParts(PartitionedTable(form, entries).Finish()));
    for (int pass = 0; pass < 2; ++pass) {
      ASSERT_NO_FATAL_FAILURE(CheckTable(*table_, entries));
    }
  }
}

// Their separators are internal keys.
TEST_F(TablePartsTest, FindsAllVersionsOfAKey) {
  KeysAndValues entries;
  for (int i = 0; i < 100; ++i) {
    for (int version = i % 10 == 0 ? 50 : 1; version > 0; --version) {
      entries.emplace_back(
          Key(Numbered(2 * i), static_cast<SequenceNumber>(version)),
          std::string(20, 'v') + std::to_string(version));
    }
  }
  for (const size_t bytes : {0, 1 << 20}) {
    UseCache(bytes);
    ASSERT_NO_FATAL_FAILURE(OpenParts(BuildPartitioned(entries, 60)));
    ASSERT_NO_FATAL_FAILURE(CheckTable(*table_, entries));
    EXPECT_EQ(Lookup(*table_, Numbered(0), 0), "absent");
  }
}

TEST_F(TablePartsTest, PartsTakeHalfOfTheCache) {
  const KeysAndValues entries = NumberedEntries(20000);
  const size_t capacity = 200 << 10;
  UseCache(capacity);
  ASSERT_NO_FATAL_FAILURE(OpenParts(BuildPartitioned(entries, 1000)));
  const size_t own = table_->ApproximateMemoryUsage();
  for (int i = 0; i < 20000; i += 7) {
    ASSERT_EQ(Lookup(*table_, Numbered(2 * i)), "value " + std::to_string(i));
    ASSERT_LE(parts_->ApproximateMemoryUsage(), capacity / 2);
  }
  EXPECT_GT(parts_->ApproximateMemoryUsage(), capacity / 4);
  EXPECT_EQ(table_->ApproximateMemoryUsage(), own);
  EXPECT_LT(own, 40000u);
  EXPECT_LE(cache_->GetUsage(), capacity + (64 << 10));
  table_.reset();
  EXPECT_EQ(parts_->ApproximateMemoryUsage(), 0u);
  TEST_DrainRetired();
  EXPECT_EQ(cache_->GetUsage(), 0u);
}

TEST_F(TablePartsTest, OnePartIsOneRead) {
  UseCache(8 << 20);
  ASSERT_NO_FATAL_FAILURE(
      OpenParts(BuildPartitioned(NumberedEntries(20000), 1000)));
  // Footer, metaindex and properties; then the names of the partitions.
  EXPECT_LE(log_.reads.load(), 3);
  log_.reads = 0;
  EXPECT_EQ(Lookup(*table_, Numbered(2000)), "value 1000");
  EXPECT_EQ(log_.reads.load(), 2);  // The part and the block.
  EXPECT_EQ(Lookup(*table_, Numbered(2000)), "value 1000");
  EXPECT_EQ(log_.reads.load(), 2);
  // Absent keys need no block.
  int blocks = 0;
  for (int i = 1999; i < 2039; i += 2) {
    EXPECT_EQ(Lookup(*table_, Numbered(i)), "absent");
  }
  blocks = log_.reads.load() - 2;
  EXPECT_LE(blocks, 3);
}

TEST_F(TablePartsTest, ReadsOfMemoryAloneReadNoFile) {
  UseCache(8 << 20);
  ASSERT_NO_FATAL_FAILURE(
      OpenParts(BuildPartitioned(NumberedEntries(2000), 300)));
  ReadOptions options;
  options.read_tier = ReadTier::kBlockCacheTier;
  LookupState state;
  std::string value;
  EXPECT_TRUE(
      GetAt(*table_, Numbered(10), kMaxSequenceNumber, &state, &value, options)
          .IsIncomplete());
  const auto it = table_->NewIterator(options);
  it->SeekToFirst();
  EXPECT_FALSE(it->Valid());
  EXPECT_TRUE(it->status().IsIncomplete());
}

TEST_F(TablePartsTest, IteratorsKeepTheirPart) {
  const KeysAndValues entries = NumberedEntries(5000);
  UseCache(0);  // Each part is evicted by the next one.
  ASSERT_NO_FATAL_FAILURE(OpenParts(BuildPartitioned(entries, 300)));
  const auto it = table_->NewIterator(ReadOptions());
  it->SeekToFirst();
  for (size_t i = 0; i < entries.size(); ++i, it->Next()) {
    ASSERT_TRUE(it->Valid());
    ASSERT_EQ(it->key(), entries[i].first);
    if (i % 100 == 0) {
      EXPECT_EQ(Lookup(*table_, Numbered(5000)), "value 2500");
      TEST_DrainRetired();
    }
  }
  EXPECT_FALSE(it->Valid());
  EXPECT_TRUE(Ok(it->status()));
}

TEST_F(TablePartsTest, ApproximateOffsetsAndAnchorsFollowTheParts) {
  const KeysAndValues entries = NumberedEntries(5000);
  const std::string bytes = BuildPartitioned(entries, 300);
  UseCache(1 << 20);
  ASSERT_NO_FATAL_FAILURE(OpenParts(bytes));
  std::unique_ptr<Table> whole;
  ASSERT_TRUE(Ok(Open(ReaderOptions(bytes), bytes, &whole)));
  for (int i = 0; i < 10002; i += 501) {
    EXPECT_EQ(table_->ApproximateOffsetOf(Key(Numbered(i))),
              whole->ApproximateOffsetOf(Key(Numbered(i))));
  }
  std::vector<TableAnchor> anchors;
  table_->AppendAnchors(10, &anchors);
  ASSERT_EQ(anchors.size(), 10u);
  uint64_t sum = 0;
  for (size_t i = 0; i < anchors.size(); ++i) {
    sum += anchors[i].bytes;
    if (i == 0) continue;
    EXPECT_LT(anchors[i - 1].user_key, anchors[i].user_key);
  }
  EXPECT_NEAR(static_cast<double>(sum),
              static_cast<double>(whole->properties().data_size), 1000);
}

TEST_F(TablePartsTest, DamagedPartitionsAreCorruption) {
  const KeysAndValues entries = NumberedEntries(2000);
  const std::string whole = BuildPartitioned(entries, 300);
  const testing::TableBytes parts(whole);
  const BlockHandle damaged = parts.index()[2].handle;
  std::string bytes = whole;
  bytes[damaged.offset + 3] ^= 1;
  UseCache(1 << 20);
  ASSERT_NO_FATAL_FAILURE(OpenParts(bytes));
  EXPECT_EQ(Lookup(*table_, Numbered(0)), "value 0");
  // The keys of the others are found.
  const std::string lost = Slice(parts.index()[2].separator).ToString();
  EXPECT_THAT(Lookup(*table_, lost), HasSubstr("000007.sst offset"));
  EXPECT_EQ(Lookup(*table_, Numbered(3998)), "value 1999");
  KeysAndValues found;
  EXPECT_TRUE(Scan(*table_, &found).IsCorruption());
  EXPECT_TRUE(table_->VerifyChecksum().IsCorruption());
  // If the checksums of the index are verified first.
  TableReaderOptions options = Options(bytes);
  options.index_loading = IndexLoading::kVerifiedAtFirstUse;
  EXPECT_TRUE(Open(options, bytes, &table_).IsCorruption());
}

TEST_F(TablePartsTest, DamagedFilterPartitionsAreNotAsked) {
  const KeysAndValues entries = NumberedEntries(2000);
  std::string bytes = BuildPartitioned(entries, 300);
  const testing::TableBytes parts(bytes);
  std::vector<BlockHandle> filters;
  ASSERT_TRUE(Ok(TableIndex::ListHandles(
      parts.ReadBlock(parts.meta_blocks().at(kPartitionedBloomBlockName)),
      parts.properties(), bytes.size(), &filters)));
  for (const BlockHandle& filter : filters) bytes[filter.offset] ^= 1;
  UseCache(1 << 20);
  ASSERT_NO_FATAL_FAILURE(OpenParts(bytes));
  for (int i = 0; i < 2000; i += 13) {
    ASSERT_EQ(Lookup(*table_, Numbered(2 * i)), "value " + std::to_string(i));
    ASSERT_EQ(Lookup(*table_, Numbered(2 * i + 1)), "absent");
  }
}

TEST_F(TablePartsTest, PartitionsOfOtherKeysAreNoticed) {
  PartitionedForm form;
  form.checksum = ChecksumType::kNone;
  form.filter_blocks = form.partition_blocks;
  PartitionedTable table(form, NumberedEntries(100));
  std::swap(table.index_partitions[1].handle, table.index_partitions[2].handle);
  UseCache(1 << 20);
  ASSERT_NO_FATAL_FAILURE(OpenParts(table.Finish()));
  EXPECT_THAT(Lookup(*table_, Slice(table.index_partitions[1].separator)),
              HasSubstr("the keys are not inside the partition"));
}

// Nothing is kept from it.
TEST_F(TablePartsTest, FailedReadsAreErrorsAndTriedAgain) {
  UseCache(1 << 20);
  ASSERT_NO_FATAL_FAILURE(
      OpenParts(BuildPartitioned(NumberedEntries(2000), 300)));
  log_.fail_from = 0;
  EXPECT_THAT(Lookup(*table_, Numbered(10)), HasSubstr("told to fail"));
  const auto it = table_->NewIterator(ReadOptions());
  it->Seek(Key(Numbered(10)));
  EXPECT_TRUE(it->status().IsIOError());
  log_.fail_from = UINT64_MAX;
  EXPECT_EQ(Lookup(*table_, Numbered(10)), "value 5");
  it->Seek(Key(Numbered(10)));
  ASSERT_TRUE(it->Valid());
  EXPECT_EQ(it->value(), "value 5");
}

TEST_F(TablePartsTest, ThreadsShareParts) {
  const KeysAndValues entries = NumberedEntries(3000);
  UseCache(60 << 10);  // Not all fit.
  ASSERT_NO_FATAL_FAILURE(OpenParts(BuildPartitioned(entries, 300)));
  const uint64_t seed = TestSeed();
  std::vector<std::thread> threads;
  for (uint64_t thread = 0; thread < 4; ++thread) {
    threads.emplace_back([this, thread, seed] {
      Rng random(seed + thread);
      for (int i = 0; i < 3000; ++i) {
        const int number = static_cast<int>(random.Below(3000));
        ASSERT_EQ(Lookup(*table_, Numbered(2 * number)),
                  "value " + std::to_string(number));
        if (!random.OneIn(100)) continue;
        const auto it = table_->NewIterator(ReadOptions());
        it->Seek(Key(Numbered(2 * number)));
        for (int step = 0; step < 100 && it->Valid(); ++step) it->Next();
        ASSERT_TRUE(Ok(it->status()));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace varve::test
