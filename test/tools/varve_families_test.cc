// Varve: a key-value storage engine. MIT licence, see LICENSE.
// Goal: the commands of `varve` work on each column family, and on databases of
// any families as on databases of one. Method: run them on databases made here,
// on fixtures of RocksDB, and with changed MANIFESTs; let RocksDB's ldb read
// the result.

#include "db/version/version_edit.h"
#include "test/testing/comparators.h"
#include "test/testing/db/manifest_edits.h"
#include "test/testing/fixtures.h"
#include "test/testing/fixtures_dir.h"
#include "test/testing/test_headers.h"
#include "test/testing/tools.h"
#include "test/testing/varve_command.h"

namespace varve {
namespace {

using test::RunCommand;
using testing::HasSubstr;
using testing::Not;
using Outcome = test::CommandOutcome;

class VarveFamiliesTest : public test::VarveCommandTest {
 protected:
  // Two entries in each of three families: a table and a log.
  void MakeThree() {
    Succeed({"families", "create", "first", "--create_if_missing"});
    Succeed({"families", "create", "second"});
    for (const std::string family : {"default", "first", "second"}) {
      Succeed({"put", "--family=" + family, "a", "of " + family});
      Succeed({"compact", "--family", family});
      Succeed({"put", "--family=" + family, "b", "log of " + family});
    }
  }

  std::string Manifest() {
    return test::FilesStartingWith(Db(), "MANIFEST-").at(0);
  }

  // Writes the MANIFEST anew, with the edits that `change` returns true for.
  void ChangeManifest(const std::function<bool(VersionEdit*)>& change) {
    Env* const env = Env::Default();
    const std::string path = Manifest();
    std::vector<VersionEdit> edits;
    ASSERT_NO_FATAL_FAILURE(test::ReadEdits(env, path, &edits));
    std::vector<VersionEdit> kept;
    for (VersionEdit& edit : edits) {
      if (change(&edit)) kept.push_back(std::move(edit));
    }
    test::WriteEdits(env, path, kept);
  }
};

TEST_F(VarveFamiliesTest, ListsCreatesAndDrops) {
  EXPECT_EQ(Succeed({"families", "create", "one", "--create_if_missing"}),
            "OK\n");
  EXPECT_EQ(Succeed({"families", "create", "two words"}), "OK\n");
  EXPECT_EQ(Succeed({"families"}),
            "0 default: leveldb.BytewiseComparator, 0 tables, 0 bytes\n"
            "1 one: leveldb.BytewiseComparator, 0 tables, 0 bytes\n"
            "2 two words: leveldb.BytewiseComparator, 0 tables, 0 bytes\n");
  EXPECT_EQ(Succeed({"families", "drop", "one"}), "OK\n");
  Succeed({"put", "--family=two words", "a", "1"});
  Succeed({"compact", "--family=two words"});
  const std::string json = Succeed({"families", "list", "--json"});
  EXPECT_THAT(json, HasSubstr("{\"id\":2,\"name\":\"two words\",\"comparator\":"
                              "\"leveldb.BytewiseComparator\",\"tables\":1,"));
  EXPECT_THAT(json, Not(HasSubstr("\"one\"")));
  // No id is given out twice.
  Succeed({"families", "create", "one"});
  EXPECT_THAT(Succeed({"families"}), HasSubstr("\n3 one: "));

  EXPECT_EQ(RunHere({"families", "drop", "none"}).exit_code, kExitFailure);
  EXPECT_EQ(RunHere({"families", "drop", "default"}).exit_code, kExitFailure);
  EXPECT_EQ(RunHere({"families", "create", "one"}).exit_code, kExitFailure);
  EXPECT_EQ(RunHere({"families", "create"}).exit_code, kExitUsage);
  EXPECT_EQ(RunHere({"families", "create", ""}).exit_code, kExitUsage);
  EXPECT_EQ(RunHere({"families", "rename", "one"}).exit_code, kExitUsage);
}

TEST_F(VarveFamiliesTest, CommandsOnEntriesTakeAFamily) {
  MakeThree();
  EXPECT_EQ(Succeed({"get", "a"}), "of default\n");
  EXPECT_EQ(Succeed({"get", "--family=first", "a"}), "of first\n");
  EXPECT_EQ(Succeed({"scan", "--family", "second"}),
            "a : of second\nb : log of second\n");
  Succeed({"delete", "--family=first", "a"});
  EXPECT_EQ(RunHere({"get", "--family=first", "a"}).exit_code, kExitAbsent);
  EXPECT_EQ(Succeed({"get", "a"}), "of default\n");
  Succeed({"delete-range", "--family=second", "a", "c"});
  EXPECT_EQ(Succeed({"count", "--family=second"}), "0\n");
  EXPECT_EQ(Succeed({"count", "--family=first"}), "1\n");
  EXPECT_EQ(Succeed({"count"}), "2\n");
  Succeed({"batchput", "--family=second", "x", "1", "y", "2"});
  Succeed({"batchput", "--family=second"}, "z\t3\n");
  EXPECT_EQ(Succeed({"scan", "--family=second", "--prefix=z"}), "z : 3\n");
  const std::string dump = directory_.Sub("dump");
  Succeed({"export-to", "--family=second", dump});
  EXPECT_EQ(Succeed({"ingest-from", "--family=first", dump}),
            "OK, 3 entries\n");
  EXPECT_EQ(Succeed({"count", "--family=first"}), "4\n");
  EXPECT_EQ(Succeed({"stats", "--family=first",
                     "--property=varve.num-entries-active-mem-table"})
                .empty(),
            false);
  // It is made on request only.
  EXPECT_TRUE(Ended(RunHere({"put", "--family=third", "a", "1"}), kExitFailure,
                    {}, {"no column family third"}));
  EXPECT_EQ(RunHere({"scan", "--family=third"}).exit_code, kExitFailure);
  EXPECT_EQ(RunHere({"levels", "--family=third"}).exit_code, kExitFailure);
  Succeed({"put", "--create_if_missing", "--family=third", "a", "1"});
  EXPECT_EQ(Succeed({"get", "--family=third", "a"}), "1\n");
  EXPECT_THAT(Succeed({"check"}), HasSubstr("no damage"));
}

TEST_F(VarveFamiliesTest, DumpsShowIdsAndNames) {
  MakeThree();
  std::string logs;
  for (const auto& path : test::FilesEndingIn(Db(), ".log")) {
    logs += RunCommand({"dump-wal", path}).out;
  }
  EXPECT_THAT(logs, HasSubstr("family 2 second: put 'b' = 'log of second'"));
  const std::string levels = Succeed({"levels"});
  EXPECT_THAT(levels, HasSubstr("column family 0 default\nlevel 0"));
  EXPECT_THAT(levels, HasSubstr("column family 2 second\nlevel 0"));
  EXPECT_EQ(levels.find("column family"), 0u);
  const std::string only = Succeed({"levels", "--family=first"});
  EXPECT_THAT(only, HasSubstr("column family 1 first\n"));
  EXPECT_THAT(only, Not(HasSubstr("second")));
  Succeed({"families", "drop", "second"});
  const std::string manifest = Succeed({"dump-manifest"});
  EXPECT_THAT(manifest, HasSubstr("  column family: 2 second\n"));
  EXPECT_THAT(manifest, HasSubstr("  drop column family\n"));
  const std::string end = manifest.substr(manifest.find("in the end"));
  EXPECT_THAT(end, HasSubstr("column family 1 first\n"));
  EXPECT_THAT(end, Not(HasSubstr("second")));
  std::string tables;
  for (const auto& path : test::FilesEndingIn(Db(), ".sst")) {
    tables += RunCommand({"dump-sst", path}).out;
  }
  EXPECT_THAT(tables, HasSubstr("column family id: 1\n"));
  EXPECT_THAT(tables, HasSubstr("column family name: first\n"));
}

TEST_F(VarveFamiliesTest, ReadsWhatRocksDbWrote) {
  for (const std::string name :
       {"cf-three", "cf-thirty", "cf-dropped-and-new"}) {
    UseFixture(name);
    EXPECT_THAT(Succeed({"check"}), HasSubstr("no damage")) << name;
    std::map<std::string, std::string> expected;
    std::istringstream lines(test::ReadWholeFile(test::FixturesDir() + "/" +
                                                 name + "/expected.txt"));
    for (std::string line; std::getline(lines, line);) {
      const size_t first = line.find('\t');
      const size_t second = line.find('\t', first + 1);
      std::string upper = "0x" + line.substr(first + 1, second - first - 1) +
                          " : 0x" + line.substr(second + 1) + "\n";
      for (char& c : upper) c = c == 'x' ? c : static_cast<char>(toupper(c));
      expected[line.substr(0, first)] += upper;
    }
    for (const bool repaired : {false, true}) {
      for (const auto& [family, text] : expected) {
        EXPECT_TRUE(test::SameText(
            text, Succeed({"scan", "--hex", "--family=" + family})))
            << name << " " << family;
      }
      const std::string copy =
          directory_.Sub(name + (repaired ? "-repaired" : "-copy"));
      Succeed({"checkpoint", copy});
      EXPECT_THAT(RunCommand({"check", "--db=" + copy}).out,
                  HasSubstr("no damage"));
      EXPECT_EQ(RunCommand({"families", "--db=" + copy}).out.substr(0, 9),
                "0 default");
      if (!repaired) Succeed({"repair"});
    }
    std::filesystem::remove_all(Db());
  }
  // The order of a family is another than its prefixes have.
  UseFixture("cf-three");
  EXPECT_EQ(RunHere({"scan", "--family=reverse", "--prefix=a"}).exit_code,
            kExitFailure);
  EXPECT_EQ(RunHere({"delete-range", "--family=reverse", "a", "b"}).exit_code,
            kExitUsage);
  Succeed({"delete-range", "--family=reverse", "\x7f", ""});
}

// Families that can be read are read, and the rest is refused by name.
TEST_F(VarveFamiliesTest, NamesFamiliesWithUnknownComparators) {
  static const test::ReverseComparator kOdd;
  {
    DBOptions options;
    options.create_if_missing = true;
    options.create_missing_column_families = true;
    std::vector<ColumnFamilyDescriptor> families(2);
    families[1].name = "odd";
    families[1].options.comparator = &kOdd;
    std::vector<ColumnFamilyHandle*> handles;
    std::unique_ptr<DB> db;
    ASSERT_TRUE(DB::Open(options, Db(), families, &handles, &db).ok());
    for (ColumnFamilyHandle* const handle : handles) {
      ASSERT_TRUE(db->Put(WriteOptions(), handle, "a", "1").ok());
      ASSERT_TRUE(db->Put(WriteOptions(), handle, "b", "2").ok());
      ASSERT_TRUE(db->Flush(FlushOptions(), handle).ok());
      delete handle;
    }
  }
  EXPECT_EQ(Succeed({"count"}), "2\n");
  EXPECT_THAT(Succeed({"families"}),
              HasSubstr(std::string("1 odd: ") + kOdd.Name() + ", 1 tables"));
  const std::vector<std::vector<std::string>> refused = {
      {"scan", "--family=odd"},
      {"put", "c", "3"},
      {"compact"},
      {"families", "drop", "odd"},
      {"repair"},
      {"checkpoint", directory_.Sub("copy")}};
  for (const std::vector<std::string>& command : refused) {
    EXPECT_TRUE(Ended(RunHere(command), kExitFailure, {}, {"odd", kOdd.Name()}))
        << command[0];
  }
  const Outcome check = RunHere({"check"});
  EXPECT_EQ(check.exit_code, kExitFailure);
  EXPECT_THAT(check.out, HasSubstr("refused: MANIFEST-"));
  EXPECT_THAT(check.out, Not(HasSubstr("no part of the database")));
  EXPECT_THAT(Succeed({"levels"}), HasSubstr("not shown: its comparator"));
  EXPECT_THAT(Succeed({"dump-manifest"}), HasSubstr("not shown"));
}

// Of the first one, only its number remains.
TEST_F(VarveFamiliesTest, ANameUsedAgainWithAnotherOrderIsOneFamily) {
  Succeed({"put", "--create_if_missing", "a", "1"});
  {
    Options options;
    std::unique_ptr<DB> db;
    ASSERT_TRUE(DB::Open(options, Db(), &db).ok());
    for (const Comparator* const comparator :
         {BytewiseComparator(), ReverseBytewiseComparator()}) {
      options.comparator = comparator;
      ColumnFamilyHandle* handle = nullptr;
      ASSERT_TRUE(db->CreateColumnFamily(options, "again", &handle).ok());
      ASSERT_TRUE(db->Put(WriteOptions(), handle, "a", "1").ok());
      ASSERT_TRUE(db->Put(WriteOptions(), handle, "b", "2").ok());
      ASSERT_TRUE(db->Flush(FlushOptions(), handle).ok());
      if (comparator == BytewiseComparator()) {
        ASSERT_TRUE(db->DropColumnFamily(handle).ok());
      }
      delete handle;
    }
  }
  const std::string reverse = "rocksdb.ReverseBytewiseComparator";
  EXPECT_THAT(Succeed({"families"}),
              HasSubstr("2 again: " + reverse + ", 1 tables"));
  const std::string dump = Succeed({"dump-manifest"});
  EXPECT_THAT(dump, HasSubstr("column family: 1 again"));
  EXPECT_THAT(dump, HasSubstr("column family 2 again\n"));
  EXPECT_THAT(Succeed({"levels"}), HasSubstr("column family 2 again\n"));
  EXPECT_THAT(Succeed({"check"}), HasSubstr("no damage"));
  const std::string entries = "b : 2\na : 1\n";
  EXPECT_EQ(Succeed({"scan", "--family=again"}), entries);
  const std::string copy = directory_.Sub("copy");
  Succeed({"checkpoint", copy});
  Succeed({"compact", "--family=again"});
  EXPECT_EQ(Succeed({"scan", "--family=again"}), entries);
  for (const char* const command : {"check", "repair", "check"}) {
    EXPECT_EQ(RunCommand({command, "--db=" + copy}).exit_code, kExitOk)
        << command;
  }
  EXPECT_EQ(RunCommand({"scan", "--db=" + copy, "--family=again"}).out,
            entries);
}

TEST_F(VarveFamiliesTest, ATableOfAnotherFamilyIsDamage) {
  MakeThree();
  EXPECT_THAT(Succeed({"check"}), HasSubstr("no damage"));
  ChangeManifest([](VersionEdit* edit) {
    if (edit->adds_column_family()) {
      edit->AddColumnFamily(edit->column_family_name() == "first" ? "second"
                                                                  : "first");
    }
    return true;
  });
  EXPECT_TRUE(Ended(RunHere({"check"}), kExitDamage,
                    {"of column family 1 first by its properties, of 1 "
                     "second by the MANIFEST"}));
}

TEST_F(VarveFamiliesTest, ARecordOfAFamilyThatNeverWasIsDamage) {
  Succeed({"families", "create", "first", "--create_if_missing"});
  Succeed({"put", "--family=first", "a", "1"});
  EXPECT_THAT(Succeed({"check"}), HasSubstr("no damage"));
  ChangeManifest([](VersionEdit* edit) {
    if (edit->max_column_family()) edit->SetMaxColumnFamily(0);
    // Its edits are no groups then.
    if (edit->atomic_group_remaining()) edit->SetAtomicGroupRemaining(0);
    return edit->column_family() == 0;
  });
  EXPECT_TRUE(Ended(RunHere({"check"}), kExitDamage,
                    {"column family 1, which never existed"}));
}

// Each copy is a state of all families at one moment.
TEST_F(VarveFamiliesTest, ChecksAndCopiesAllFamiliesBesideAWriter) {
  DBOptions options;
  options.create_if_missing = true;
  options.create_missing_column_families = true;
  std::vector<ColumnFamilyDescriptor> families(3);
  for (size_t i = 0; i < families.size(); ++i) {
    if (i > 0) families[i].name = "f" + std::to_string(i);
    families[i].options.write_buffer_size = 64 << 10;
  }
  std::vector<ColumnFamilyHandle*> handles;
  std::unique_ptr<DB> db;
  ASSERT_TRUE(DB::Open(options, Db(), families, &handles, &db).ok());
  std::atomic<bool> stop = false;
  std::atomic<uint64_t> written = 0;
  std::thread writer([&] {
    while (!stop.load()) {
      WriteBatch batch;
      const uint64_t i = written.load();
      for (size_t f = 0; f < handles.size(); ++f) {
        batch.Put(handles[f], std::to_string(100000000 + i),
                  std::string(100 * (f + 1), 'v'));
      }
      ASSERT_TRUE(db->Write(WriteOptions(), &batch).ok());
      // A slow reader of ever more data would never end.
      if (++written > 10000) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
    }
  });
  int copies = 0;
  for (int i = 0; i < 10; ++i) {
    const uint64_t before = written.load();
    const std::string copy = directory_.Sub("copy" + std::to_string(i));
    const Outcome outcome = RunHere({"checkpoint", copy});
    if (outcome.exit_code != kExitOk) continue;  // The writer may be too fast.
    EXPECT_EQ(RunCommand({"check", "--db=" + copy}).exit_code, kExitOk);
    std::string first;
    for (const char* family : {"default", "f1", "f2"}) {
      const std::string count =
          RunCommand({"count", "--db=" + copy, "--family", family}).out;
      if (first.empty()) first = count;
      EXPECT_EQ(count, first) << family;
    }
    EXPECT_GE(std::stoull(first), before);
    ++copies;
  }
  const Outcome check = RunHere({"check"});
  EXPECT_NE(check.exit_code, kExitDamage) << check.out;
  stop.store(true);
  writer.join();
  EXPECT_GE(copies, 2);
  for (ColumnFamilyHandle* const handle : handles) delete handle;
  ASSERT_TRUE(db->Close().ok());
}

TEST_F(VarveFamiliesTest, LdbReadsWhatARepairWrote) {
  MakeThree();
  Succeed({"families", "create", "only in the log"});
  Succeed({"put", "--family=only in the log", "k", "v"});
  EXPECT_EQ(RunHere({"repair"}).exit_code, kExitOk);
  EXPECT_THAT(test::Ldb(Db(), {"list_column_families"}),
              HasSubstr("{default, first, second, only in the log}"));
  for (const std::string family : {"default", "first", "second"}) {
    const std::string expected = Succeed({"scan", "--hex", "--family", family});
    EXPECT_EQ(test::Ldb(Db(), {"scan", "--column_family=" + family}), expected)
        << family;
  }
  // ldb continues the repaired database, and Varve reads that.
  test::Ldb(Db(), {"put", "0x63", "0x31", "--column_family=first"});
  EXPECT_EQ(Succeed({"get", "--family=first", "c"}), "1\n");
  for (const auto& path : test::FilesStartingWith(Db(), "MANIFEST-")) {
    std::filesystem::remove(path);
  }
  const std::string out = Succeed({"repair"});
  EXPECT_THAT(out, HasSubstr("OK, "));
  EXPECT_EQ(Succeed({"get", "--family=first", "c"}), "1\n");
  EXPECT_THAT(test::Ldb(Db(), {"list_column_families"}), HasSubstr("second"));
}

// A family that only a log shows is named after its id, and a note says so.
TEST_F(VarveFamiliesTest, RepairNotesNamesThatItMakesUp) {
  Succeed({"families", "create", "first", "--create_if_missing"});
  {
    std::vector<ColumnFamilyDescriptor> families(2);
    families[1].name = "first";
    std::vector<ColumnFamilyHandle*> handles;
    std::unique_ptr<DB> db;
    ASSERT_TRUE(DB::Open(DBOptions(), Db(), families, &handles, &db).ok());
    ASSERT_TRUE(db->Put(WriteOptions(), handles[1], "a", "1").ok());
    for (ColumnFamilyHandle* const handle : handles) delete handle;
  }
  std::filesystem::remove(Manifest());
  EXPECT_THAT(Succeed({"repair"}),
              HasSubstr("note: the name of column family 1 is lost: it is named"
                        " family-1\n"));
  EXPECT_EQ(Succeed({"get", "--family=family-1", "a"}), "1\n");
}

}  // namespace
}  // namespace varve
