// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: lookups that wait for parts of tables get them by one batch of reads,
// and each the answer, or the error, that Get has for it. Method: probes of
// tables of many forms, in steps, with Get as the oracle; an Env that counts
// batches; damage at chosen places, and failing reads; caches that keep
// nothing, little or all.

#include "table/reader/read_target.h"
#include "table/reader/table_parts.h"
#include "test/table/partitions/partitioned_table_use.h"
#include "test/testing/seed.h"
#include "util/bytes/hash.h"
#include "util/threads/epoch.h"

namespace varve::test {
namespace {

class CountingEnv : public EnvWrapper {
 public:
  CountingEnv() : EnvWrapper(Env::Default()) {}
  void MultiRead(FileReadRequest* requests, size_t count,
                 const ReadDone& done) override {
    ++batches;
    reads += static_cast<int>(count);
    target()->MultiRead(requests, count, done);
  }

  int batches = 0;
  int reads = 0;
};

class PartBatchTest : public testing::PartsTestBase {
 protected:
  std::unique_ptr<Table> OpenParts(const std::string& bytes) {
    TableReaderOptions options = Options(bytes);
    options.env = &env_;
    std::unique_ptr<Table> table;
    EXPECT_TRUE(Ok(Open(options, bytes, &table, &log_)));
    EXPECT_NE(table->core().parts, nullptr);
    return table;
  }

  // Looks the keys up in the steps of Version::MultiGet. Each in the table of
  // its place.
  std::vector<std::string> LookupTogether(
      const std::vector<const Table*>& tables,
      const std::vector<std::string>& keys, const ReadOptions& options = {}) {
    const size_t count = keys.size();
    std::vector<TableProbe> probes(count);
    std::vector<PinnableSlice> values(count);
    std::vector<LookupResult> results(count);
    std::vector<ReadTarget> targets;
    targets.reserve(count);
    {
      const EpochGuard section;
      std::vector<TableProbe*> waiting;
      for (size_t i = 0; i < count; ++i) {
        targets.emplace_back(&values[i]);
        probes[i].options = &options;
        probes[i].lookup = {keys[i], PreviewXxh3(keys[i]), kMaxSequenceNumber};
        results[i].target = &targets[i];
        probes[i].result = &results[i];
        tables[i]->StartProbe(&probes[i]);
      }
      for (TableProbe& probe : probes) probe.table->ProbeIndex(&probe);
      for (TableProbe& probe : probes) {
        if (!probe.done) probe.table->ProbeBlock(&probe);
        if (probe.Waits()) waiting.push_back(&probe);
      }
      for (size_t i = 0; i < waiting.size(); i += Table::kMaxReadBlocks) {
        Table::ReadBlocks(waiting.data() + i,
                          std::min(Table::kMaxReadBlocks, waiting.size() - i));
      }
      for (TableProbe& probe : probes) {
        if (!probe.done) probe.table->FinishProbe(&probe);
      }
    }
    std::vector<std::string> answers;
    for (size_t i = 0; i < count; ++i) {
      EXPECT_TRUE(probes[i].done);
      answers.push_back(!probes[i].status.ok() ? probes[i].status.ToString()
                        : results[i].state == LookupState::kFound
                            ? values[i].ToString()
                            : "absent");
    }
    return answers;
  }
  std::vector<std::string> LookupTogether(const Table& table,
                                          const std::vector<std::string>& keys,
                                          const ReadOptions& options = {}) {
    return LookupTogether(std::vector<const Table*>(keys.size(), &table), keys,
                          options);
  }

  CountingEnv env_;
};

TEST_F(PartBatchTest, AnswersAsGetInEveryForm) {
  Rng random(TestSeed());
  for (int round = 0; round < 40; ++round) {
    PartitionedForm form;
    form.user_keys = random.OneIn(2);
    form.delta = random.OneIn(2);
    form.format_version = form.user_keys || form.delta ? 5 : 2;
    form.layout = random.Pick({PartitionedForm::Layout::kAfterData,
                               PartitionedForm::Layout::kReversed,
                               PartitionedForm::Layout::kAmongBlocks});
    form.block_entries = static_cast<size_t>(random.Between(1, 5));
    form.partition_blocks = static_cast<size_t>(random.Between(1, 10));
    form.filter_blocks = random.Pick<size_t>({form.partition_blocks, 0});
    const int entries = random.Between(1, 300);
    const std::string bytes =
        PartitionedTable(form, NumberedEntries(entries)).Finish();
    const bool strict = random.OneIn(2);
    const size_t cache_bytes = random.Pick<size_t>({0, 4 << 10, 1 << 20});
    UseCache(cache_bytes, strict);
    const auto oracle = OpenParts(bytes);
    UseCache(cache_bytes, strict);
    const auto table = OpenParts(bytes);
    for (int pass = 0; pass < 4; ++pass) {
      std::vector<std::string> keys(static_cast<size_t>(random.Between(1, 99)));
      for (std::string& key : keys) {
        key = Numbered(random.Between(0, 2 * entries + 2));
      }
      const ReadOptions options{.fill_cache = !random.OneIn(3)};
      const auto answers = LookupTogether(*table, keys, options);
      for (size_t i = 0; i < keys.size(); ++i) {
        ASSERT_EQ(answers[i], Lookup(*oracle, keys[i])) << keys[i];
      }
    }
  }
}

// Their separators are internal keys, so a key may go on in the next part.
TEST_F(PartBatchTest, FindsKeysThatGoOnInTheNextPart) {
  KeysAndValues entries;
  std::vector<std::string> keys;
  for (int i = 0; i < 60; ++i) {
    keys.push_back(Numbered(2 * i));
    for (int version = i % 10 == 0 ? 50 : 1; version > 0; --version) {
      entries.emplace_back(
          Key(keys.back(), static_cast<SequenceNumber>(version)),
          std::string(20, 'v') + std::to_string(version));
    }
  }
  for (const size_t bytes : {0, 1 << 20}) {
    UseCache(bytes);
    const auto table = OpenParts(BuildPartitioned(entries, 60));
    const auto answers = LookupTogether(*table, keys);
    for (size_t i = 0; i < keys.size(); ++i) {
      EXPECT_EQ(answers[i], Lookup(*table, keys[i]));
      EXPECT_NE(answers[i], "absent");
    }
  }
}

TEST_F(PartBatchTest, PartsOfAllTablesAreOneBatch) {
  const std::string bytes = BuildPartitioned(NumberedEntries(4000), 300);
  UseCache(8 << 20);
  const auto one = OpenParts(bytes);
  const auto other = OpenParts(bytes);
  std::vector<std::string> keys;
  std::vector<const Table*> tables;
  std::vector<std::string> expected;
  for (int i = 0; i < 64; ++i) {
    // Two keys of the same part follow each other.
    keys.push_back(Numbered(i / 4 * 400 + i % 2 * 2));
    tables.push_back(i % 4 < 2 ? one.get() : other.get());
    expected.push_back("value " + std::to_string(i / 4 * 200 + i % 2));
  }
  log_.reads = 0;
  EXPECT_EQ(LookupTogether(tables, keys), expected);
  // Of 16 parts of two tables each. Then as many blocks.
  EXPECT_EQ(env_.batches, 2);
  EXPECT_EQ(env_.reads, 32 + 32);
  EXPECT_EQ(log_.reads.load(), env_.reads);
  // All is in memory.
  EXPECT_EQ(LookupTogether(tables, keys), expected);
  EXPECT_EQ(env_.batches, 2);
  EXPECT_EQ(log_.reads.load(), env_.reads);
  // Absent keys need no block.
  for (std::string& key : keys) key.append("absent");
  UseCache(8 << 20);
  const auto third = OpenParts(bytes);
  env_.batches = env_.reads = 0;
  log_.reads = 0;
  EXPECT_EQ(LookupTogether(*third, keys),
            std::vector<std::string>(keys.size(), "absent"));
  EXPECT_LE(env_.batches, 2);
  EXPECT_GE(env_.reads, 16);
  EXPECT_LE(env_.reads, 16 + 3);
  EXPECT_EQ(log_.reads.load(), env_.reads);
}

// RocksDB writes all partitions of the filter before the index's.
TEST_F(PartBatchTest, PartitionsThatAreApartAreOneBatch) {
  PartitionedForm form;
  form.block_entries = 40;
  form.partition_blocks = 10;
  form.filter_blocks = form.partition_blocks;
  KeysAndValues entries;
  for (int i = 0; i < 40000; ++i) {
    entries.emplace_back(Key(Numbered(i)), std::to_string(i));
  }
  const std::string bytes = PartitionedTable(form, entries).Finish();
  UseCache(8 << 20);
  const auto table = OpenParts(bytes);
  std::vector<std::string> keys;
  for (int i = 0; i < 20; ++i) keys.push_back(Numbered(i * 2000));
  log_.reads = 0;
  const auto answers = LookupTogether(*table, keys);
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(answers[static_cast<size_t>(i)], std::to_string(i * 2000));
  }
  EXPECT_EQ(env_.batches, 2);
  EXPECT_EQ(env_.reads, 3 * 20);
  EXPECT_EQ(log_.reads.load(), env_.reads);
}

TEST_F(PartBatchTest, AStrictCacheThatIsFullKeepsNothing) {
  const int entries = 4000;
  const std::string bytes = BuildPartitioned(NumberedEntries(entries), 300);
  for (const size_t capacity : {0, 2000}) {
    UseCache(capacity, /*strict=*/true);
    const auto table = OpenParts(bytes);
    env_.batches = 0;
    for (int round = 0; round < 5; ++round) {
      std::vector<std::string> keys, expected;
      for (int i = round; i < entries; i += entries / 60) {
        keys.push_back(Numbered(2 * i));
        expected.push_back("value " + std::to_string(i));
      }
      keys.resize(60);
      expected.resize(60);
      EXPECT_EQ(LookupTogether(*table, keys), expected);
    }
    EXPECT_EQ(env_.batches, 10);
    TEST_DrainRetired();
    // The newest part stays, whatever the capacity.
    EXPECT_LE(parts_->ApproximateMemoryUsage(), 4000u);
  }
}

TEST_F(PartBatchTest, DamageIsReportedForAffectedKeys) {
  const int entries = 2000;
  const std::string whole = BuildPartitioned(NumberedEntries(entries), 300);
  const testing::TableBytes parts(whole);
  std::vector<BlockHandle> filters;
  ASSERT_TRUE(Ok(TableIndex::ListHandles(
      parts.ReadBlock(parts.meta_blocks().at(kPartitionedBloomBlockName)),
      parts.properties(), whole.size(), &filters)));
  ASSERT_GT(filters.size(), 6u);
  std::string bytes = whole;
  bytes[parts.index()[2].handle.offset + 3] ^= 1;
  bytes[parts.index()[5].handle.offset + 3] ^= 1;
  bytes[filters[3].offset] ^= 1;
  UseCache(1 << 20);
  const auto oracle = OpenParts(bytes);
  UseCache(1 << 20);
  const auto table = OpenParts(bytes);
  int damaged = 0;
  for (int begin = 0; begin < 2 * entries; begin += 40) {
    std::vector<std::string> keys;
    for (int i = begin; i < begin + 40; ++i) keys.push_back(Numbered(i));
    const auto answers = LookupTogether(*table, keys);
    for (size_t i = 0; i < keys.size(); ++i) {
      ASSERT_EQ(answers[i], Lookup(*oracle, keys[i])) << keys[i];
      damaged += answers[i].starts_with("Corruption") ? 1 : 0;
    }
  }
  EXPECT_GT(damaged, 0);
  EXPECT_LT(damaged, entries);
}

TEST_F(PartBatchTest, FailedReadsAreErrorsAndTriedAgain) {
  const std::string bytes = BuildPartitioned(NumberedEntries(2000), 300);
  const testing::TableBytes parts(bytes);
  UseCache(1 << 20);
  const auto table = OpenParts(bytes);
  const std::vector<std::string> keys = {Numbered(10), Numbered(3990)};
  // The parts of the last keys fail, and the first ones do not.
  log_.fail_from = parts.index()[parts.index().size() / 2].handle.offset;
  auto answers = LookupTogether(*table, keys);
  EXPECT_EQ(answers[0], "value 5");
  EXPECT_THAT(answers[1], ::testing::HasSubstr("told to fail"));
  log_.fail_from = UINT64_MAX;
  answers = LookupTogether(*table, keys);
  EXPECT_EQ(answers[0], "value 5");
  EXPECT_EQ(answers[1], "value 1995");
}

TEST_F(PartBatchTest, ReadsOfMemoryAloneReadNoFile) {
  UseCache(1 << 20);
  const auto table = OpenParts(BuildPartitioned(NumberedEntries(2000), 300));
  ReadOptions options;
  options.read_tier = ReadTier::kBlockCacheTier;
  log_.reads = 0;
  for (const std::string& answer :
       LookupTogether(*table, {Numbered(10), Numbered(3990)}, options)) {
    EXPECT_THAT(answer, ::testing::HasSubstr("Incomplete"));
  }
  EXPECT_EQ(log_.reads.load(), 0);
  EXPECT_EQ(env_.batches, 0);
}

// Each is read alone.
TEST_F(PartBatchTest, PartsThatAreTooLargeForABatchAreFound) {
  KeysAndValues entries;
  for (int i = 0; i < 60; ++i) {
    // Separators are as long.
    entries.emplace_back(Key(std::string(20000, 'k') + Numbered(i)),
                         std::to_string(i));
  }
  UseCache(64 << 20);
  const auto table = OpenParts(BuildPartitioned(entries, 700 << 10));
  std::vector<std::string> keys, expected;
  for (int i = 0; i < 60; i += 20) {
    keys.push_back(
        ExtractUserKey(entries[static_cast<size_t>(i)].first).ToString());
    expected.push_back(std::to_string(i));
  }
  log_.reads = 0;
  EXPECT_EQ(LookupTogether(*table, keys), expected);
  EXPECT_GT(log_.reads.load(), env_.reads);
}

}  // namespace
}  // namespace varve::test
