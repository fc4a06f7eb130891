// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: a table gives back what its builder got, with no more reads than
// promised, and damage is noticed. Method: tables built in memory from random
// entries under many options, compared with a sorted vector; every byte of a
// small table changed, every length cut; files that count and fail.
#include "table/reader/table.h"

#include "monitoring/statistics.h"
#include "table/block/format.h"
#include "table/build/table_builder.h"
#include "table/cache/clock_block_cache.h"
#include "test/testing/env/string_file.h"
#include "test/testing/env/string_random_access_file.h"
#include "test/testing/seed.h"
#include "test/testing/status_checks.h"
#include "test/testing/table/table_lookup.h"
#include "test/testing/test_headers.h"
#include "varve/statistics.h"

namespace varve {
namespace {

using test::Get;
using ::testing::HasSubstr;
using testing::ReadLog;
using testing::StringRandomAccessFile;
using Entries = std::vector<std::pair<std::string, std::string>>;

const InternalKeyComparator* Comparator() {
  static const InternalKeyComparator comparator(BytewiseComparator());
  return &comparator;
}

std::string Key(const Slice& user_key, SequenceNumber sequence,
                ValueType type = ValueType::kValue) {
  return MakeInternalKey(user_key, PackTrailer(sequence, type));
}

std::string Numbered(int i) {
  char text[16];
  snprintf(text, sizeof(text), "key%06d", i);
  return text;
}

Entries NumberedEntries(int count, size_t value_size) {
  Entries entries;
  test::Rng random(1);
  for (int i = 0; i < count; ++i) {
    entries.emplace_back(Key(Numbered(2 * i), 5), random.Bytes(value_size));
  }
  return entries;
}

std::string Build(TableBuilderOptions options, const Entries& entries) {
  options.comparator = Comparator();
  testing::StringFile file;
  TableBuilder builder(options, &file);
  for (const auto& [key, value] : entries) builder.Add(key, value);
  EXPECT_TRUE(Ok(builder.Finish()));
  return file.contents();
}

TableReaderOptions ReaderOptions(size_t file_size) {
  TableReaderOptions options;
  options.comparator = Comparator();
  options.file_name = "/db/000007.sst";
  options.file_size = file_size;
  return options;
}

Status Open(const TableReaderOptions& options, const std::string& bytes,
            std::unique_ptr<Table>* table, ReadLog* log = nullptr) {
  return Table::Open(
      options, std::make_unique<StringRandomAccessFile>(bytes, log), table);
}

Status Scan(const Table& table, Entries* entries,
            const ReadOptions& options = ReadOptions()) {
  const auto it = table.NewIterator(options);
  for (it->SeekToFirst(); it->Valid(); it->Next()) {
    entries->emplace_back(it->key().ToString(), it->value().ToString());
  }
  return it->status();
}

size_t LowerBound(const Entries& entries, const Slice& target) {
  return static_cast<size_t>(
      std::partition_point(entries.begin(), entries.end(),
                           [&target](const auto& entry) {
                             return Comparator()->Compare(entry.first, target) <
                                    0;
                           }) -
      entries.begin());
}

void CheckTarget(const Table& table, InternalIterator* it,
                 const Entries& entries, const std::string& target) {
  const size_t i = LowerBound(entries, target);
  for (bool in_steps : {false, true}) {
    if (in_steps) {
      test::SeekInSteps(target, it);
    } else {
      it->Seek(target);
    }
    ASSERT_EQ(it->Valid(), i < entries.size());
    if (it->Valid()) {
      ASSERT_EQ(it->key(), entries[i].first);
      ASSERT_EQ(it->value(), entries[i].second);
    }
  }
  const bool equal = i < entries.size() && entries[i].first == target;
  it->SeekForPrev(target);
  ASSERT_EQ(it->Valid(), equal || i > 0);
  if (it->Valid()) {
    ASSERT_EQ(it->key(), entries[equal ? i : i - 1].first);
  }

  LookupState state;
  PinnableSlice value;
  ASSERT_TRUE(Ok(Get(table, target, &state, &value)));
  if (i == entries.size() ||
      !(ExtractUserKey(entries[i].first) == ExtractUserKey(target))) {
    ASSERT_EQ(state, LookupState::kNotFound);
  } else if (ExtractValueType(entries[i].first) != ValueType::kValue) {
    ASSERT_EQ(state, LookupState::kDeleted);
  } else {
    ASSERT_EQ(state, LookupState::kFound);
    ASSERT_EQ(value, entries[i].second);
  }
}

// Each move after a seek that was given up after any of its steps.
void CheckGivenUpSeeks(const Table& table, const Entries& entries,
                       const std::string& target, const std::string& other) {
  const size_t i = LowerBound(entries, target);
  const auto it = table.NewIterator(ReadOptions());
  const auto expect = [&](size_t place) {
    ASSERT_EQ(it->Valid(), place < entries.size());
    if (it->Valid()) {
      ASSERT_EQ(it->key(), entries[place].first);
    }
    ASSERT_TRUE(Ok(it->status()));
  };
  for (int steps = 0; steps <= InternalIterator::kSeekSteps; ++steps) {
    test::BeginSeek(other, steps, it.get());
    test::SeekInSteps(target, it.get());
    ASSERT_NO_FATAL_FAILURE(expect(i));
    test::BeginSeek(other, steps, it.get());
    it->Seek(target);
    ASSERT_NO_FATAL_FAILURE(expect(i));
    test::BeginSeek(other, steps, it.get());
    it->SeekToFirst();
    ASSERT_NO_FATAL_FAILURE(expect(0));
    test::BeginSeek(other, steps, it.get());
    it->SeekToLast();
    ASSERT_NO_FATAL_FAILURE(expect(entries.size() - 1));
    test::BeginSeek(other, steps, it.get());
    it->SeekForPrev(target);
    const bool equal = i < entries.size() && entries[i].first == target;
    ASSERT_NO_FATAL_FAILURE(expect(equal ? i : i - 1));
    test::BeginSeek(other, steps, it.get());
    if (it->ResetForReuse()) {
      ASSERT_FALSE(it->Valid());
      test::SeekInSteps(target, it.get());
      ASSERT_NO_FATAL_FAILURE(expect(i));
    }
  }
}

void CheckTable(const Table& table, const Entries& entries,
                const std::vector<std::string>& targets) {
  Entries scanned;
  Status s = Scan(table, &scanned);
  ASSERT_TRUE(Ok(s));
  ASSERT_EQ(scanned, entries);
  const auto it = table.NewIterator(ReadOptions());
  size_t i = entries.size();
  for (it->SeekToLast(); it->Valid(); it->Prev()) {
    ASSERT_EQ(it->key(), entries[--i].first);
  }
  ASSERT_EQ(i, 0u);
  for (const std::string& target : targets) {
    ASSERT_NO_FATAL_FAILURE(CheckTarget(table, it.get(), entries, target));
  }
  for (size_t t = 0; t < targets.size() && t < 8; ++t) {
    ASSERT_NO_FATAL_FAILURE(CheckGivenUpSeeks(
        table, entries, targets[t], targets[(t + 3) % targets.size()]));
  }
  s = table.VerifyChecksum();
  ASSERT_TRUE(Ok(s));
}

TEST(TableTest, GivesBackRandomEntries) {
  test::Rng random(test::TestSeed());
  for (int round = 0; round < 40; ++round) {
    TableBuilderOptions options;
    options.block_size = random.Pick({256, 1024, 4096});
    options.block_restart_interval = random.Pick({1, 2, 16});
    options.compression = random.Pick(
        {CompressionType::kNone, CompressionType::kSnappy,
         CompressionType::kZlib, CompressionType::kBZip2, CompressionType::kLZ4,
         CompressionType::kLZ4HC, CompressionType::kZSTD});
    options.checksum =
        random.Pick({ChecksumType::kNone, ChecksumType::kCrc32c,
                     ChecksumType::kXxHash64, ChecksumType::kXxh3});
    if (random.OneIn(2)) options.filter_policy = NewBloomFilterPolicy(10);
    // Sometimes enough versions to fill blocks.
    const int max_versions = random.Pick({1, 3, 200});
    std::map<std::string, int> versions;
    for (uint64_t i = random.Below(200); i > 0; --i) {
      versions[Numbered(static_cast<int>(random.Below(1000)))] =
          random.Between(1, max_versions);
    }
    Entries entries;
    std::vector<std::string> targets = {Key("", 1), Key("z", 1)};
    for (const auto& [user_key, count] : versions) {
      for (int v = count; v > 0; --v) {
        const auto type = random.Pick({ValueType::kValue, ValueType::kDeletion,
                                       ValueType::kSingleDeletion});
        entries.emplace_back(
            Key(user_key, static_cast<SequenceNumber>(2 * v), type),
            type == ValueType::kValue ? random.Bytes(random.Below(100)) : "");
      }
      for (int i = 0; i < 5; ++i) {
        targets.push_back(MakeInternalKey(
            user_key, SeekTrailer(random.Below(2 + 2 * count))));
      }
      targets.push_back(entries.back().first);
      targets.push_back(Key(user_key + "+", 3));
    }
    const std::string bytes = Build(options, entries);
    ClockBlockCache cache({.capacity_bytes = random.Below(100000)});
    TableReaderOptions reader_options = ReaderOptions(bytes.size());
    if (random.OneIn(2)) reader_options.block_cache = &cache;
    std::unique_ptr<Table> table;
    ASSERT_TRUE(Ok(Open(reader_options, bytes, &table)));
    EXPECT_EQ(table->properties().num_entries, entries.size());
    ASSERT_NO_FATAL_FAILURE(CheckTable(*table, entries, targets));
  }
}

// Calls every operation on a table that may be damaged. Returns true if all
// succeeded.
bool UseAll(const TableReaderOptions& options, const std::string& bytes) {
  std::unique_ptr<Table> table;
  if (!Open(options, bytes, &table).ok()) return false;
  Entries entries;
  bool ok = Scan(*table, &entries).ok();
  const auto it = table->NewIterator(ReadOptions());
  for (it->SeekToLast(); it->Valid(); it->Prev()) {
  }
  ok &= it->status().ok();
  for (const std::string& target : {Key("", 1), Key("key000010", 9)}) {
    LookupState state;
    PinnableSlice value;
    ok &= Get(*table, target, &state, &value).ok();
    table->ApproximateOffsetOf(target);
  }
  return table->VerifyChecksum().ok() && ok;
}

TEST(TableTest, NoticesEveryChangedByte) {
  TableBuilderOptions options;
  options.block_size = 256;
  options.filter_policy = NewBloomFilterPolicy(10);
  const std::string bytes = Build(options, NumberedEntries(20, 20));
  const TableReaderOptions reader_options = ReaderOptions(bytes.size());
  ASSERT_TRUE(UseAll(reader_options, bytes));
  for (size_t i = 0; i < bytes.size(); ++i) {
    for (const int change : {1, 0x80, 0xFF}) {
      std::string changed = bytes;
      changed[i] = static_cast<char>(changed[i] ^ change);
      const bool ok = UseAll(reader_options, changed);
      // The footer has padding, and no checksum.
      if (i < bytes.size() - Footer::kSize) {
        ASSERT_FALSE(ok) << "byte " << i;
      }
    }
  }
}

// Without checksums, everything that the bytes say has to be doubted.
TEST(TableTest, SurvivesEveryChangedByteWithoutChecksums) {
  TableBuilderOptions options;
  options.block_size = 256;
  options.checksum = ChecksumType::kNone;
  options.compression = CompressionType::kNone;
  options.filter_policy = NewBloomFilterPolicy(10);
  const std::string bytes = Build(options, NumberedEntries(12, 10));
  const TableReaderOptions reader_options = ReaderOptions(bytes.size());
  for (size_t i = 0; i < bytes.size(); ++i) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string changed = bytes;
      changed[i] = static_cast<char>(changed[i] ^ (1 << bit));
      UseAll(reader_options, changed);
    }
    std::string full = bytes;
    full[i] = '\xFF';
    UseAll(reader_options, full);
  }
}

TEST(TableTest, RefusesEveryCut) {
  const std::string bytes = Build({}, NumberedEntries(20, 20));
  for (size_t size = 0; size < bytes.size(); ++size) {
    const std::string cut = bytes.substr(0, size);
    std::unique_ptr<Table> table;
    EXPECT_FALSE(Open(ReaderOptions(size), cut, &table).ok()) << size;
    // The file ends before its size.
    EXPECT_TRUE(IsCorruption(Open(ReaderOptions(bytes.size()), cut, &table),
                             "/db/000007.sst"));
  }
}

TEST(TableTest, EmptyTableHasNothing) {
  const std::string bytes = Build({}, {});
  std::unique_ptr<Table> table;
  ASSERT_TRUE(Ok(Open(ReaderOptions(bytes.size()), bytes, &table)));
  CheckTable(*table, {}, {Key("a", 1)});
}

TEST(TableTest, OpensWithOneReadAndGetsWithOne) {
  TableBuilderOptions options;
  options.filter_policy = NewBloomFilterPolicy(10);
  const Entries entries = NumberedEntries(2000, 100);
  const std::string bytes = Build(options, entries);
  ASSERT_GT(bytes.size(), 150000u);
  ClockBlockCache cache({.capacity_bytes = 4 << 20});
  const auto statistics = CreateDBStatistics();
  TableReaderOptions reader_options = ReaderOptions(bytes.size());
  reader_options.block_cache = &cache;
  reader_options.statistics = StatisticsImpl::Of(statistics.get());
  ReadLog log;
  std::unique_ptr<Table> table;
  ASSERT_TRUE(Open(reader_options, bytes, &table, &log).ok());
  EXPECT_EQ(log.reads.load(), 1);
  EXPECT_GT(table->ApproximateMemoryUsage(), 2000u * 10 / 8);

  LookupState state;
  PinnableSlice value;
  ASSERT_TRUE(
      Get(*table, entries[7].first, &state, &value, {.fill_cache = false})
          .ok());
  EXPECT_EQ(log.reads.load(), 2);
  EXPECT_EQ(cache.GetUsage(), 0u);
  EXPECT_EQ(value, entries[7].second);
  ASSERT_TRUE(Get(*table, entries[7].first, &state, &value).ok());
  EXPECT_EQ(log.reads.load(), 3);
  ASSERT_TRUE(Get(*table, entries[7].first, &state, &value).ok());
  EXPECT_EQ(log.reads.load(), 3);
  EXPECT_EQ(statistics->getTickerCount(Ticker::kBlockCacheMiss), 2u);
  EXPECT_EQ(statistics->getTickerCount(Ticker::kBlockCacheAdd), 1u);
  EXPECT_EQ(statistics->getTickerCount(Ticker::kBlockCacheHit), 1u);

  // Absent keys are mostly answered by the filter.
  int found = 0;
  for (int i = 0; i < 1000; ++i) {
    const std::string absent = Key(Numbered(2 * i + 1), 9);
    ASSERT_TRUE(Get(*table, absent, &state, &value).ok());
    found += state == LookupState::kFound ? 1 : 0;
  }
  EXPECT_EQ(found, 0);
  EXPECT_GT(statistics->getTickerCount(Ticker::kBloomFilterUseful), 950u);
}

TEST(TableTest, WalksToAndFroThroughBlocksAndBodies) {
  test::Rng random(test::TestSeed());
  Entries entries;
  for (int i = 0; i < 2000; ++i) {
    char text[16];
    snprintf(text, sizeof(text), "k%06d", 2 * i);
    entries.emplace_back(Key(text, 1), random.Bytes(random.Below(100)));
  }
  const std::string bytes = Build({}, entries);
  for (const size_t capacity : {size_t{0}, size_t{20000}, size_t{1} << 20}) {
    ClockBlockCache cache({.capacity_bytes = capacity});
    TableReaderOptions options = ReaderOptions(bytes.size());
    options.block_cache = &cache;
    std::unique_ptr<Table> table;
    ASSERT_TRUE(Open(options, bytes, &table).ok());
    const auto it = table->NewIterator(ReadOptions());
    size_t at = entries.size();  // Which means: nowhere.
    for (int step = 0; step < 20000; ++step) {
      const size_t i = random.Below(entries.size());
      switch (random.Below(20)) {
        case 0:
          it->Seek(entries[i].first);
          at = i;
          break;
        case 1:
          it->SeekForPrev(entries[i].first);
          at = i;
          break;
        case 2:
          it->SeekToFirst();
          at = 0;
          break;
        case 3:
          it->SeekToLast();
          at = entries.size() - 1;
          break;
        default:
          if (at == entries.size()) continue;
          if (random.OneIn(3)) {
            it->Prev();
            at = at == 0 ? entries.size() : at - 1;
          } else {
            it->Next();
            ++at;
          }
      }
      ASSERT_EQ(it->Valid(), at < entries.size());
      ASSERT_TRUE(it->status().ok());
      if (!it->Valid()) continue;
      ASSERT_EQ(it->key(), entries[at].first);
      ASSERT_EQ(it->value(), entries[at].second);
    }
  }
}

TEST(TableTest, ValuesStayWhileTheyArePinned) {
  const Entries entries = NumberedEntries(500, 100);
  const std::string bytes = Build({}, entries);
  ClockBlockCache cache({.capacity_bytes = 20000});
  for (BlockCache* used :
       {static_cast<BlockCache*>(&cache), static_cast<BlockCache*>(nullptr)}) {
    TableReaderOptions reader_options = ReaderOptions(bytes.size());
    reader_options.block_cache = used;
    std::unique_ptr<Table> table;
    ASSERT_TRUE(Open(reader_options, bytes, &table).ok());
    LookupState state;
    PinnableSlice value;
    ASSERT_TRUE(Get(*table, entries[3].first, &state, &value).ok());
    EXPECT_EQ(value.IsPinned(), used != nullptr);
    if (used != nullptr) {
      EXPECT_GT(cache.GetPinnedUsage(), 0u);
    }
    Entries all;
    ASSERT_TRUE(Scan(*table, &all).ok());
    table.reset();
    EXPECT_EQ(value, entries[3].second);
    value.Reset();
    EXPECT_EQ(cache.GetUsage(), 0u);
  }
}

TEST(TableTest, ScansReadAhead) {
  TableBuilderOptions options;
  options.compression = CompressionType::kNone;
  const Entries entries = NumberedEntries(20000, 100);
  const std::string bytes = Build(options, entries);
  ReadLog log;
  std::unique_ptr<Table> table;
  ASSERT_TRUE(Open(ReaderOptions(bytes.size()), bytes, &table, &log).ok());
  const int before = log.reads.load();
  Entries scanned;
  ASSERT_TRUE(Scan(*table, &scanned).ok());
  EXPECT_EQ(scanned, entries);
  // Two single blocks, four smaller stretches, then 256 KiB at a time.
  const int scan_reads = log.reads.load() - before;
  EXPECT_LE(scan_reads, 2 + 4 + 1 + static_cast<int>(bytes.size() >> 18));

  ReadOptions all_at_once{.readahead_size = bytes.size()};
  scanned.clear();
  ASSERT_TRUE(Scan(*table, &scanned, all_at_once).ok());
  EXPECT_EQ(scanned, entries);
  EXPECT_EQ(log.reads.load(), before + scan_reads + 1);
}

TEST(TableTest, ErrorsStopIterators) {
  TableBuilderOptions options;
  options.compression = CompressionType::kNone;
  const Entries entries = NumberedEntries(2000, 100);
  const std::string bytes = Build(options, entries);
  ReadLog log;
  std::unique_ptr<Table> table;
  ASSERT_TRUE(Open(ReaderOptions(bytes.size()), bytes, &table, &log).ok());
  log.fail_from = 100000;
  Entries scanned;
  EXPECT_TRUE(Scan(*table, &scanned).IsIOError());
  EXPECT_LT(scanned.size(), entries.size());
  const auto it = table->NewIterator(ReadOptions());
  it->SeekToLast();
  EXPECT_FALSE(it->Valid());
  EXPECT_TRUE(it->status().IsIOError());
  it->SeekToFirst();
  EXPECT_TRUE(it->Valid());
  EXPECT_TRUE(it->status().ok());
  LookupState state;
  PinnableSlice value;
  EXPECT_TRUE(Get(*table, entries.back().first, &state, &value).IsIOError());
  EXPECT_TRUE(table->VerifyChecksum().IsIOError());
}

TEST(TableTest, ChecksumsAreComparedUnlessDisabled) {
  TableBuilderOptions options;
  options.compression = CompressionType::kNone;
  const std::string value(100, 'v');
  std::string bytes = Build(options, {{Key("a", 1), value}});
  const size_t place = bytes.find(value);
  ASSERT_NE(place, std::string::npos);
  bytes[place] = 'w';
  std::unique_ptr<Table> table;
  ASSERT_TRUE(Open(ReaderOptions(bytes.size()), bytes, &table).ok());
  LookupState state;
  PinnableSlice found;
  const Status s = Get(*table, Key("a", 1), &state, &found);
  EXPECT_THAT(s.ToString(),
              HasSubstr("Corruption: block checksum mismatch: stored = 0x"));
  EXPECT_THAT(s.ToString(), HasSubstr("in /db/000007.sst offset 0 size"));
  ASSERT_TRUE(
      Get(*table, Key("a", 1), &state, &found, {.verify_checksums = false})
          .ok());
  EXPECT_EQ(found, "w" + value.substr(1));
}

// Answers "no" to everything, which a policy must not do, to reveal its
// callers.
class NoPolicy : public FilterPolicy {
 public:
  explicit NoPolicy(const char* name) : name_(name) {}
  const char* Name() const override { return name_; }
  void CreateFilter(const std::vector<Slice>&,
                    std::string* filter) const override {
    filter->append("no");
  }
  bool KeyMayMatch(const Slice&, const Slice& filter) const override {
    return !(filter == Slice("no"));
  }

 private:
  const char* const name_;
};

TEST(TableTest, CustomFilterIsAskedOnlyByItsOwnPolicy) {
  TableBuilderOptions options;
  options.filter_policy = std::make_shared<NoPolicy>("test.no");
  const std::string bytes = Build(options, {{Key("a", 1), "v"}});
  const auto state_with = [&bytes](std::shared_ptr<const FilterPolicy> policy) {
    TableReaderOptions reader_options = ReaderOptions(bytes.size());
    reader_options.filter_policy = std::move(policy);
    std::unique_ptr<Table> table;
    EXPECT_TRUE(Open(reader_options, bytes, &table).ok());
    LookupState state;
    PinnableSlice value;
    EXPECT_TRUE(Get(*table, Key("a", 1), &state, &value).ok());
    EXPECT_TRUE(table->VerifyChecksum().ok());
    return state;
  };
  EXPECT_EQ(state_with(std::make_shared<NoPolicy>("test.no")),
            LookupState::kNotFound);
  EXPECT_EQ(state_with(std::make_shared<NoPolicy>("test.other")),
            LookupState::kFound);
  EXPECT_EQ(state_with(NewBloomFilterPolicy(10)), LookupState::kFound);
  EXPECT_EQ(state_with(nullptr), LookupState::kFound);
}

TEST(TableTest, IteratorKeepsTheTableOpen) {
  const Entries entries = NumberedEntries(100, 100);
  const std::string bytes = Build({}, entries);
  std::unique_ptr<Table> opened;
  ASSERT_TRUE(Open(ReaderOptions(bytes.size()), bytes, &opened).ok());
  std::shared_ptr<const Table> table = std::move(opened);
  const auto it = Table::NewIterator(ReadOptions(), table);
  table.reset();
  it->SeekToLast();
  ASSERT_TRUE(it->Valid());
  EXPECT_EQ(it->key(), entries.back().first);
}

TEST(TableTest, OffsetsRiseWithKeys) {
  const Entries entries = NumberedEntries(2000, 100);
  const std::string bytes = Build({}, entries);
  std::unique_ptr<Table> table;
  ASSERT_TRUE(Open(ReaderOptions(bytes.size()), bytes, &table).ok());
  EXPECT_EQ(table->ApproximateOffsetOf(Key("", 1)), 0u);
  const uint64_t middle = table->ApproximateOffsetOf(Key(Numbered(2000), 1));
  const uint64_t end = table->ApproximateOffsetOf(Key("z", 1));
  EXPECT_GT(middle, bytes.size() * 4 / 10);
  EXPECT_LT(middle, bytes.size() * 6 / 10);
  EXPECT_GT(end, bytes.size() * 9 / 10);
  EXPECT_LT(end, bytes.size());
}

}  // namespace
}  // namespace varve
