// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: a repair keeps every entry that can be read, brings back nothing that
// was deleted, and throws nothing away. Method: a database of known contents
// with each of its files missing, cut off or hurt at a known place, and the
// contents afterwards against what lay in that place; old files against what
// is in lost/. Faults while the repair is at work: db_repair_fault_test.

#include <functional>
#include <set>

#include "table/block/internal_key.h"
#include "test/testing/comparators.h"
#include "test/testing/db_helpers.h"
#include "test/testing/directory.h"
#include "test/testing/fixtures.h"
#include "test/testing/table/table_bytes.h"
#include "varve/merge_operator.h"

namespace varve::test {
namespace {

using ::varve::testing::TableBytes;
namespace fs = std::filesystem;

class DbRepairTest : public DbTestBase {
 protected:
  DbRepairTest() {
    options_.disable_auto_compactions = true;
    options_.filter_policy = NewBloomFilterPolicy(10);
  }

  static std::string Value(int i) {
    // So that compressed and raw blocks both come up.
    return "value" + std::to_string(i) + std::string(40, 'a');
  }

  // A bottom table, a table with deletions of keys and of a range, and a log.
  void MakeDatabase() {
    Open();
    for (int i = 0; i < 600; i++) PutKnown(Key(i), Value(i));
    CompactAll();
    for (int i = 0; i < 600; i += 7) DeleteKnown(Key(i));
    ASSERT_TRUE(Ok(db_->DeleteRange({}, Key(200), Key(230))));
    expected_.erase(expected_.lower_bound(Key(200)),
                    expected_.lower_bound(Key(230)));
    for (int i = 600; i < 900; i++) PutKnown(Key(i), Value(i));
    Flush();
    for (int i = 850; i < 1000; i++) PutKnown(Key(i), Value(i) + "new");
    DeleteKnown(Key(3));
    Close();
    tables_ = FilesEndingIn(path_, ".sst");
    ASSERT_EQ(tables_.size(), 2u);
  }

  void PutKnown(const std::string& key, const std::string& value) {
    Put(key, value);
    expected_[key] = value;
  }
  void DeleteKnown(const std::string& key) {
    Delete(key);
    expected_.erase(key);
  }

  std::string Manifest() { return FilesStartingWith(path_, "MANIFEST-").at(0); }
  std::string Log() { return FilesEndingIn(path_, ".log").at(0); }

  // Each old file is still there, under its name in lost/. Names of files are
  // parsed, so what is no database's must not have moved.
  void ExpectKept(const std::map<std::string, std::string>& before) {
    for (const auto& [name, bytes] : before) {
      const bool moves = name.ends_with(".sst") || name.ends_with(".log") ||
                         name.starts_with("MANIFEST-") || name == "CURRENT";
      if (name.starts_with("LO") || name.starts_with("IDENTITY")) continue;
      std::string path = path_ + (moves ? "/lost/" : "/") + name;
      const std::string first = path;
      for (int i = 1; moves && fs::exists(first + "." + std::to_string(i));
           ++i) {
        path = first + "." + std::to_string(i);  // From this repair.
      }
      EXPECT_TRUE(fs::exists(path)) << name;
      if (fs::is_regular_file(path)) {
        EXPECT_TRUE(ReadWholeFile(path) == bytes) << name << " has changed";
      }
    }
  }

  void Repair() {
    const auto before = ReadDirectory(path_);
    ASSERT_TRUE(Ok(RepairDB(path_, options_)));
    ExpectKept(before);
    Open();
    ASSERT_TRUE(Ok(db_->VerifyChecksum()));
  }

  void ExpectAll() {
    EXPECT_TRUE(HasEntries(db_.get(), ToList(expected_)));
    Put(Key(1), "after the repair");
    Delete(Key(2));
    expected_[Key(1)] = "after the repair";
    expected_.erase(Key(2));
    CompactAll();
    Reopen();
    EXPECT_TRUE(HasEntries(db_.get(), ToList(expected_)));
  }

  // The user keys in a block of a table.
  static std::set<std::string> KeysOf(const TableBytes& table, size_t block) {
    std::set<std::string> keys;
    for (const auto& [key, value] :
         TableBytes::Entries(table.ReadBlock(table.index()[block].handle))) {
      keys.insert(ExtractUserKey(key).ToString());
    }
    return keys;
  }

  std::map<std::string, std::string> expected_;
  std::vector<std::string> tables_;  // Paths; the older one first.
};

// Ways of hurting what only says where things are.
struct Harm {
  const char* name;
  std::function<void(const std::string& path, const std::string& manifest)> act;
};

void Truncate(const std::string& path, uint64_t size) {
  fs::resize_file(path, size);
}

const Harm kHarms[] = {
    {"nothing", [](const auto&, const auto&) {}},
    {"CURRENT missing",
     [](const auto& path, const auto&) { fs::remove(path + "/CURRENT"); }},
    {"CURRENT empty",
     [](const auto& path, const auto&) {
       WriteWholeFile(path + "/CURRENT", "");
     }},
    {"CURRENT garbage",
     [](const auto& path, const auto&) {
       WriteWholeFile(path + "/CURRENT", std::string(3000, '\xfe'));
     }},
    {"CURRENT leads out",
     [](const auto& path, const auto&) {
       WriteWholeFile(path + "/CURRENT", "../MANIFEST-000001\n");
     }},
    {"CURRENT names another",
     [](const auto& path, const auto&) {
       WriteWholeFile(path + "/CURRENT", "MANIFEST-000777\n");
     }},
    {"CURRENT a directory",
     [](const auto& path, const auto&) {
       fs::remove(path + "/CURRENT");
       fs::create_directory(path + "/CURRENT");
     }},
    {"MANIFEST missing",
     [](const auto&, const auto& manifest) { fs::remove(manifest); }},
    {"MANIFEST empty",
     [](const auto&, const auto& manifest) { Truncate(manifest, 0); }},
    {"MANIFEST cut",
     [](const auto&, const auto& manifest) {
       Truncate(manifest, fs::file_size(manifest) / 2);
     }},
    {"MANIFEST damaged in front",
     [](const auto&, const auto& manifest) { FlipByte(manifest, 9); }},
    {"MANIFEST damaged at the end",
     [](const auto&, const auto& manifest) {
       FlipByte(manifest, fs::file_size(manifest) - 3);
     }},
    {"MANIFEST garbage",
     [](const auto&, const auto& manifest) {
       WriteWholeFile(manifest, std::string(70000, '\x5a'));
     }},
    {"CURRENT and MANIFEST missing",
     [](const auto& path, const auto& manifest) {
       fs::remove(manifest);
       fs::remove(path + "/CURRENT");
     }},
    {"IDENTITY missing",
     [](const auto& path, const auto&) { fs::remove(path + "/IDENTITY"); }},
    {"OPTIONS garbage",
     [](const auto& path, const auto&) {
       WriteWholeFile(path + "/OPTIONS-000003", std::string(500, '\xff'));
     }},
    {"foreign files",
     [](const auto& path, const auto&) {
       WriteWholeFile(path + "/notes.txt", "mine");
       WriteWholeFile(path + "/000005.sst.bak", "mine");
       fs::create_directory(path + "/000005");
     }},
};

TEST_F(DbRepairTest, LocationPropertiesAreNotNeeded) {
  for (const Harm& harm : kHarms) {
    SCOPED_TRACE(harm.name);
    fs::remove_all(path_);
    expected_.clear();
    MakeDatabase();
    harm.act(path_, Manifest());
    Repair();
    if (HasFatalFailure()) return;
    ExpectAll();
    db_.reset();
  }
}

TEST_F(DbRepairTest, DescriptivePropertiesAreNotNeeded) {
  for (const bool compressed : {false, true}) {
    options_.compression =
        compressed ? CompressionType::kZSTD : CompressionType::kNone;
    for (const std::string block : {"index", "metaindex", "rocksdb.properties",
                                    kFullBloomBlockName, "footer", "tail"}) {
      SCOPED_TRACE(block + " damaged");
      fs::remove_all(path_);
      expected_.clear();
      MakeDatabase();
      for (const std::string& path : tables_) {
        const TableBytes table(ReadWholeFile(path));
        const auto meta = table.meta_blocks().find(block);
        if (meta != table.meta_blocks().end()) {
          FlipByte(path, meta->second.offset + 3);
        } else if (block == "index") {
          FlipByte(path, table.footer().index.offset + 3);
        } else if (block == "metaindex") {
          FlipByte(path, table.footer().metaindex.offset + 3);
        } else if (block == "footer") {
          FlipByte(path, table.file().size() - 4);
        } else if (block == "tail" &&
                   !table.meta_blocks().contains(kRangeTombstoneBlockName)) {
          const BlockHandle last = table.index().back().handle;
          Truncate(path, last.offset + last.size + kBlockTrailerSize);
        }
      }
      Repair();
      if (HasFatalFailure()) return;
      ExpectAll();
      db_.reset();
    }
  }
}

TEST_F(DbRepairTest, BlocksAroundAndBetweenDamagedOnesAreKept) {
  MakeDatabase();
  const TableBytes table(ReadWholeFile(tables_[0]));
  const size_t blocks = table.index().size();
  ASSERT_GT(blocks, 8u);
  std::set<std::string> hurt;
  for (const size_t block : {size_t{0}, size_t{2}, blocks / 2, blocks - 1}) {
    FlipByte(tables_[0], table.index()[block].handle.offset + 5);
    hurt.merge(KeysOf(table, block));
  }
  Repair();
  EntryList left;
  for (const auto& [key, value] : expected_) {
    if (!hurt.contains(key)) left.emplace_back(key, value);
  }
  EXPECT_LT(left.size(), expected_.size());
  EXPECT_TRUE(HasEntries(db_.get(), left));
}

TEST_F(DbRepairTest, ATableThatIsCutOffIsKeptUpToThere) {
  MakeDatabase();
  const std::string whole = ReadWholeFile(tables_[0]);
  const TableBytes table(whole);
  CopyDirectory(path_, dir_.Sub("whole"));
  for (const size_t blocks : {0, 1, 2, 7}) {
    SCOPED_TRACE(blocks);
    db_.reset();
    CopyDirectory(dir_.Sub("whole"), path_);
    // Inside the next one.
    Truncate(tables_[0], table.index()[blocks].handle.offset + 30);
    std::set<std::string> lost;
    for (size_t i = blocks; i < table.index().size(); i++) {
      lost.merge(KeysOf(table, i));
    }
    Repair();
    for (const auto& [key, value] : expected_) {
      if (lost.contains(key) && key < Key(850)) {
        ASSERT_EQ(Get(key), "NotFound");
      } else {
        ASSERT_EQ(Get(key), value);
      }
    }
  }
}

TEST_F(DbRepairTest, AnyCutOfATableGivesRightEntriesOnly) {
  MakeDatabase();
  CopyDirectory(path_, dir_.Sub("whole"));
  for (const std::string& path : tables_) {
    const size_t size =
        ReadDirectory(dir_.Sub("whole"))[fs::path(path).filename()].size();
    for (size_t cut = 0; cut < size; cut += 1 + size / 15) {
      SCOPED_TRACE(path + " cut at " + std::to_string(cut));
      db_.reset();
      CopyDirectory(dir_.Sub("whole"), path_);
      Truncate(path, cut);
      Repair();
      if (HasFatalFailure()) return;
      EntryList found;
      ASSERT_TRUE(Ok(ScanForward(db_.get(), {}, &found)));
      for (const auto& [key, value] : found) {
        // Deletions may be lost with the newer table.
        const bool known = expected_.contains(key) && expected_[key] == value;
        const int number = std::stoi(key.substr(3));
        ASSERT_TRUE(known || (path == tables_[1] && value == Value(number)))
            << key << " => " << value;
      }
    }
  }
}

TEST_F(DbRepairTest, AnIndexIsNotTakenForData) {
  // With one data block, the index continues in the order of its keys.
  for (const bool filter : {true, false}) {
    if (!filter) options_.filter_policy = nullptr;
    fs::remove_all(path_);
    expected_.clear();
    Open();
    PutKnown("a", "1");
    PutKnown("b", "2");
    Flush();
    Close();
    const std::string path = FilesEndingIn(path_, ".sst").at(0);
    FlipByte(path, fs::file_size(path) - 4);
    Repair();
    EXPECT_TRUE(HasEntries(db_.get(), ToList(expected_)));
    db_.reset();
  }
}

TEST_F(DbRepairTest, RecordsAfterADamagedOneAreKept) {
  options_.write_buffer_size = 8 << 20;  // One log.
  Open();
  // Small ones, and some over several blocks of the log.
  const auto value_of = [](int i) {
    return std::string(i % 50 == 49 ? 40000 : 100, static_cast<char>(i));
  };
  for (int i = 0; i < 1000; i++) PutKnown(Key(i), value_of(i));
  db_.reset();
  const std::string log = Log();
  const std::string whole = ReadWholeFile(log);
  CopyDirectory(path_, dir_.Sub("whole"));
  size_t least = expected_.size();
  for (const size_t part : {0, 3, 10, 11, 18}) {
    for (const size_t byte : {0, 4, 5, 6, 30}) {  // In the header and after it.
      db_.reset();
      CopyDirectory(dir_.Sub("whole"), path_);
      const size_t near = whole.find(Key(static_cast<int>(part) * 50 + 7));
      ASSERT_NE(near, std::string::npos);
      // Tag, length, header of the batch, header of the record.
      const size_t record = near - 2 - 12 - 7;
      SCOPED_TRACE("offset " + std::to_string(record + byte));
      FlipByte(log, record + byte);
      Repair();
      if (HasFatalFailure()) return;
      EntryList found;
      ASSERT_TRUE(Ok(ScanForward(db_.get(), {}, &found)));
      for (const auto& [key, value] : found)
        ASSERT_TRUE(expected_[key] == value);
      EXPECT_TRUE(Get(Key(999)) == expected_[Key(999)]) << "behind it";
      EXPECT_EQ(Get(Key(static_cast<int>(part) * 50 + 7)), "NotFound");
      least = std::min(least, found.size());
      // Where the length is whole, one record is lost; else those up to the
      // end of the block.
      if (byte == 0 || byte == 30) {
        EXPECT_EQ(found.size(), expected_.size() - 1);
      }
    }
  }
  EXPECT_GE(least, expected_.size() - 32768 / 100 - 2);
}

TEST_F(DbRepairTest, FilesThatTheManifestHasRemovedBringNothingBack) {
  MakeDatabase();
  const std::string old_table = ReadWholeFile(tables_[0]);
  const std::string old_log = ReadWholeFile(Log());
  const std::string log = Log();
  Open();
  // Key 5 loses its number on the way down, and would seem to be the oldest.
  PutKnown(Key(5), "newest");
  DeleteKnown(Key(6));
  CompactAll();
  Close();
  ASSERT_FALSE(fs::exists(tables_[0]));
  // As if the process had died before they were removed.
  WriteWholeFile(tables_[0], old_table);
  WriteWholeFile(log, old_log);
  Repair();
  EXPECT_EQ(Get(Key(5)), "newest");
  ExpectAll();
}

// The index, read as deletions of ranges, seems to begin with one.
TEST_F(DbRepairTest, IndexOfATableWithoutFooterDeletesNothing) {
  options_.block_size = 200;
  options_.compression = CompressionType::kNone;
  Open();
  for (int i = 0; i < 300; ++i) {
    // One byte on: a value's length, and a range deletion's type.
    PutKnown(
        "A\x01\x01\x01\x01\x01\x01\x01\x01\x0f" + std::to_string(100000 + i),
        std::string(150, 'v'));
  }
  Flush();
  Close();
  const std::string table = FilesEndingIn(path_, ".sst").at(0);
  fs::resize_file(table, fs::file_size(table) - 30);
  Repair();
  EXPECT_LE(db_->GetLatestSequenceNumber(), 300u);
  ExpectAll();
}

TEST_F(DbRepairTest, SecondRepairOverwritesNothing) {
  MakeDatabase();
  WriteWholeFile(tables_[0], "no table");
  WriteWholeFile(tables_[1], "no table either");
  fs::remove(Log());
  Repair();
  EXPECT_TRUE(HasEntries(db_.get(), {}));
  db_.reset();
  const auto lost = ReadDirectory(path_ + "/lost");
  // Nothing but lost/ tells which numbers there have been.
  for (const std::string& path : FilesStartingWith(path_, "MANIFEST-")) {
    fs::remove(path);
  }
  for (const std::string& path : FilesEndingIn(path_, ".log")) fs::remove(path);
  Repair();
  Put("a", "1");
  Flush();
  db_.reset();
  Repair();
  EXPECT_EQ(Get("a"), "1");
  for (const auto& [name, bytes] : lost) {
    EXPECT_TRUE(ReadWholeFile(path_ + "/lost/" + name) == bytes) << name;
  }
}

TEST_F(DbRepairTest, AnEarlierRepairsNamesInLostAreLeftAlone) {
  MakeDatabase();
  fs::create_directory(path_ + "/lost");
  const std::string name = fs::path(tables_[0]).filename();
  WriteWholeFile(path_ + "/lost/" + name, "from before");
  const std::string bytes = ReadWholeFile(tables_[0]);
  ASSERT_TRUE(Ok(RepairDB(path_, options_)));
  EXPECT_EQ(ReadWholeFile(path_ + "/lost/" + name), "from before");
  EXPECT_TRUE(ReadWholeFile(path_ + "/lost/" + name + ".1") == bytes);
}

TEST_F(DbRepairTest, RefusesFilesItMustNotTouch) {
  EXPECT_TRUE(RepairDB(path_, options_).IsInvalidArgument()) << "no directory";
  EXPECT_FALSE(fs::exists(path_));
  fs::create_directory(path_);
  WriteWholeFile(path_ + "/notes.txt", "mine");
  EXPECT_TRUE(RepairDB(path_, options_).IsInvalidArgument());
  EXPECT_EQ(ReadDirectory(path_).size(), 1u);
  fs::remove_all(path_);

  // Another order of keys would make all tables look damaged.
  const ReverseComparator reverse;
  for (const bool with_manifest : {true, false}) {
    MakeDatabase();
    if (!with_manifest) fs::remove(Manifest());
    const auto before = ReadDirectory(path_);
    Options other = options_;
    other.comparator = &reverse;
    const Status status = RepairDB(path_, other);
    EXPECT_TRUE(status.IsInvalidArgument() || status.IsNotSupported());
    EXPECT_TRUE(Contains(status.message(), "test.reverse"));
    EXPECT_TRUE(before == ReadDirectory(path_));
    fs::remove_all(path_);
  }
  MakeDatabase();
  WriteWholeFile(path_ + "/18446744073709551615.sst", "");
  EXPECT_TRUE(Ok(RepairDB(path_, options_)));
  EXPECT_TRUE(fs::exists(path_ + "/18446744073709551615.sst"));
}

// A compaction to the last level leaves entries without sequence numbers. Its
// inputs, which may have such entries as well, stay while a reader uses them.
TEST_F(DbRepairTest, OfEntriesWithoutSequenceNumbersTheLaterTablesCount) {
  CompactRangeOptions rewrite{.rewrite_bottommost_level = true};
  const auto put = [&](const std::string& value) {
    for (int i = 0; i < 50; ++i) PutKnown(Key(i), value + std::to_string(i));
    Flush();
    ASSERT_TRUE(Ok(db_->CompactRange(rewrite, nullptr, nullptr)));
  };
  const std::string copy = path_ + ".copy";
  // 0: the older table is whole; 1: it is damaged; 2: the newer one is.
  for (int damaged = 0; damaged < 3; ++damaged) {
    SCOPED_TRACE(damaged);
    fs::remove_all(path_);
    Open();
    put("old");
    auto reader = db_->NewIterator(ReadOptions());
    reader->SeekToFirst();
    put("new");
    fs::copy(path_, copy);
    reader.reset();
    Close();
    fs::remove_all(path_);
    fs::rename(copy, path_);
    fs::remove(Manifest());
    tables_ = FilesEndingIn(path_, ".sst");
    std::sort(tables_.begin(), tables_.end());
    ASSERT_GE(tables_.size(), 2u);
    if (damaged != 0) {
      // Nothing says where things are any more; all of them can be found.
      const std::string& table =
          damaged == 1 ? tables_.front() : tables_.back();
      std::string bytes = ReadWholeFile(table);
      bytes.resize(bytes.size() - 8);
      WriteWholeFile(table, bytes);
    }
    Repair();
    if (HasFatalFailure()) return;
    ExpectAll();
    db_.reset();
  }
}

TEST_F(DbRepairTest, TakesNumbersThatOpenTakes) {
  MakeDatabase();
  fs::remove(Manifest());
  options_.write_buffer_size = 1;
  options_.max_write_buffer_number = 1;
  Repair();
  if (HasFatalFailure()) return;
  ExpectAll();
}

// Tables of a future RocksDB, which a repair must not empty.
TEST_F(DbRepairTest, LeavesTablesOfLaterVersionsAsTheyAre) {
  MakeDatabase();
  for (const std::string& path : FilesEndingIn(path_, ".sst")) {
    std::string bytes = ReadWholeFile(path);
    std::string footer("\x04\x3e\x00\x7a\x00", 5);
    footer.resize(41);
    PutFixed32(&footer, 8);
    bytes.replace(bytes.size() - 53, footer.size(), footer);
    WriteWholeFile(path, bytes);
  }
  const auto before = ReadDirectory(path_);
  for (const bool without_manifest : {false, true}) {
    if (without_manifest) fs::remove(Manifest());
    EXPECT_TRUE(IsNotSupported(RepairDB(path_, options_), "format_version 8"));
  }
  for (const auto& [name, bytes] : before) {
    if (!name.ends_with(".sst")) continue;
    EXPECT_EQ(ReadWholeFile(path_ + "/" + name), bytes) << name;
  }
}

class DbRepairFixtureTest : public FixtureTest,
                            public ::testing::WithParamInterface<std::string> {
};

// An intact file with a feature that Varve lacks is not treated as damaged.
TEST_P(DbRepairFixtureTest, ForeignFeaturesAreLeftAsTheyAre) {
  CopyFixture(GetParam());
  const Status status = RepairDB(path_, options_);
  EXPECT_TRUE(status.IsNotSupported() || status.IsInvalidArgument())
      << status.ToString();
  ExpectUnchanged(false);
}

std::vector<std::string> RefusedFixtures() {
  auto names = FixtureNames("refuse-");
  std::erase(names, "refuse-column-family-sst");  // Its families are kept.
  return names;
}

INSTANTIATE_TEST_SUITE_P(All, DbRepairFixtureTest,
                         ::testing::ValuesIn(RefusedFixtures()),
                         FixtureTestName);

class DbRepairForeignTest : public FixtureTest,
                            public ::testing::WithParamInterface<const char*> {
};

// Without its footer, a table does not show which engine wrote it.
TEST_P(DbRepairForeignTest, TablesWithoutFootersAreReadToTheEnd) {
  const std::string fixture = GetParam();
  CopyFixture(fixture);
  // Format versions 6 and later have a number in their footer on which all
  // checksums depend. Without it, too, the blocks are found.
  const size_t cut = fixture == "rocksdb-fv6" ? 53 : 20;
  auto tables = FilesEndingIn(path_, ".sst");
  for (const auto& path : FilesEndingIn(path_, ".ldb")) tables.push_back(path);
  ASSERT_FALSE(tables.empty());
  for (const std::string& path : tables) {
    Truncate(path, fs::file_size(path) - cut);
  }
  fs::remove(path_ + "/CURRENT");
  WriteWholeFile(path_ + "/README", "mine");
  ASSERT_TRUE(Ok(RepairDB(path_, options_)));
  Open();
  EXPECT_TRUE(HasEntries(db_.get(), ReadExpected()));
  EXPECT_EQ(ReadWholeFile(path_ + "/README"), "mine");
}

INSTANTIATE_TEST_SUITE_P(
    All, DbRepairForeignTest,
    ::testing::Values("leveldb-default", "leveldb-nocompression",
                      "rocksdb-block-align", "rocksdb-bloom-xxhash",
                      "rocksdb-bloom-xxhash64", "rocksdb-bloom-crc32c",
                      "rocksdb-bloom-partitioned", "rocksdb-default-levels",
                      "rocksdb-fv6", "rocksdb-fv7", "rocksdb-fv7-default",
                      "rocksdb-index-first-key", "rocksdb-index-partitioned",
                      "rocksdb-rangedel-sst", "rocksdb-mixed-compression"));

// The output of a compaction that a kill has stopped holds the sum of operands
// that the named tables still have.
TEST_F(DbRepairTest, AppliesNoOperandTwice) {
  const auto number = [](uint64_t value) {
    return std::string(reinterpret_cast<const char*>(&value), sizeof(value));
  };
  options_.merge_operator = NewUInt64AddOperator();
  options_.level_compaction_dynamic_level_bytes = false;
  Open();
  // The base of one key is below the compaction, so operands stay operands.
  Put("a", number(1));
  Put("b", number(1));
  ASSERT_TRUE(Ok(db_->CompactRange({.target_level = 6}, nullptr, nullptr)));
  for (uint64_t i = 0; i < 4; ++i) {
    ASSERT_TRUE(Ok(db_->Merge({}, "a", number(10))));
    ASSERT_TRUE(Ok(db_->Merge({}, "b", number(100))));
    Flush();
  }
  Close();
  const std::string killed = dir_.Sub("killed");
  CopyDirectory(path_, killed);
  const std::vector<std::string> before = FilesEndingIn(path_, ".sst");
  options_.disable_auto_compactions = false;
  options_.level0_file_num_compaction_trigger = 2;
  Open();
  ASSERT_TRUE(Ok(db_->WaitForCompact()));
  EXPECT_EQ(TablesAt(1), 1u);
  Close();
  size_t outputs = 0;
  for (const std::string& table : FilesEndingIn(path_, ".sst")) {
    if (std::find(before.begin(), before.end(), table) != before.end()) {
      continue;
    }
    fs::copy(table, killed + "/" + fs::path(table).filename().string());
    ++outputs;
  }
  EXPECT_EQ(outputs, 1u);
  path_ = killed;
  ASSERT_TRUE(Ok(RepairDB(path_, options_)));
  Open();
  EXPECT_EQ(Get("a"), number(41));
  EXPECT_EQ(Get("b"), number(401));
}

}  // namespace
}  // namespace varve::test
