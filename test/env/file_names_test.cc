// Varve: a key-value storage engine. MIT licence, see LICENSE.

// Goal: names are made and parsed as the format says, and CURRENT is replaced
// safely and read strictly. Method: tables of names; CURRENT with each
// operation failed once, and with power cuts.

#include "env/file_names.h"

#include "test/testing/test_headers.h"
#include "varve/testing/fault_injection_env.h"

namespace varve {
namespace {

TEST(FileNamesTest, ParsesEveryKind) {
  const struct {
    const char* name;
    uint64_t number;
    FileKind type;
  } cases[] = {
      {"000007.log", 7, FileKind::kWal},
      {"1234567.log", 1234567, FileKind::kWal},
      {"1234567.sst", 1234567, FileKind::kTable},
      {"000007.ldb", 7, FileKind::kLevelDbTable},
      {"000007.blob", 7, FileKind::kBlob},
      {"000007.dbtmp", 7, FileKind::kTemp},
      {"000007.log.dbtmp", 7, FileKind::kTemp},
      {"18446744073709551615.sst", UINT64_MAX, FileKind::kTable},
      {"MANIFEST-000005", 5, FileKind::kManifest},
      {"MANIFEST-1732500000", 1732500000, FileKind::kManifest},
      {"OPTIONS-000009", 9, FileKind::kOptions},
      {"OPTIONS-000009.dbtmp", 9, FileKind::kTemp},
      {"CURRENT", 0, FileKind::kCurrent},
      {"LOCK", 0, FileKind::kLock},
      {"IDENTITY", 0, FileKind::kIdentity},
      {"LOG", 0, FileKind::kInfoLog},
      {"LOG.old", 0, FileKind::kInfoLog},
      {"LOG.old.1700000000123456", 1700000000123456, FileKind::kInfoLog},
  };
  for (const auto& c : cases) {
    uint64_t number = 99;
    FileKind type = FileKind::kOptions;
    EXPECT_TRUE(ParseFileName(c.name, &number, &type)) << c.name;
    EXPECT_EQ(number, c.number) << c.name;
    EXPECT_EQ(type, c.type) << c.name;
  }
}

TEST(FileNamesTest, RefusesForeignNames) {
  const char* names[] = {
      "",
      "7",
      "foo",
      "foo.sst",
      "7.",
      ".sst",
      "000007.sst2",
      "000007.ss",
      "000007sst",
      "-7.sst",
      "+7.sst",
      " 000007.sst",
      "000007.sst ",
      "0x7.sst",
      "7.7.sst",
      "MANIFEST",
      "MANIFEST-",
      "MANIFEST-x",
      "MANIFEST-000005x",
      "MANIFEST--5",
      "manifest-5",
      "MANIFEST-000005\n",
      "MANIFEST-000005.dbtmp",
      "CURRENT2",
      "current",
      "LOCKS",
      "LOG.old.",
      "LOG.old.x",
      "LOGS",
      "OPTIONS",
      "OPTIONS-",
      "OPTIONS-VARVE",
      "OPTIONS-000009.",
      "IDENTITY.",
      "VARVE",
      "000099.vlog",
      "18446744073709551616.log",
      "99999999999999999999.log",
      "MANIFEST-18446744073709551616",
      // The engine pads numbers to six digits.
      "7.log",
      "99.log",
      "00007.sst",
      "0000007.log",
      "01234567.log",
      "7.ldb",
      "7.blob",
      "7.dbtmp",
      "7.log.dbtmp",
      "000007.sst.dbtmp",
      "MANIFEST-5",
      "MANIFEST-0000005",
      "OPTIONS-9",
      "OPTIONS-9.dbtmp",
      "LOG.old.007",
  };
  for (const char* name : names) {
    uint64_t number = 99;
    FileKind type = FileKind::kBlob;
    EXPECT_FALSE(ParseFileName(name, &number, &type)) << name;
    EXPECT_EQ(number, 99u) << name;
    EXPECT_EQ(type, FileKind::kBlob) << name;
  }
  uint64_t number = 0;
  FileKind type = FileKind::kBlob;
  EXPECT_FALSE(ParseFileName(std::string("000007.sst\0", 11), &number, &type));
}

TEST(FileNamesTest, MakesNamesThatParseBack) {
  EXPECT_EQ(WalFileName("d", 7), "d/000007.log");
  EXPECT_EQ(TableFileName("d", 1234567), "d/1234567.sst");
  EXPECT_EQ(LevelDbTableFileName("d", 7), "d/000007.ldb");
  EXPECT_EQ(ManifestFileName("d", 7), "d/MANIFEST-000007");
  EXPECT_EQ(OptionsFileName("d", 7), "d/OPTIONS-000007");
  EXPECT_EQ(TempFileName("d", 7), "d/000007.dbtmp");
  EXPECT_EQ(CurrentFileName("d"), "d/CURRENT");
  EXPECT_EQ(LockFileName("d"), "d/LOCK");
  EXPECT_EQ(IdentityFileName("d"), "d/IDENTITY");
  EXPECT_EQ(InfoLogFileName("d"), "d/LOG");
  EXPECT_EQ(OldInfoLogFileName("d", 12), "d/LOG.old.12");
  for (const uint64_t number : {uint64_t{0}, uint64_t{999999}, UINT64_MAX}) {
    uint64_t parsed = 1;
    FileKind type = FileKind::kBlob;
    ASSERT_TRUE(
        ParseFileName(TableFileName("", number).substr(1), &parsed, &type));
    EXPECT_EQ(parsed, number);
    EXPECT_EQ(type, FileKind::kTable);
  }
}

TEST(FileNamesTest, SortsOldInfoLogsByDateAndWrongDatesFirst) {
  std::vector<std::string> names = {"LOG.old.1000", "LOG.old.999",
                                    "LOG.old.5000", "LOG.old", "LOG.old.1001"};
  SortOldInfoLogs(1001, &names);
  EXPECT_EQ(names,
            std::vector<std::string>({"LOG.old.5000", "LOG.old", "LOG.old.999",
                                      "LOG.old.1000", "LOG.old.1001"}));
}

TEST(FileNamesTest, ParentDirectoryOfAnyPath) {
  const std::pair<const char*, const char*> cases[] = {
      {"/a/b", "/a"}, {"/a/b//", "/a"}, {"/a//b", "/a"}, {"/a", "/"},
      {"a/b", "a"},   {"a", "."},       {"a/", "."},     {"./a", "."},
      {"/", "/"},     {"//", "/"},      {"", "."},
  };
  for (const auto& [path, parent] : cases) {
    EXPECT_EQ(ParentDirectory(path), parent) << path;
  }
}

class CurrentFileTest : public testing::Test {
 protected:
  CurrentFileTest()
      : memory_(NewMemoryEnv(Env::Default())), env_(memory_.get()) {
    EXPECT_TRUE(env_.CreateDirIfMissing("/db").ok());
    EXPECT_TRUE(env_.NewDirectory("/db", &directory_).ok());
    EXPECT_TRUE(directory_->Sync().ok());
  }

  Status Set(uint64_t number) {
    return SetCurrentFile(&env_, "/db", directory_.get(), number);
  }
  std::string Read() {
    std::string name;
    const Status status = ReadCurrentFile(&env_, "/db", &name);
    return status.ok() ? name : status.ToString();
  }

  std::unique_ptr<Env> memory_;
  FaultInjectionEnv env_;
  std::unique_ptr<Directory> directory_;
};

TEST_F(CurrentFileTest, ReadsTheNameThatWasSet) {
  std::string name = "untouched";
  EXPECT_TRUE(ReadCurrentFile(&env_, "/db", &name).IsNotFound());
  EXPECT_EQ(name, "untouched");
  ASSERT_TRUE(Set(5).ok());
  EXPECT_EQ(Read(), "MANIFEST-000005");
  std::string bytes;
  ASSERT_TRUE(ReadFileToString(&env_, "/db/CURRENT", &bytes).ok());
  EXPECT_EQ(bytes, "MANIFEST-000005\n");
  ASSERT_TRUE(Set(UINT64_MAX).ok());
  EXPECT_EQ(Read(), "MANIFEST-18446744073709551615");
  EXPECT_TRUE(env_.FileExists("/db/000005.dbtmp").IsNotFound());
}

TEST_F(CurrentFileTest, RefusesDamagedContents) {
  std::string zeros(100001, '0');
  zeros.back() = '\n';
  const std::string cases[] = {
      "",
      "\n",
      "MANIFEST-000005",
      "MANIFEST-000005\n\n",
      "MANIFEST-000005\r\n",
      "MANIFEST-\n",
      "MANIFEST-5x\n",
      "../MANIFEST-000005\n",
      "/db/MANIFEST-000005\n",
      "MANIFEST-000005/\n",
      "000005.log\n",
      "CURRENT\n",
      "MANIFEST-000005\nMANIFEST-000006\n",
      "MANIFEST-18446744073709551616\n",
      std::string("MANIFEST-5\0\n", 12),
      "MANIFEST-" + std::string(54, '0') + "\nmore",
      zeros,
      std::string(16, '\0'),
  };
  for (const std::string& contents : cases) {
    ASSERT_TRUE(WriteStringToFile(&env_, contents, "/db/CURRENT", false).ok());
    std::string name = "untouched";
    const Status status = ReadCurrentFile(&env_, "/db", &name);
    EXPECT_TRUE(status.IsCorruption()) << contents;
    EXPECT_NE(status.ToString().find("/db/CURRENT"), std::string::npos);
    EXPECT_EQ(name, "untouched");
  }
}

TEST_F(CurrentFileTest, NamesTheOldOrTheNewOneWhateverFails) {
  ASSERT_TRUE(Set(1).ok());
  bool failed = true;
  uint64_t i = 0;
  for (; failed; ++i) {
    ASSERT_LT(i, 20u);
    env_.FailAfter(i, FaultInjectionEnv::InjectedError(), kAllOperations);
    const Status status = Set(2);
    failed = !status.ok();
    env_.ClearFailure();
    const std::string now = Read();
    EXPECT_TRUE(now == "MANIFEST-000001" || now == "MANIFEST-000002") << now;
    if (!failed) {
      EXPECT_EQ(now, "MANIFEST-000002");
    }
    ASSERT_TRUE(Set(1).ok());
  }
  // Create, append, sync, close, rename, sync of the directory.
  EXPECT_EQ(i, 7u);
}

TEST_F(CurrentFileTest, SurvivesAnyCrashOnceSet) {
  ASSERT_TRUE(Set(1).ok());
  for (uint64_t seed = 0; seed < 100; ++seed) {
    SCOPED_TRACE(seed);
    // Cut during the change: one of the two. Cut after it: the new one.
    env_.FailAfter(seed % 7, FaultInjectionEnv::InjectedError(), kAllOperations,
                   {.once = false});
    const Status status = Set(seed + 2);
    const std::string before = ManifestFileName("", seed + 1).substr(1);
    const std::string after = ManifestFileName("", seed + 2).substr(1);
    directory_.reset();
    ASSERT_TRUE(env_.CrashAndReset({.seed = seed}).ok());
    const std::string now = Read();
    EXPECT_TRUE(now == after || (now == before && !status.ok())) << now;
    ASSERT_TRUE(env_.NewDirectory("/db", &directory_).ok());
    ASSERT_TRUE(Set(seed + 2).ok());
  }
}

}  // namespace
}  // namespace varve
