// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: the tables that RocksDB, LevelDB and hands wrote are read right or
// refused for the right reason. Method: every table of the fixtures is opened,
// verified, walked both ways and asked for each of its keys; what all tables
// of a database hold together is compared with its expected.txt, leaving out
// keys that its logs name. Damage outside tables is not the subject here.

#include "table/cache/clock_block_cache.h"
#include "table/reader/table.h"
#include "test/testing/directory.h"
#include "test/testing/env/string_random_access_file.h"
#include "test/testing/fixtures_dir.h"
#include "test/testing/status_checks.h"
#include "test/testing/table/table_bytes.h"
#include "test/testing/table/table_lookup.h"
#include "test/testing/test_headers.h"
#include "util/bytes/coding.h"

namespace varve {
namespace {

using ::testing::HasSubstr;
using Entries = std::vector<std::pair<std::string, std::string>>;

const InternalKeyComparator* Comparator() {
  static const InternalKeyComparator comparator(BytewiseComparator());
  return &comparator;
}
const InternalKeyComparator* Descending() {
  static const InternalKeyComparator comparator(ReverseBytewiseComparator());
  return &comparator;
}

struct Refusal {
  // "fixture/db/file".
  const char* file;
  const char* message;
};

constexpr Refusal kRefusedAtOpen[] = {
    {"crafted-handle-beyond-file/db/000005.sst",
     "Corruption: 000005.sst offset 34 size 24: index: entry at byte 0 of the "
     "block: block handle beyond the file: offset 1073741824"},
    {"crafted-handle-huge-size/db/000005.sst", "size 4611686018427387904"},
    {"damaged-footer-magic/db/000009.sst", "Corruption: 000009.sst: not a tab"},
    {"damaged-footer-version/db/000009.sst",
     "Not supported: 000009.sst: format_version 9"},
    {"damaged-index-block/db/000009.sst",
     "Corruption: block checksum mismatch: stored = 0x74cb47eb, computed = "
     "0x8314d9e8, type = 4 in 000009.sst offset 8075 size 226"},
    {"damaged-metaindex/db/000009.sst", "offset 9203 size 81"},
    {"damaged-properties/db/000009.sst", "offset 8306 size 892"},
    {"damaged-sst-extended/db/000009.sst", "Corruption: 000009.sst: not a tab"},
    {"damaged-sst-truncated/db/000009.sst", "Corruption: 000009.sst: not a ta"},
    {"damaged-sst-zero-length/db/000009.sst", "Corruption: 000009.sst: too sh"},
    {"refuse-format-version-8/db/000012.sst",
     "Not supported: 000012.sst: format_version 8"},
    {"refuse-format-version-8/db/000014.sst",
     "Not supported: 000014.sst: format_version 8"},
    {"refuse-plain-table/db/000009.sst",
     "Not supported: 000009.sst: a plain table"},
    {"refuse-reverse-comparator/db/000009.sst",
     "Not supported: 000009.sst: the keys are ordered by "
     "'rocksdb.ReverseBytewiseComparator', not by "
     "'leveldb.BytewiseComparator'"},
};

constexpr Refusal kRefusedAtRead[] = {
    {"crafted-restart-offset-out/db/000005.sst", "before all restart points"},
    {"crafted-restarts-overrun/db/000005.sst", "1048576 restart points"},
    {"crafted-shared-too-long/db/000005.sst",
     "Corruption: 000005.sst offset 0 size 35: entry at byte 21 of the block: "
     "shares more than there is"},
    {"crafted-tiny-block/db/000005.sst", "a block of 2 bytes"},
    {"crafted-unknown-value-type/db/000005.sst", "unknown value type 85"},
    {"crafted-zero-restarts/db/000005.sst", "without restart points"},
    {"damaged-data-block/db/000009.sst", "in 000009.sst offset 2445 size 507"},
    {"refuse-blob-files/db/000009.sst",
     "Not supported: 000009.sst offset 0 size 800: blob files"},
    {"refuse-separate-values/db/000009.sst",
     "block layout of a newer RocksDB (flags 1)"},
    {"refuse-wide-columns-sst/db/000009.sst",
     "Not supported: 000009.sst offset 0 size 390: wide columns"},
};

// Tables that can be read but are not whole.
constexpr Refusal kRefusedByVerification[] = {
    {"crafted-unsorted-keys/db/000005.sst", "Corruption: 000005.sst offset 0"},
    {"damaged-filter/db/000009.sst", "in 000009.sst offset 7745 size 325"},
};

std::string PathOf(const std::string& file) {
  return test::FixturesDir() + "/" + file;
}

template <size_t kCount>
const Refusal* FindRefusal(const Refusal (&refusals)[kCount],
                           const std::string& file) {
  for (const Refusal& refusal : refusals) {
    if (file == refusal.file) return &refusal;
  }
  return nullptr;
}

Status Open(const std::string& file, std::string bytes,
            std::unique_ptr<Table>* table, BlockCache* cache = nullptr,
            const InternalKeyComparator* comparator = Comparator()) {
  TableReaderOptions options;
  options.comparator = comparator;
  options.block_cache = cache;
  options.file_name = std::filesystem::path(file).filename();
  options.file_size = bytes.size();
  // The only table whose sequence number is in the MANIFEST alone.
  if (file == "rocksdb-ingested/db/000010.sst") {
    options.manifest_largest_sequence = 62;
  }
  return Table::Open(
      options,
      std::make_unique<testing::StringRandomAccessFile>(std::move(bytes)),
      table);
}

Status Open(const std::string& file, std::unique_ptr<Table>* table,
            BlockCache* cache = nullptr,
            const InternalKeyComparator* comparator = Comparator()) {
  return Open(file, test::ReadWholeFile(PathOf(file)), table, cache,
              comparator);
}

// All tables of the fixtures, or of one of them.
std::vector<std::string> AllTables(const std::string& only = "") {
  std::vector<std::string> files;
  for (const auto& entry :
       std::filesystem::directory_iterator(test::FixturesDir())) {
    const std::string fixture = entry.path().filename();
    if (!entry.is_directory() || (!only.empty() && fixture != only)) continue;
    for (const char* suffix : {".sst", ".ldb"}) {
      for (const std::string& path :
           test::FilesEndingIn(entry.path().string() + "/db", suffix)) {
        files.push_back(fixture + "/db/" +
                        std::filesystem::path(path).filename().string());
      }
    }
  }
  return files;
}

Status Scan(const Table& table, Entries* entries) {
  const auto it = table.NewIterator(ReadOptions());
  for (it->SeekToFirst(); it->Valid(); it->Next()) {
    entries->emplace_back(it->key().ToString(), it->value().ToString());
  }
  return it->status();
}

// Reads each entry in every way.
void CheckEntries(const Table& table, const Entries& entries) {
  const auto it = table.NewIterator(ReadOptions());
  size_t i = entries.size();
  for (it->SeekToLast(); it->Valid(); it->Prev()) {
    ASSERT_GT(i, 0u);
    ASSERT_EQ(it->key(), entries[--i].first);
    ASSERT_EQ(it->value(), entries[i].second);
  }
  ASSERT_EQ(i, 0u);
  ASSERT_TRUE(it->status().ok()) << it->status().ToString();
  uint64_t last_offset = 0;
  for (const auto& [key, value] : entries) {
    // As reads do. A separator of rusty-leveldb may be the key with a type that
    // sorts before its own.
    it->Seek(
        LookupKey(ExtractUserKey(key), ExtractSequence(key)).internal_key());
    ASSERT_TRUE(it->Valid());
    ASSERT_EQ(it->key(), key);
    it->SeekForPrev(key);
    ASSERT_TRUE(it->Valid());
    ASSERT_EQ(it->key(), key);
    LookupState state;
    PinnableSlice found;
    ASSERT_TRUE(Ok(test::Get(table, key, &state, &found)));
    const RangeTombstoneSet* const tombstones = table.tombstones();
    const bool covered =
        tombstones != nullptr &&
        tombstones->MaxCovering(ExtractUserKey(key), kMaxSequenceNumber) >
            ExtractSequence(key);
    if (ExtractValueType(key) == ValueType::kMerge && !covered) {
      ASSERT_EQ(state, LookupState::kMerge) << DescribeInternalKey(key);
    } else if (ExtractValueType(key) == ValueType::kValue && !covered) {
      ASSERT_EQ(state, LookupState::kFound) << DescribeInternalKey(key);
      ASSERT_EQ(found, value);
    } else {
      ASSERT_EQ(state, LookupState::kDeleted) << DescribeInternalKey(key);
    }
    const uint64_t offset = table.ApproximateOffsetOf(key);
    ASSERT_GE(offset, last_offset);
    last_offset = offset;
  }
}

TEST(TableFixturesTest, RefusesUnreadableTables) {
  for (const Refusal& refusal : kRefusedAtOpen) {
    std::unique_ptr<Table> table;
    EXPECT_THAT(Open(refusal.file, &table).ToString(),
                HasSubstr(refusal.message))
        << refusal.file;
    EXPECT_EQ(table, nullptr);
  }
  for (const Refusal& refusal : kRefusedAtRead) {
    SCOPED_TRACE(refusal.file);
    std::unique_ptr<Table> table;
    ASSERT_TRUE(Ok(Open(refusal.file, &table)));
    Entries entries;
    EXPECT_THAT(Scan(*table, &entries).ToString(), HasSubstr(refusal.message));
    EXPECT_THAT(table->VerifyChecksum().ToString(), HasSubstr(refusal.message));
  }
  for (const Refusal& refusal : kRefusedByVerification) {
    SCOPED_TRACE(refusal.file);
    std::unique_ptr<Table> table;
    ASSERT_TRUE(Ok(Open(refusal.file, &table)));
    Entries entries;
    EXPECT_TRUE(Scan(*table, &entries).ok());
    EXPECT_THAT(table->VerifyChecksum().ToString(), HasSubstr(refusal.message));
  }
}

TEST(TableFixturesTest, ReadsEveryOtherTable) {
  ClockBlockCache cache({.capacity_bytes = 100 << 10});
  int count = 0;
  for (const std::string& file : AllTables()) {
    SCOPED_TRACE(file);
    if (FindRefusal(kRefusedAtOpen, file) != nullptr ||
        FindRefusal(kRefusedAtRead, file) != nullptr) {
      continue;
    }
    std::unique_ptr<Table> table;
    Status opened = Open(file, &table, &cache);
    if (opened.IsNotSupported() &&
        opened.ToString().find("ReverseBytewise") != std::string::npos) {
      opened = Open(file, &table, &cache, Descending());
    }
    ASSERT_TRUE(Ok(opened));
    if (FindRefusal(kRefusedByVerification, file) == nullptr) {
      EXPECT_TRUE(Ok(table->VerifyChecksum()));
    }
    Entries entries;
    ASSERT_TRUE(Ok(Scan(*table, &entries)));
    if (file.find("unsorted") == std::string::npos) {
      ASSERT_NO_FATAL_FAILURE(CheckEntries(*table, entries));
    }
    ++count;
  }
  EXPECT_GT(count, 100);
  EXPECT_EQ(cache.GetUsage(), 0u) << "blocks of closed tables are left";
}

std::string FromHex(const std::string& text) {
  std::string bytes;
  for (size_t i = 0; i + 1 < text.size(); i += 2) {
    bytes.push_back(
        static_cast<char>(std::stoi(text.substr(i, 2), nullptr, 16)));
  }
  return bytes;
}

std::map<std::string, std::string> ReadExpected(const std::string& fixture) {
  std::ifstream in(PathOf(fixture + "/expected.txt"));
  std::map<std::string, std::string> expected;
  std::string line;
  while (std::getline(in, line)) {
    const size_t arrow = line.find(" => ");
    EXPECT_NE(arrow, std::string::npos) << line;
    expected[FromHex(line.substr(0, arrow))] = FromHex(line.substr(arrow + 4));
  }
  return expected;
}

// Returns the contents of a database's tables: the newest entry of each key.
std::map<std::string, std::string> ReadContents(const std::string& fixture) {
  std::map<std::string, std::pair<uint64_t, std::string>> newest;
  for (const std::string& file : AllTables(fixture)) {
    std::unique_ptr<Table> table;
    Entries entries;
    const Status s = Open(file, &table);
    EXPECT_TRUE(Ok(s));
    if (!s.ok() || !Scan(*table, &entries).ok()) return {};
    for (const auto& [key, value] : entries) {
      auto& entry = newest[ExtractUserKey(key).ToString()];
      const uint64_t trailer = ExtractTrailer(key);
      if (trailer >= entry.first) entry = {trailer, value};
    }
  }
  std::map<std::string, std::string> contents;
  for (const auto& [user_key, entry] : newest) {
    const auto type = static_cast<ValueType>(entry.first & 0xFF);
    if (type == ValueType::kValue) contents[user_key] = entry.second;
  }
  return contents;
}

// Their range deletions are in a log, or cover keys of other tables.
constexpr const char* kFixturesWithRangeDeletions[] = {
    "rocksdb-fv6",         "rocksdb-fv6-partitioned", "rocksdb-fv7",
    "rocksdb-fv7-default", "rocksdb-fv7-partitioned", "rocksdb-rangedel-wal"};

void CheckContents(const std::string& fixture) {
  SCOPED_TRACE(fixture);
  std::string logs;
  for (const std::string& path :
       test::FilesEndingIn(PathOf(fixture) + "/db", ".log")) {
    logs += test::ReadWholeFile(path);
  }
  const auto expected = ReadExpected(fixture);
  auto contents = ReadContents(fixture);
  size_t equal = 0;
  for (const auto& [key, value] : expected) {
    const auto it = contents.find(key);
    const bool same = it != contents.end() && it->second == value;
    equal += same ? 1 : 0;
    // A key may be cut by the blocks of the log.
    EXPECT_TRUE(same || logs.find(key) != std::string::npos)
        << Slice(key).ToString(true);
    if (it != contents.end()) contents.erase(it);
  }
  EXPECT_GT(equal, expected.size() / 2);
  for (const auto& [key, value] : contents) {
    EXPECT_NE(logs.find(key), std::string::npos) << Slice(key).ToString(true);
  }
}

TEST(TableFixturesTest, TablesHaveTheExpectedContents) {
  int count = 0;
  for (const auto& entry :
       std::filesystem::directory_iterator(test::FixturesDir())) {
    const std::string fixture = entry.path().filename();
    const std::vector<std::string> tables = AllTables(fixture);
    const bool healthy =
        fixture == "damage-base" || fixture == "damaged-filter" ||
        fixture == "dbbench-default" || fixture == "ldb-tool" ||
        fixture.starts_with("rocksdb-") || fixture.starts_with("leveldb-") ||
        fixture.starts_with("handmade-");
    if (!healthy || tables.empty()) continue;
    if (FindRefusal(kRefusedAtOpen, tables[0]) != nullptr) continue;
    if (std::find(std::begin(kFixturesWithRangeDeletions),
                  std::end(kFixturesWithRangeDeletions),
                  fixture) != std::end(kFixturesWithRangeDeletions)) {
      continue;
    }
    CheckContents(fixture);
    ++count;
  }
  EXPECT_GT(count, 30);
}

// A database of several column families, two of which have partitioned indexes
// and filters. Only their tables are read here.
TEST(TableFixturesTest, TablesOfFamiliesHaveTheExpectedContents) {
  const std::string fixture = "cf-partitioned";
  std::map<std::string, std::map<std::string, std::string>> expected;
  std::ifstream in(PathOf(fixture + "/expected.txt"));
  for (std::string line; std::getline(in, line);) {
    const size_t key = line.find('\t') + 1;
    const size_t value = line.find('\t', key) + 1;
    expected[line.substr(0, key - 1)]
            [FromHex(line.substr(key, value - key - 1))] =
                FromHex(line.substr(value));
  }
  ASSERT_EQ(expected.size(), 3u);
  // The last updates are in the log.
  const std::string log =
      test::ReadWholeFile(PathOf(fixture + "/db/000012.log"));
  size_t partitioned = 0;
  for (const std::string& file : AllTables(fixture)) {
    SCOPED_TRACE(file);
    std::unique_ptr<Table> table;
    Entries entries;
    ASSERT_TRUE(Open(file, &table).ok());
    ASSERT_TRUE(Scan(*table, &entries).ok());
    partitioned += TableIndex::IsPartitioned(table->properties()) ? 1 : 0;
    const testing::TableBytes parts(test::ReadWholeFile(PathOf(file)));
    auto family = expected.extract(parts.properties().column_family_name);
    ASSERT_FALSE(family.empty());
    size_t differing = 0;
    for (const auto& [key, value] : entries) {
      const std::string user_key = ExtractUserKey(key).ToString();
      const auto it = family.mapped().find(user_key);
      if (it != family.mapped().end() && it->second == value) {
        family.mapped().erase(it);
        continue;
      }
      ++differing;
      EXPECT_NE(log.find(user_key), std::string::npos) << user_key;
    }
    EXPECT_LE(differing, 10u);
    for (const auto& [key, value] : family.mapped()) {
      EXPECT_NE(log.find(key), std::string::npos) << Slice(key).ToString(true);
    }
  }
  EXPECT_EQ(partitioned, 2u);
}

TEST(TableFixturesTest, DamagedDataBlockSparesOtherKeys) {
  const std::string file = "damaged-data-block/db/000009.sst";
  std::unique_ptr<Table> table;
  ASSERT_TRUE(Open(file, &table).ok());
  std::unique_ptr<Table> healthy;
  ASSERT_TRUE(Open("damage-base/db/000009.sst", &healthy).ok());
  Entries entries;
  ASSERT_TRUE(Scan(*healthy, &entries).ok());
  int damaged = 0;
  for (const auto& [key, value] : entries) {
    LookupState state;
    PinnableSlice found;
    const Status s = test::Get(*table, key, &state, &found);
    if (s.IsCorruption()) {
      ++damaged;
    } else {
      ASSERT_TRUE(Ok(s));
      EXPECT_EQ(found, value);
    }
  }
  EXPECT_GT(damaged, 0);
  EXPECT_LT(damaged, static_cast<int>(entries.size()) / 2);
}

// Tables of format versions 6 and 7, whose footers have checksums too.
TEST(TableFixturesTest, NoticesEveryChangedByte) {
  size_t checked = 0;
  for (const char* fixture : {"rocksdb-fv6-checksums", "rocksdb-fv7-checksums",
                              "rocksdb-fv7-layouts"}) {
    for (const std::string& file : AllTables(fixture)) {
      const std::string bytes = test::ReadWholeFile(PathOf(file));
      Footer footer;
      ASSERT_TRUE(Ok(footer.DecodeFrom(bytes, file, bytes.size())));
      for (size_t i = 0; i < bytes.size(); ++i) {
        std::string changed = bytes;
        changed[i] = static_cast<char>(changed[i] ^ (1 << i % 8));
        std::unique_ptr<Table> table;
        Status s = Open(file, changed, &table);
        Entries entries;
        if (s.ok()) s = Scan(*table, &entries);
        if (s.ok()) s = table->VerifyChecksum();
        // Without checksums, it only has to survive.
        if (footer.checksum == ChecksumType::kNone) continue;
        ASSERT_FALSE(s.ok()) << file << " byte " << i;
        ASSERT_THAT(s.ToString(), HasSubstr(".sst"));
        ++checked;
      }
    }
  }
  EXPECT_GT(checked, 20000u);
}

TEST(TableFixturesTest, NoticesABlockAtAnotherPlace) {
  const std::string file = "rocksdb-fv7-checksums/db/000027.sst";
  std::string bytes = test::ReadWholeFile(PathOf(file));
  const testing::TableBytes parts(bytes);
  const BlockHandle first = parts.index().at(1).handle;
  const BlockHandle second = parts.index().at(2).handle;
  ASSERT_EQ(first.size, second.size);
  std::copy_n(bytes.begin() + static_cast<ptrdiff_t>(second.offset),
              second.size + kBlockTrailerSize,
              bytes.begin() + static_cast<ptrdiff_t>(first.offset));
  std::unique_ptr<Table> table;
  ASSERT_TRUE(Ok(Open(file, bytes, &table)));
  Entries entries;
  EXPECT_THAT(Scan(*table, &entries).ToString(),
              HasSubstr("checksum mismatch"));
}

// The ingested table, with its sequence number patched in as RocksDB does.
TEST(TableFixturesTest, ReadsPatchedSequenceNumber) {
  const std::string file = "rocksdb-ingested/db/000010.sst";
  std::string bytes = test::ReadWholeFile(PathOf(file));
  const testing::TableBytes parts(bytes);
  const uint64_t place = parts.meta_blocks().at(kPropertiesBlockName).offset +
                         parts.properties().global_sequence_offset;
  EncodeFixed64(bytes.data() + place, 62);
  std::unique_ptr<Table> table;
  ASSERT_TRUE(Ok(Open(file, bytes, &table)));
  EXPECT_TRUE(Ok(table->VerifyChecksum()));
  Entries entries;
  ASSERT_TRUE(Scan(*table, &entries).ok());
  ASSERT_FALSE(entries.empty());
  for (const auto& [key, value] : entries) {
    EXPECT_EQ(ExtractSequence(key), 62u);
  }
  // Reads at an earlier sequence number do not see the key.
  LookupState state;
  PinnableSlice found;
  const Slice user_key = ExtractUserKey(entries[0].first);
  ASSERT_TRUE(test::GetAt(*table, user_key, 61, &state, &found).ok());
  EXPECT_EQ(state, LookupState::kNotFound);

  // The MANIFEST says otherwise.
  EncodeFixed64(bytes.data() + place, 63);
  EXPECT_THAT(Open(file, bytes, &table).ToString(),
              HasSubstr("the file's sequence number is 63, the MANIFEST's 62"));
  // Any other change is damage.
  bytes[place + 8] = static_cast<char>(bytes[place + 8] ^ 1);
  EXPECT_THAT(Open(file, bytes, &table).ToString(),
              HasSubstr("checksum mismatch"));
}

}  // namespace
}  // namespace varve
