// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: a deletion counts as unneeded only if no table has its key in its
// range, and estimates of dead entries follow the counts. Method: versions of
// tables that exist as metadata only, against a search of all of them.

#include "db/compaction/older_tables.h"

#include "db/compaction/table_output.h"
#include "db/version/dead_bytes.h"
#include "test/testing/db_helpers.h"
#include "test/testing/seed.h"
#include "test/testing/temp_dir.h"
#include "test/testing/test_headers.h"

namespace varve::test {
namespace {

const InternalKeyComparator kComparator(BytewiseComparator());

std::string Letter(uint64_t i) {
  return std::string(1, static_cast<char>('a' + i));
}

FileMetaData* NewFile(uint64_t number, const std::string& smallest,
                      const std::string& largest, bool exclusive = false) {
  auto* file = new FileMetaData;
  file->number = number;
  file->file_size = 1000;
  file->smallest =
      MakeInternalKey(smallest, PackTrailer(number, ValueType::kValue));
  file->largest = MakeInternalKey(
      largest,
      exclusive ? kRangeEndTrailer : PackTrailer(number, ValueType::kValue));
  file->largest_sequence = number;
  return file;
}

// Owns a version and its files.
struct Tables {
  explicit Tables(const LevelFiles& levels)
      : version(new Version(&kComparator, nullptr, true, levels)) {
    version->RefLocked();
  }
  ~Tables() {
    std::vector<FileMetaData*> obsolete;
    EXPECT_TRUE(version->UnrefLocked(&obsolete));
    for (FileMetaData* file : obsolete) delete file;
  }
  Version* const version;
};

TEST(OlderTablesTest, AgreesWithASearchOfAllTables) {
  Rng rng(TestSeed());
  for (int round = 0; round < 300; ++round) {
    LevelFiles levels;
    uint64_t number = 1;
    for (uint64_t i = rng.Between(0, 4); i > 0; --i) {
      const uint64_t begin = rng.Between(0, 25);
      levels[0].push_back(
          NewFile(++number, Letter(begin), Letter(rng.Between(begin, 25))));
    }
    for (int level = 1; level < kNumLevels; level += 2) {
      for (uint64_t at = rng.Between(0, 6); at < 24;) {
        const uint64_t end = at + rng.Between(0, 2);
        levels[level].push_back(NewFile(++number, Letter(at), Letter(end)));
        at = end + rng.Between(1, 8);
      }
    }
    const Tables tables(levels);
    FileMetaData* const further = NewFile(++number, "h", "k");
    const int first_level = static_cast<int>(rng.Between(0, 4));
    const bool with_further = rng.Between(0, 1) == 1;
    OlderTables older(*tables.version, first_level);
    if (with_further) older.Add(*further);
    const auto may_have = [&](const std::string& begin,
                              const std::string& end) {
      const Slice from(begin);
      const Slice to(end);
      const UserKeyRange range{&from, &to, begin != end};
      bool found = with_further && FileOverlaps(kComparator, *further, range);
      for (int level = first_level; level < kNumLevels; ++level) {
        for (const FileMetaData* file : tables.version->files(level)) {
          found = found || FileOverlaps(kComparator, *file, range);
        }
      }
      return found;
    };
    for (uint64_t i = 0; i < 26; i += rng.Between(0, 2)) {
      const std::string key = Letter(i);
      ASSERT_EQ(older.MayHave(key), may_have(key, key)) << key;
      const std::string end = Letter(rng.Between(i + 1, 27));
      ASSERT_EQ(older.MayHaveAny(key, end), may_have(key, end)) << key << end;
      if (i == 25) break;
    }
    delete further;
  }
}

// Returns how many dead entries lie in the range, if they are spread evenly.
uint64_t DeadIn(const FileMetaData& file, const Table* table,
                const UserKeyRange& range) {
  return static_cast<uint64_t>(static_cast<double>(file.FindDead().Dead()) *
                               PartInRange(kComparator, file, table, range));
}

TEST(DeadBytesTest, FollowTheCounts) {
  FileMetaData* const file = NewFile(1, "c", "m");
  EXPECT_EQ(AverageEntryBytes(*file), 0u);
  EXPECT_EQ(OwnDeadBytes(*file, true), 0u);
  EXPECT_FALSE(HasManyDead(*file, true));
  file->dead = {.known = true,
                .entries = 100,
                .deletions = 30,
                .hidden = 20,
                .longest_run = 12};
  file->tail_size = 200;
  EXPECT_EQ(AverageEntryBytes(*file), 8u);
  EXPECT_EQ(OwnDeadBytes(*file, false), 160u);
  EXPECT_EQ(OwnDeadBytes(*file, true), 400u);
  EXPECT_FALSE(HasManyDead(*file, false));
  EXPECT_TRUE(HasManyDead(*file, true));
  const Slice b("b");
  const Slice d("d");
  const Slice x("x");
  EXPECT_EQ(DeadIn(*file, nullptr, {nullptr, nullptr}), 50u);
  EXPECT_EQ(DeadIn(*file, nullptr, {&d, &x}), 50u) << "it is not open";
  EXPECT_EQ(DeadIn(*file, nullptr, {nullptr, &b}), 0u);
  EXPECT_EQ(DeadIn(*file, nullptr, {&x, nullptr}), 0u);
  // Damaged sizes.
  file->tail_size = 5000;
  EXPECT_EQ(OwnDeadBytes(*file, true), 0u);
  delete file;
}

TEST(DeadBytesTest, AnOpenTableTellsWhereTheyAre) {
  const TempDir dir;
  const Options options;
  TableOutputContext context;
  context.db_path = dir.path();
  context.env = Env::Default();
  context.options = &options;
  context.comparator = &kComparator;
  TableOutput output(context, 7, CompressionType::kNone,
                     RateLimiter::Priority::kHigh);
  ASSERT_TRUE(output.Open().ok());
  for (int i = 0; i < 10000; ++i) {
    const ValueType type =
        i % 2 == 0 ? ValueType::kValue : ValueType::kDeletion;
    ASSERT_TRUE(output
                    .Add(MakeInternalKey(Key(i), PackTrailer(1, type)),
                         std::string(50, 'v'))
                    .ok());
  }
  ASSERT_TRUE(output.Finish().ok());
  TableReaderOptions reader;
  reader.comparator = &kComparator;
  TableCache cache(dir.path(), Env::Default(), FileOptions(), reader, -1);
  // Copies, since their handles must not outlive the cache.
  const FileMetaData file = output.metadata();
  EXPECT_EQ(file.dead.deletions, 5000u);
  EXPECT_EQ(file.dead.longest_run, 1u);
  const Table* table = nullptr;
  std::shared_ptr<Table> owner;
  ASSERT_TRUE(cache.Find(file.table_file(), &file.table, &table, &owner).ok());
  // Without counts of its own, as when the database was opened.
  FileMetaData opened = file;
  opened.dead = {};
  EXPECT_FALSE(opened.FindDead().known);
  ASSERT_TRUE(
      cache.Find(opened.table_file(), &opened.table, &table, &owner).ok());
  for (const FileMetaData* known :
       {&file, static_cast<const FileMetaData*>(&opened)}) {
    EXPECT_EQ(known->FindDead().deletions, 5000u);
    for (const int part : {1, 2, 4, 10}) {
      const std::string begin = Key(10000 - 10000 / part);
      const std::string end = Key(10000 / part);
      const Slice from(begin);
      const Slice to(end);
      const double expected = 5000.0 / part;
      EXPECT_NEAR(static_cast<double>(DeadIn(*known, table, {&from, nullptr})),
                  expected, 100);
      EXPECT_NEAR(static_cast<double>(DeadIn(*known, table, {nullptr, &to})),
                  expected, 100);
    }
  }
}

// Tables of one level, none of which hides anything, and tables of which much
// is dead.
TEST(DeadBytesTest, VersionsFindWhatIsWorthACompaction) {
  const auto with = [](uint64_t number, const char* smallest,
                       const char* largest, uint64_t deletions,
                       uint64_t hidden) {
    FileMetaData* const file = NewFile(number, smallest, largest);
    file->file_size = 100000;
    file->points_are_estimated = true;
    file->dead = {.known = true,
                  .entries = 1000,
                  .deletions = deletions,
                  .hidden = hidden,
                  .longest_run = 1};
    return file;
  };
  LevelFiles levels;
  levels[0] = {with(20, "a", "z", 1000, 0), with(10, "a", "z", 0, 0)};
  levels[0][0]->reclaimable_bytes = 50000;
  // Below the first one there is a table.
  levels[5] = {with(5, "a", "c", 300, 0), with(6, "d", "f", 300, 0)};
  levels[6] = {with(1, "b", "c", 0, 240), with(2, "g", "h", 0, 260)};
  const Tables tables(levels);
  EXPECT_TRUE(tables.version->HasWaste());
  EXPECT_EQ(tables.version->KnownEntries(), 6000u);
  std::vector<uint64_t> in_place;
  for (const auto& candidate : tables.version->reclaim_candidates()) {
    if (candidate.in_place) in_place.push_back(candidate.file->number);
    // 50,000 of 600,000 bytes.
    EXPECT_NE(candidate.level, 0);
  }
  EXPECT_EQ(in_place, (std::vector<uint64_t>{6, 2}));
}

}  // namespace
}  // namespace varve::test
