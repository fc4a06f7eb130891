// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: options, comparators, filter policies and caches do what their comments
// say; options that contradict each other are refused by name. Method: a table
// of them; small policies that count their calls. option_table_test has the
// bounds of single options.

#include "test/testing/comparators.h"
#include "test/testing/db_helpers.h"
#include "test/testing/directory.h"
#include "test/testing/seed.h"
#include "test/testing/test_headers.h"
#include "varve/rate_limiter.h"
#include "varve/statistics.h"

namespace varve::test {
namespace {

struct BadOption {
  const char* name;
  std::function<void(Options*)> set;
};

class DbBadOptionTest : public DbTestBase,
                        public ::testing::WithParamInterface<int> {
 public:
  static const std::vector<BadOption>& All() {
    static const std::vector<BadOption> all = {
        {"comparator", [](Options* o) { o->comparator = nullptr; }},
        {"env", [](Options* o) { o->env = nullptr; }},
        {"compression",
         [](Options* o) { o->compression = CompressionType::kZSTDNotFinal; }},
        {"compression",
         [](Options* o) { o->compression = static_cast<CompressionType>(99); }},
        {"compression_level",
         [](Options* o) {
           o->compression = CompressionType::kZSTD;
           o->compression_level = 23;
         }},
        {"compression_level",
         [](Options* o) {
           o->compression = CompressionType::kZSTD;
           o->compression_level = -8;
         }},
        {"compression_level",
         [](Options* o) {
           o->compression = CompressionType::kLZ4HC;
           o->compression_level = 13;
         }},
        {"compression_level",
         [](Options* o) {
           o->compression = CompressionType::kZlib;
           o->compression_level = 10;
         }},
        {"max_compaction_bytes",
         [](Options* o) {
           o->max_compaction_bytes = o->target_file_size_base - 1;
         }},
        {"compression_per_level",
         [](Options* o) {
           o->compression_per_level = {CompressionType::kSnappy,
                                       CompressionType::kXpress};
         }},
        {"level0_slowdown_writes_trigger",
         [](Options* o) { o->level0_slowdown_writes_trigger = 3; }},
        {"level0_slowdown_writes_trigger",
         [](Options* o) {
           o->level0_file_num_compaction_trigger = 100;
           o->level0_slowdown_writes_trigger = 99;
         }},
        {"level0_stop_writes_trigger",
         [](Options* o) { o->level0_stop_writes_trigger = 19; }},
        {"max_bytes_for_level_multiplier",
         [](Options* o) { o->max_bytes_for_level_multiplier = std::nan(""); }},
        {"listeners", [](Options* o) { o->listeners.push_back(nullptr); }},
    };
    return all;
  }
};

TEST_P(DbBadOptionTest, IsRefusedByName) {
  const BadOption& bad = All()[static_cast<size_t>(GetParam())];
  bad.set(&options_);
  Status s = TryOpen();
  EXPECT_TRUE(s.IsInvalidArgument()) << bad.name << ": " << s.ToString();
  EXPECT_TRUE(Contains(s.message(), bad.name))
      << "expected " << bad.name << " in: " << s.ToString();
  EXPECT_EQ(db_, nullptr);
  EXPECT_FALSE(std::filesystem::exists(path_)) << "a database was begun";
}

INSTANTIATE_TEST_SUITE_P(
    All, DbBadOptionTest,
    ::testing::Range(0, static_cast<int>(DbBadOptionTest::All().size())),
    [](const auto& test) {
      return DbBadOptionTest::All()[static_cast<size_t>(test.param)].name +
             std::string("_") + std::to_string(test.param);
    });

class DbOptionsTest : public DbTestBase {
 protected:
  void FillAndCheck() {
    if (db_ == nullptr) return;  // Open has failed the test.
    Entries expected;
    Rng rng(1);
    for (int i = 0; i < 3000; i++) {
      expected[Key(i)] = rng.Bytes(60);
      Put(Key(i), expected[Key(i)]);
    }
    Reopen();
    CompactAll();
    EXPECT_TRUE(HasEntries(db_.get(), ToList(expected)));
  }
};

TEST_F(DbOptionsTest, OnePendingLimitAloneIsEnough) {
  options_.hard_pending_compaction_bytes_limit = uint64_t{1} << 30;
  Open();
  FillAndCheck();
  EXPECT_TRUE(
      Ok(db_->SetOptions({{"hard_pending_compaction_bytes_limit", "1M"}})));
}

TEST_F(DbOptionsTest, SmallestAllowedValuesWork) {
  options_.write_buffer_size = 0;
  options_.max_write_buffer_number = 0;
  options_.max_open_files = 0;
  options_.block_size = 1;
  options_.block_restart_interval = 1;
  options_.max_background_jobs = 1;
  options_.level0_file_num_compaction_trigger = 1;
  options_.level0_slowdown_writes_trigger = 1;
  options_.level0_stop_writes_trigger = 1;
  options_.target_file_size_base = 1 << 10;
  options_.max_bytes_for_level_base = 1 << 10;
  options_.max_bytes_for_level_multiplier = 1;
  options_.bytes_per_sync = 0;
  options_.block_cache = NewTestCache(0);
  Open();
  FillAndCheck();
}

TEST_F(DbOptionsTest, LargestAllowedValuesWork) {
  options_.max_write_buffer_number = 64;
  options_.max_open_files = 4 << 20;
  options_.block_size = 16 << 20;
  options_.block_restart_interval = 1024;
  options_.max_background_jobs = 64;
  constexpr int kMost = std::numeric_limits<int>::max();
  options_.level0_file_num_compaction_trigger = kMost;
  options_.level0_slowdown_writes_trigger = kMost;
  options_.level0_stop_writes_trigger = kMost;
  options_.target_file_size_base = uint64_t{64} << 30;
  options_.max_bytes_for_level_base = std::numeric_limits<uint64_t>::max();
  options_.max_bytes_for_level_multiplier = 1000;
  options_.compression = CompressionType::kLZ4HC;
  options_.compression_level = 12;
  Open();
  FillAndCheck();
}

// Tables are put into no level beyond them, by whatever compaction.
TEST_F(DbOptionsTest, LevelsAreAsManyAsIsSaid) {
  options_.target_file_size_base = 32 << 10;
  options_.max_bytes_for_level_base = 32 << 10;
  options_.max_bytes_for_level_multiplier = 1;
  options_.level0_file_num_compaction_trigger = 1;
  for (const bool dynamic : {true, false}) {
    SCOPED_TRACE(dynamic);
    options_.level_compaction_dynamic_level_bytes = dynamic;
    for (const int levels : {1, 4}) {
      SCOPED_TRACE(levels);
      const int last = std::max(levels, 2) - 1;  // 1 is taken as 2.
      options_.num_levels = levels;
      OpenAnew();
      FillAndCheck();
      if (HasFatalFailure()) return;
      ASSERT_TRUE(Ok(db_->WaitForCompact()));
      std::string files;
      const std::string property = "varve.num-files-at-level";
      EXPECT_TRUE(db_->GetProperty(property + std::to_string(last), &files));
      EXPECT_NE(files, "0");
      EXPECT_FALSE(
          db_->GetProperty(property + std::to_string(last + 1), &files));
      EXPECT_TRUE(
          db_->CompactRange({.target_level = last + 1}, nullptr, nullptr)
              .IsInvalidArgument());
      if (last == 1) continue;
      // With fewer it is not opened, with more it is.
      Close();
      options_.num_levels = last;
      EXPECT_TRUE(IsInvalidArgument(DB::Open(options_, path_, &db_)));
      options_.num_levels = 7;
      Open();
    }
  }
}

// Users that raise the trigger of level 0 need not raise its other limits.
TEST_F(DbOptionsTest, TriggersLeftAtTheirDefaultsRiseWithTheFirst) {
  options_.level0_file_num_compaction_trigger = 60;
  Open();
  for (int i = 0; i < 59; i++) {
    Put(Key(0), std::to_string(i));
    Flush();
  }
  std::string stalled;
  ASSERT_TRUE(db_->GetProperty("varve.is-write-stopped", &stalled));
  EXPECT_EQ(stalled, "0") << "stopped at the default's 36";
  ASSERT_TRUE(db_->GetProperty("varve.actual-delayed-write-rate", &stalled));
  EXPECT_EQ(stalled, "0") << "slowed down at the default's 20";
  Reopen();
  EXPECT_TRUE(Ok(db_->SetOptions({{"level0_file_num_compaction_trigger", "100"},
                                  {"max_write_buffer_number", "1"},
                                  {"write_buffer_size", "1"}})));
  EXPECT_TRUE(IsInvalidArgument(
      db_->SetOptions({{"level0_slowdown_writes_trigger", "99"}})));
  FillAndCheck();
}

TEST_F(DbOptionsTest, LongKeysWithFarRestartPointsAreFound) {
  options_.write_buffer_size = 256 << 20;
  options_.block_size = 1 << 20;
  options_.block_restart_interval = 1024;
  Open();
  // They share all but a few bytes: in full, the keys of a block take hundreds
  // of times what it does itself.
  const std::string prefix(16 << 10, 'p');
  constexpr int kCount = 5000;
  WriteOptions write_options{.disable_wal = true};
  for (int i = 0; i < kCount; i++) {
    ASSERT_TRUE(Ok(db_->Put(write_options, prefix + Key(i), "value")));
  }
  const auto check = [&] {
    for (int i = 0; i < kCount; i += 13) {
      std::string value;
      ASSERT_TRUE(Ok(db_->Get({}, prefix + Key(i), &value)));
      ASSERT_EQ(value, "value");
    }
    auto it = db_->NewIterator({});
    int found = 0;
    for (it->SeekToFirst(); it->Valid(); it->Next()) {
      ASSERT_EQ(it->key(), prefix + Key(found++));
    }
    EXPECT_TRUE(Ok(it->status()));
    EXPECT_EQ(found, kCount);
  };
  Flush();
  Reopen();
  check();
  CompactAll();
  Close();
  ASSERT_TRUE(Ok(RepairDB(path_, options_)));
  Open();
  check();
}

TEST_F(DbOptionsTest, DefaultOptionsWork) {
  options_ = Options();
  options_.create_if_missing = true;
  Open();
  FillAndCheck();
}

TEST_F(DbOptionsTest, OptionsAreSetByName) {
  const std::pair<const char*, const char*> all[] = {
      {"create_if_missing", "true"},
      {"create_missing_column_families", "true"},
      {"error_if_exists", "0"},
      {"paranoid_checks", "false"},
      {"key_case", "insensitive"},
      {"wal_recovery_mode", "absolute_consistency"},
      {"avoid_flush_during_shutdown", "1"},
      {"atomic_flush", "1"},
      {"write_buffer_size", "1m"},
      {"max_write_buffer_number", "3"},
      {"max_open_files", "-1"},
      {"cache_index_and_filter_blocks", "true"},
      {"allow_mmap_reads", "false"},
      {"use_direct_reads", "true"},
      {"bytes_per_sync", "0"},
      {"manual_wal_flush", "true"},
      {"wal_bytes_per_sync", "64K"},
      {"max_total_wal_size", "2G"},
      {"block_size", "8K"},
      {"block_restart_interval", "4"},
      {"compression", "lz4"},
      {"compression_per_level", "none:snappy:zstd"},
      {"bottommost_compression", "zstd"},
      {"compression_level", "-1"},
      {"index_type", "kTwoLevelIndexSearch"},
      {"metadata_block_size", "16K"},
      {"partition_filters", "true"},
      {"filter_policy", "bloomfilter:9.9"},
      {"max_background_jobs", "3"},
      {"max_subcompactions", "2"},
      {"level0_file_num_compaction_trigger", "3"},
      {"level0_slowdown_writes_trigger", "10"},
      {"level0_stop_writes_trigger", "11"},
      {"soft_pending_compaction_bytes_limit", "1G"},
      {"hard_pending_compaction_bytes_limit", "1T"},
      {"target_file_size_base", "1M"},
      {"max_compaction_bytes", "0"},
      {"max_bytes_for_level_base", "2M"},
      {"num_levels", "4"},
      {"max_bytes_for_level_multiplier", "2.5"},
      {"level_compaction_dynamic_level_bytes", "false"},
      {"max_successive_merges", "1K"},
      {"ttl", "86400"},
      {"periodic_compaction_seconds", "18446744073709551615"},
      {"disable_auto_compactions", "false"},
      {"rate_limiter", "1T"},
      {"stats_level", "except_timers"},
  };
  options_ = Options();
  for (const auto& [name, value] : all) {
    EXPECT_TRUE(Ok(SetOption(name, value, &options_))) << name;
  }
  EXPECT_EQ(options_.key_case, KeyCase::kInsensitive);
  EXPECT_EQ(options_.wal_recovery_mode, WalRecoveryMode::kAbsoluteConsistency);
  EXPECT_EQ(options_.write_buffer_size, size_t{1} << 20);
  EXPECT_EQ(options_.max_open_files, -1);
  EXPECT_EQ(options_.compression, CompressionType::kLZ4);
  EXPECT_EQ(options_.compression_per_level,
            (std::vector<CompressionType>{CompressionType::kNone,
                                          CompressionType::kSnappy,
                                          CompressionType::kZSTD}));
  EXPECT_EQ(options_.bottommost_compression, CompressionType::kZSTD);
  EXPECT_EQ(options_.compression_level, -1);
  EXPECT_EQ(options_.filter_policy->BuiltinBloomBitsPerKey(), 9.9);
  EXPECT_EQ(options_.num_levels, 4);
  EXPECT_EQ(options_.max_successive_merges, 1024u);
  EXPECT_EQ(options_.ttl, 86400u);
  EXPECT_EQ(options_.periodic_compaction_seconds, UINT64_MAX);
  EXPECT_EQ(options_.max_bytes_for_level_multiplier, 2.5);
  EXPECT_EQ(options_.rate_limiter->GetBytesPerSecond(), uint64_t{1} << 40);
  EXPECT_EQ(options_.stats_level, StatsLevel::kExceptTimers);
  options_.experiment = TestExperiment();
  Open();
  FillAndCheck();

  EXPECT_TRUE(Ok(SetOption("block_cache", "3M", &options_)));
  EXPECT_EQ(options_.block_cache->GetCapacity(), size_t{3} << 20);
  EXPECT_TRUE(Ok(SetOption("filter_policy", "", &options_)));
  EXPECT_EQ(options_.filter_policy, nullptr);
  EXPECT_TRUE(Ok(SetOption("bottommost_compression", "", &options_)));
  EXPECT_FALSE(options_.bottommost_compression.has_value());
  EXPECT_TRUE(Ok(SetOption("compression_per_level", "", &options_)));
  EXPECT_TRUE(options_.compression_per_level.empty());
  EXPECT_TRUE(Ok(SetOption("rate_limiter", "0", &options_)));
  EXPECT_EQ(options_.rate_limiter, nullptr);
}

TEST_F(DbOptionsTest, InvalidValuesChangeNoOption) {
  const std::pair<const char*, const char*> all[] = {
      {"", "1"},
      {"no_such_option", "1"},
      {"comparator", "leveldb.BytewiseComparator"},
      {"block_size", ""},
      {"block_size", "-1"},
      {"block_size", "4 K"},
      {"block_size", "4KB"},
      {"block_size", "99999999999T"},
      {"max_open_files", "-1K"},
      {"max_open_files", "4294967296"},
      {"max_bytes_for_level_multiplier", "ten"},
      {"paranoid_checks", "yes"},
      {"key_case", "1"},
      {"wal_recovery_mode", ""},
      {"stats_level", "most"},
      {"compression", "Snappy"},
      {"compression", ""},
      {"compression_per_level", "none,snappy"},
      {"compression_per_level", "none::snappy"},
      {"bottommost_compression", "xpress"},
      {"filter_policy", "xorfilter:10"},
      {"filter_policy", "bloomfilter:"},
      {"block_cache", "large"},
      {"rate_limiter", "-1"},
  };
  for (const auto& [name, value] : all) {
    const Status status = SetOption(name, value, &options_);
    EXPECT_TRUE(status.IsInvalidArgument()) << name << " = " << value;
    EXPECT_TRUE(Contains(status.message(), name)) << status.ToString();
  }
  const Options defaults = TinyOptions();
  EXPECT_EQ(options_.block_size, defaults.block_size);
  EXPECT_EQ(options_.max_open_files, defaults.max_open_files);
  EXPECT_EQ(options_.compression, defaults.compression);
  EXPECT_TRUE(options_.compression_per_level.empty());
}

TEST_F(DbOptionsTest, DirectReadsWork) {
  options_.use_direct_reads = true;
  Open();
  FillAndCheck();
}

TEST_F(DbOptionsTest, FewOpenFilesSufficeForManyTables) {
  options_.max_open_files = 16;
  Open();
  Entries expected;
  Rng rng(1);
  for (int i = 0; i < 30000; i++) {
    const std::string key = Key(rng.Between(0, 20000));
    expected[key] = rng.Bytes(100);
    Put(key, expected[key]);
  }
  Flush();
  ASSERT_TRUE(Ok(db_->WaitForCompact()));
  EXPECT_GT(Tables(), 20u);
  EXPECT_TRUE(HasEntries(db_.get(), ToList(expected)));
  const size_t open_tables = CountOpenTables(path_);
  EXPECT_LE(open_tables, 20u);
}

// Numbers as text, the shorter the smaller: not bytewise.
class NumberComparator : public ComparatorWithoutSeparators {
 public:
  NumberComparator() : ComparatorWithoutSeparators("test.NumberComparator") {}
  int Compare(const Slice& a, const Slice& b) const override {
    if (a.size() != b.size()) return a.size() < b.size() ? -1 : 1;
    return a.compare(b);
  }
};

TEST_F(DbOptionsTest, CustomComparatorOrdersEverything) {
  const NumberComparator comparator;
  options_.comparator = &comparator;
  options_.filter_policy = NewBloomFilterPolicy(10);
  Open();
  EntryList expected;
  for (int i = 0; i < 5000; i++) {
    expected.emplace_back(std::to_string(i), "v" + std::to_string(i));
  }
  for (size_t i = 0; i < expected.size(); i++) {
    const auto& [key, value] = expected[(i * 2111) % expected.size()];
    Put(key, value);
  }
  EXPECT_TRUE(HasEntries(db_.get(), expected));
  Flush();
  ASSERT_TRUE(Ok(db_->WaitForCompact()));
  EXPECT_TRUE(HasEntries(db_.get(), expected));
  CompactAll();
  Reopen();
  EXPECT_TRUE(HasEntries(db_.get(), expected));
  const Slice lower("99"), upper("101");
  ReadOptions options;
  options.iterate_lower_bound = &lower;
  options.iterate_upper_bound = &upper;
  EXPECT_TRUE(HasEntries(db_.get(), {{"99", "v99"}, {"100", "v100"}}, options));
  db_.reset();
}

TEST_F(DbOptionsTest, ReverseComparatorWorks) {
  const ReverseComparator comparator;
  options_.comparator = &comparator;
  Open();
  EntryList expected;
  for (int i = 3000; i > 0; i--) expected.emplace_back(Key(i), "v");
  for (const auto& [key, value] : expected) Put(key, value);
  CompactAll();
  EXPECT_TRUE(HasEntries(db_.get(), expected));
  db_.reset();
}

TEST_F(DbOptionsTest, AnotherComparatorIsRefused) {
  Open();
  Put("a", "1");
  Close();
  const auto before = ReadDirectory(path_);
  const NumberComparator comparator;
  options_.comparator = &comparator;
  for (bool read_only : {false, true}) {
    EXPECT_TRUE(IsInvalidArgument(
        read_only ? DB::OpenForReadOnly(options_, path_, &db_)
                  : DB::Open(options_, path_, &db_),
        "test.NumberComparator", "leveldb.BytewiseComparator"));
  }
  for (const auto& [name, bytes] : before) {
    if (name.starts_with("LOG") || name == "LOCK") continue;
    EXPECT_TRUE(bytes == ReadWholeFile(path_ + "/" + name)) << name;
  }
  options_.comparator = BytewiseComparator();
  Open();
  EXPECT_EQ(Get("a"), "1");
}

// All keys of a table, each with its length before it.
class ListFilterPolicy : public FilterPolicy {
 public:
  explicit ListFilterPolicy(const char* name) : name_(name) {}
  const char* Name() const override { return name_; }
  void CreateFilter(const std::vector<Slice>& keys,
                    std::string* filter) const override {
    created_++;
    for (const Slice& key : keys) {
      filter->push_back(static_cast<char>(key.size()));
      filter->append(key.data(), key.size());
    }
  }
  bool KeyMayMatch(const Slice& key, const Slice& filter) const override {
    asked_++;
    std::string wanted(1, static_cast<char>(key.size()));
    wanted += key.ToString();
    const bool found = Contains(filter, wanted);
    if (!found) refused_++;
    return found;
  }
  int created() const { return created_; }
  int asked() const { return asked_; }
  int refused() const { return refused_; }

 private:
  const char* name_;
  mutable std::atomic<int> created_{0};
  mutable std::atomic<int> asked_{0};
  mutable std::atomic<int> refused_{0};
};

TEST_F(DbOptionsTest, CustomFilterPolicyIsUsedUnderItsName) {
  auto policy = std::make_shared<ListFilterPolicy>("test.ListFilter");
  options_.filter_policy = policy;
  Open();
  for (int i = 0; i < 1000; i += 2) Put(Key(i), "v");
  CompactAll();
  EXPECT_GT(policy->created(), 0);
  const int before = policy->refused();
  for (int i = 0; i < 1000; i++) {
    ASSERT_EQ(Get(Key(i)), i % 2 == 0 ? "v" : "NotFound");
  }
  EXPECT_GE(policy->refused() - before, 490);
  Reopen();
  const int asked = policy->asked();
  EXPECT_EQ(Get(Key(1)), "NotFound");
  EXPECT_GT(policy->asked(), asked) << "not asked after reopening";

  // A policy of another name is not shown these filters.
  auto other = std::make_shared<ListFilterPolicy>("test.OtherFilter");
  options_.filter_policy = other;
  Reopen();
  for (int i = 0; i < 1000; i++) {
    ASSERT_EQ(Get(Key(i)), i % 2 == 0 ? "v" : "NotFound");
  }
  EXPECT_EQ(other->asked(), 0);

  // Neither does the built-in one stumble over them.
  options_.filter_policy = NewBloomFilterPolicy(10);
  Reopen();
  EXPECT_EQ(Get(Key(2)), "v");
  EXPECT_EQ(Get(Key(3)), "NotFound");
}

TEST_F(DbOptionsTest, BloomFilterSparesReadsOfAbsentKeys) {
  options_.filter_policy = NewBloomFilterPolicy(10);
  options_.statistics = NewTestStatistics();
  Open();
  for (int i = 0; i < 4000; i += 2) Put(Key(i), "v");
  CompactAll();
  options_.statistics->Reset();
  for (int i = 1; i < 4000; i += 2) ASSERT_EQ(Get(Key(i)), "NotFound");
  // About 1 % false answers; keys beyond a table's range need no filter.
  EXPECT_GT(options_.statistics->getTickerCount(Ticker::kBloomFilterUseful),
            1800u);
  for (int i = 0; i < 4000; i += 2) ASSERT_EQ(Get(Key(i)), "v");
}

TEST_F(DbOptionsTest, CacheIsSharedWithoutMixingDatabases) {
  options_.block_cache = NewTestCache(8 << 20);
  Open();
  std::unique_ptr<DB> other;
  ASSERT_TRUE(Ok(DB::Open(options_, dir_.Sub("other"), &other)));
  // The same file numbers, sizes and offsets in both.
  EntryList mine, its;
  for (int i = 0; i < 2000; i++) {
    mine.emplace_back(Key(i), "mine");
    its.emplace_back(Key(i), "its_");
    ASSERT_TRUE(Ok(db_->Put({}, Key(i), "mine")));
    ASSERT_TRUE(Ok(other->Put({}, Key(i), "its_")));
  }
  ASSERT_TRUE(Ok(db_->Flush({})));
  ASSERT_TRUE(Ok(other->Flush({})));
  for (int round = 0; round < 2; round++) {
    EXPECT_TRUE(HasEntries(db_.get(), mine));
    EXPECT_TRUE(HasEntries(other.get(), its));
  }
  EXPECT_GT(options_.block_cache->GetUsage(), 0u);
  EXPECT_EQ(Number("varve.block-cache-capacity"), 8u << 20);
  EXPECT_EQ(Number("varve.block-cache-usage"),
            options_.block_cache->GetUsage());
  ASSERT_TRUE(Ok(other->Close()));
  other.reset();
  // A database made anew in the same place does not see old blocks.
  ASSERT_TRUE(Ok(DestroyDB(dir_.Sub("other"), options_)));
  ASSERT_TRUE(Ok(DB::Open(options_, dir_.Sub("other"), &other)));
  for (auto& [key, value] : its) {
    value = "new_";
    ASSERT_TRUE(Ok(other->Put({}, key, value)));
  }
  ASSERT_TRUE(Ok(other->Flush({})));
  EXPECT_TRUE(HasEntries(other.get(), its));
  other.reset();
}

}  // namespace
}  // namespace varve::test
