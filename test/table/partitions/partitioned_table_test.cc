// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: tables with partitioned indexes and filters are read as if they had one
// index and one filter, with few reads, and damaged filters are not asked.
// Method: tables made here in every form of the format, compared with their
// entries; damaged filters.

#include "monitoring/statistics.h"
#include "table/reader/table.h"
#include "test/table/partitions/partitioned_table_use.h"
#include "test/testing/seed.h"
#include "test/testing/status_checks.h"
#include "test/testing/test_headers.h"
#include "varve/statistics.h"

namespace varve::test {
namespace {

using ::testing::HasSubstr;

// Some keys have many versions.
KeysAndValues RandomTable(Rng* random) {
  std::map<std::string, int> versions;
  const int count = random->Pick({0, 1, 5, random->Between(6, 200)});
  const std::string common(random->Below(20), 'c');
  for (int i = 0; i < count; ++i) {
    const std::string user_key = common + std::to_string(random->Below(5000));
    versions[user_key] = random->OneIn(10) ? random->Between(2, 30) : 1;
  }
  KeysAndValues entries;
  for (const auto& [user_key, many] : versions) {
    for (int i = many; i > 0; --i) {
      entries.emplace_back(Key(user_key, static_cast<uint64_t>(i)),
                           random->Bytes(random->Below(60)));
    }
  }
  return entries;
}

TEST(PartitionedTableTest, ReadsEveryForm) {
  Rng random(TestSeed());
  for (int round = 0; round < 400; ++round) {
    PartitionedForm form;
    form.user_keys = random.OneIn(2);
    form.delta = random.OneIn(2);
    form.format_version = static_cast<uint32_t>(random.Between(2, 5));
    form.checksum = random.Pick({ChecksumType::kNone, ChecksumType::kCrc32c,
                                 ChecksumType::kXxHash32,
                                 ChecksumType::kXxHash64, ChecksumType::kXxh3});
    form.compression =
        random.Pick({CompressionType::kNone, CompressionType::kSnappy,
                     CompressionType::kLZ4, CompressionType::kZSTD});
    form.layout = random.Pick({PartitionedForm::Layout::kAfterData,
                               PartitionedForm::Layout::kReversed,
                               PartitionedForm::Layout::kAmongBlocks});
    if (form.layout == PartitionedForm::Layout::kAfterData) {
      form.restart_interval = random.Pick({1, 2, 16});
    }
    form.block_entries = static_cast<size_t>(random.Between(1, 8));
    form.partition_blocks = static_cast<size_t>(random.Between(1, 10));
    form.filter_blocks = static_cast<size_t>(random.Between(0, 10));
    form.whole_key_filtering = !random.OneIn(5);
    form.partitioned_index = !random.OneIn(5);
    form.tells_data_size = random.OneIn(2);
    const KeysAndValues entries = RandomTable(&random);
    const std::string bytes = PartitionedTable(form, entries).Finish();
    TableReaderOptions options = ReaderOptions(bytes);
    options.separate_reads = random.OneIn(4);
    options.binary_search = random.OneIn(4);
    options.index_loading =
        random.Pick({IndexLoading::kAtOpen, IndexLoading::kAtFirstUse,
                     IndexLoading::kVerifiedAtFirstUse});
    options.min_deferred_bytes = random.Pick({uint64_t{0}, uint64_t{1} << 16});
    if (random.OneIn(4)) options.tail_size = 60;
    SCOPED_TRACE(round);
    std::unique_ptr<Table> table;
    ASSERT_TRUE(Ok(Open(options, bytes, &table)));
    ASSERT_TRUE(Ok(table->Load()));
    ASSERT_NO_FATAL_FAILURE(CheckTable(*table, entries));
    ASSERT_EQ(
        table->core().filter_partitions != nullptr,
        form.filter_blocks > 0 && form.whole_key_filtering && !entries.empty());
  }
}

// ---- The filter -------------------------------------------------------------

// Returns how many of the absent keys the filter excluded.
uint64_t Excluded(TableReaderOptions options, const std::string& bytes,
                  int count) {
  const auto statistics = CreateDBStatistics();
  options.statistics = StatisticsImpl::Of(statistics.get());
  std::unique_ptr<Table> table;
  const Status s = Open(options, bytes, &table);
  EXPECT_TRUE(Ok(s));
  if (!s.ok()) return 0;
  for (int i = 0; i < count; ++i) {
    EXPECT_EQ(Lookup(*table, Numbered(2 * i)), "value " + std::to_string(i));
  }
  const auto excluded = [&] {
    return statistics->getTickerCount(Ticker::kBloomFilterUseful);
  };
  EXPECT_EQ(excluded(), 0u);
  for (int i = 0; i < count; ++i) {
    EXPECT_EQ(Lookup(*table, Numbered(2 * i + 1)), "absent");
  }
  return excluded();
}

TEST(PartitionedTableTest, FilterExcludesAbsentKeys) {
  for (const bool user_keys : {false, true}) {
    PartitionedForm form;
    form.user_keys = user_keys;
    PartitionedTable table(form, NumberedEntries(1000));
    // The ranges of filter and index differ.
    ASSERT_NE(table.filter_partitions.size(), table.index_partitions.size());
    const std::string bytes = table.Finish();
    EXPECT_GT(Excluded(ReaderOptions(bytes), bytes, 1000), 950u);
  }
}

TEST(PartitionedTableTest, FilterOfPrefixesIsNotAsked) {
  PartitionedForm form;
  form.whole_key_filtering = false;
  const std::string bytes =
      PartitionedTable(form, NumberedEntries(100)).Finish();
  EXPECT_EQ(Excluded(ReaderOptions(bytes), bytes, 100), 0u);
}

TEST(PartitionedTableTest, KeysAfterTheLastFilterPartitionAreRead) {
  PartitionedTable table({}, NumberedEntries(100));
  table.filter_partitions.resize(2);
  const std::string bytes = table.Finish();
  const uint64_t excluded = Excluded(ReaderOptions(bytes), bytes, 100);
  EXPECT_GT(excluded, 10u);
  EXPECT_LT(excluded, 20u);
}

TEST(PartitionedTableTest, FilterWithoutPartitionsExcludesNothing) {
  PartitionedTable table({}, NumberedEntries(100));
  table.filter_partitions.clear();
  const std::string bytes = table.Finish();
  EXPECT_EQ(Excluded(ReaderOptions(bytes), bytes, 100), 0u);
}

// The separator of a filter partition may be between two versions.
TEST(PartitionedTableTest, FilterFindsAllVersionsOfAKey) {
  PartitionedForm form;
  form.user_keys = false;
  form.block_entries = 2;
  form.filter_blocks = 1;
  KeysAndValues entries = {{Key("a", 1), "a1"}};
  for (uint64_t i = 20; i > 0; --i) {
    entries.emplace_back(Key("k", i), "k" + std::to_string(i));
  }
  entries.emplace_back(Key("z", 1), "z1");
  const std::string bytes = PartitionedTable(form, entries).Finish();
  std::unique_ptr<Table> table;
  ASSERT_TRUE(Open(ReaderOptions(bytes), bytes, &table).ok());
  for (uint64_t i = 1; i <= 30; ++i) {
    EXPECT_EQ(Lookup(*table, "k", i),
              "k" + std::to_string(std::min<uint64_t>(i, 20)));
  }
  EXPECT_EQ(Lookup(*table, "k", 0), "absent");
  EXPECT_EQ(Lookup(*table, "z"), "z1");
}

class MessageLogger : public Logger {
 public:
  using Logger::Logv;
  void Logv(LogLevel /*level*/, const char* format, va_list args) override {
    char text[512];
    vsnprintf(text, sizeof(text), format, args);
    messages += text;
    messages += '\n';
  }
  std::string messages;
};

TEST(PartitionedTableTest, DamagedFilterPartitionsAreNotAsked) {
  PartitionedTable table({}, NumberedEntries(100));
  const auto partitions = table.filter_partitions;
  const std::string whole = table.Finish();
  const BlockHandle top = [&] {
    const testing::TableBytes parts(whole);
    return parts.meta_blocks().at(kPartitionedBloomBlockName);
  }();
  const uint64_t excluded = Excluded(ReaderOptions(whole), whole, 100);
  MessageLogger logger;
  TableReaderOptions options = ReaderOptions(whole);
  options.info_log = &logger;

  std::string bytes = whole;
  bytes[partitions[1].handle.offset] ^= 1;
  const uint64_t fewer = Excluded(options, bytes, 100);
  EXPECT_LT(fewer, excluded);
  EXPECT_GT(fewer, excluded / 2);
  EXPECT_THAT(logger.messages,
              HasSubstr("without a partition of the filter, which is damaged: "
                        "Corruption: block checksum mismatch"));
  std::unique_ptr<Table> opened;
  ASSERT_TRUE(Open(options, bytes, &opened).ok());
  EXPECT_TRUE(opened->VerifyChecksum().IsCorruption());

  logger.messages.clear();
  bytes = whole;
  bytes[top.offset + 2] ^= 1;
  EXPECT_EQ(Excluded(options, bytes, 100), 0u);
  EXPECT_THAT(logger.messages,
              HasSubstr("without the filter, which is damaged: "
                        "Corruption: block checksum mismatch"));
}

TEST(PartitionedTableTest, FilterWithWrongHandlesIsNotAsked) {
  using Partitions = std::vector<IndexEntry>;
  const std::pair<const char*, void (*)(Partitions*)> cases[] = {
      {"block handle beyond the file",
       [](Partitions* all) { (*all)[1].handle.offset = 1 << 30; }},
      {"block handle beyond the file",
       [](Partitions* all) { (*all)[1].handle.size = uint64_t{1} << 62; }},
      {"more blocks than the file has space for",
       [](Partitions* all) {
         for (IndexEntry& entry : *all) entry.handle = {0, 1500};
       }},
      {"out of order",
       [](Partitions* all) { std::swap((*all)[0], (*all)[2]); }},
  };
  for (const auto& [message, spoil] : cases) {
    PartitionedTable table({}, NumberedEntries(100));
    spoil(&table.filter_partitions);
    const std::string bytes = table.Finish();
    MessageLogger logger;
    TableReaderOptions options = ReaderOptions(bytes);
    options.info_log = &logger;
    EXPECT_EQ(Excluded(options, bytes, 100), 0u);
    EXPECT_THAT(logger.messages, HasSubstr(message));
  }
}

// ---- Reads ------------------------------------------------------------------

int ReadsOfOpen(const TableReaderOptions& options, const std::string& bytes,
                bool load = true) {
  ReadLog log;
  std::unique_ptr<Table> table;
  Status s = Open(options, bytes, &table, &log);
  if (s.ok() && load) s = table->Load();
  EXPECT_TRUE(Ok(s));
  return log.reads.load();
}

TEST(PartitionedTableTest, OpensWithFewReads) {
  PartitionedForm form;
  form.block_entries = 1;
  form.partition_blocks = 20;
  const std::string small =
      PartitionedTable(form, NumberedEntries(500)).Finish();
  ASSERT_LT(small.size(), 60000u);
  EXPECT_EQ(ReadsOfOpen(ReaderOptions(small), small), 1);

  // The partitions are longer than the first read.
  const KeysAndValues entries = NumberedEntries(20000);
  for (const bool tells : {true, false}) {
    form.tells_data_size = tells;
    const std::string large = PartitionedTable(form, entries).Finish();
    TableReaderOptions options = ReaderOptions(large);
    // Without a hint, the partitions of the filter are found by their handles,
    // then those of the index.
    EXPECT_LE(ReadsOfOpen(options, large), tells ? 2 : 4);
    options.index_loading = IndexLoading::kAtFirstUse;
    options.tail_size = 4096;
    EXPECT_EQ(ReadsOfOpen(options, large, false), 1);
    EXPECT_LE(ReadsOfOpen(options, large), tells ? 2 : 6);
    options.index_loading = IndexLoading::kVerifiedAtFirstUse;
    EXPECT_LE(ReadsOfOpen(options, large, false), 3);
  }
  // Partitions that are far from each other.
  form.layout = PartitionedForm::Layout::kAmongBlocks;
  form.filter_blocks = 0;
  const std::string scattered = PartitionedTable(form, entries).Finish();
  EXPECT_LE(ReadsOfOpen(ReaderOptions(scattered), scattered), 2 + 20000 / 20);
}

TEST(PartitionedTableTest, FailedReadsAreErrors) {
  PartitionedForm form;
  form.block_entries = 1;
  const std::string bytes =
      PartitionedTable(form, NumberedEntries(20000)).Finish();
  ReadLog log;
  std::unique_ptr<Table> table;
  TableReaderOptions options = ReaderOptions(bytes);
  options.separate_reads = true;
  // Not only the filter would be left out.
  log.fail_from = bytes.size() / 2;
  EXPECT_TRUE(Open(options, bytes, &table, &log).IsIOError());
}

TEST(PartitionedTableTest, MemoryIsAccountedFor) {
  PartitionedForm form;
  const KeysAndValues entries = NumberedEntries(5000);
  const auto memory = [&] {
    const std::string bytes = PartitionedTable(form, entries).Finish();
    std::unique_ptr<Table> table;
    EXPECT_TRUE(Open(ReaderOptions(bytes), bytes, &table).ok());
    return table->ApproximateMemoryUsage();
  };
  const size_t with_filter = memory();
  form.filter_blocks = 0;
  const size_t without_filter = memory();
  EXPECT_GT(with_filter, without_filter + 5000 * 10 / 8);
  form.partitioned_index = false;
  EXPECT_LE(without_filter, memory() + memory() / 4);
}

}  // namespace
}  // namespace varve::test
