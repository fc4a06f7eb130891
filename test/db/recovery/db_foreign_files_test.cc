// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: another program's files in a database's directory break nothing and
// stay as they are, whatever is done to the database. The database's own log is
// never treated as foreign. Method: the test puts such files there, with valid
// and other names, and calls every operation; it damages logs in each byte.

#include <sys/stat.h>

#include "db/recovery/foreign_files.h"
#include "test/testing/db_helpers.h"
#include "test/testing/directory.h"
#include "test/testing/test_headers.h"
#include "varve/checkpoint.h"

namespace varve::test {
namespace {

using Files = std::map<std::string, std::string>;

const Files& ForeignFiles() {
  static const Files files = {
      // Names that the engine would not create.
      {"99.log", "notes\n"},
      {"7.log", ""},
      {"MANIFEST-5", "notes\n"},
      {"MANIFEST-0000005", ""},
      {"7.dbtmp", "notes\n"},
      {"12.sst", "notes\n"},
      {"3.ldb", ""},
      {"4.blob", "notes\n"},
      {"0000012.sst", ""},
      {"OPTIONS-3", "notes\n"},
      {"LOG.old.007", "notes\n"},
      {"notes.log", "notes\n"},
      {"CURRENT.bak", "MANIFEST-000001\n"},
      // Valid names, but with a number that it never assigned.
      {"1732500000.log", ""},
      {"1732500001.log", "2024-11-25 started\n"},
      {"1732500002.log", std::string(100, '\0')},
      {"1732500003.log", std::string("\1\2\3\4\5\6\1\7", 8)},
      {"1732500004.sst", ""},
      {"1732500005.sst", std::string(100, '\1')},
      {"1732500006.dbtmp", ""},
      {"MANIFEST-1732500007", ""},
      {"9999999999999999999.log", ""},
      // Valid names and numbers.
      {"000099.log", "notes\n"},
      {"000098.log", "a line\n\nand another one, that is longer\n"},
      {"000093.log", "\xE6\x97\xA5\xE6\x9C\xAC\xE8\xAA\x9E, in three\n"},
      {"000097.log", "time\tevent\n1\tbegin\n"},
      {"000001.log", "notes, older than all logs\n"},
      {"000096.sst", "notes\n"},
      {"000001.ldb", "notes\n"},
      {"000095.dbtmp", "notes\n"},
      {"MANIFEST-000001", "notes\n"},
      {"MANIFEST-000094", "notes on the other one\n"},
  };
  return files;
}

class DbForeignFilesTest : public DbTestBase {
 protected:
  void PutThere() {
    for (const auto& [name, bytes] : ForeignFiles()) {
      WriteWholeFile(path_ + "/" + name, bytes);
    }
  }
  void ExpectThere() {
    for (const auto& [name, bytes] : ForeignFiles()) {
      const std::string path = path_ + "/" + name;
      ASSERT_TRUE(std::filesystem::exists(path)) << name;
      EXPECT_EQ(ReadWholeFile(path), bytes) << name;
    }
  }
  std::string LargestNumber() const {
    return FilesEndingIn(path_, ".log").back();
  }
};

TEST_F(DbForeignFilesTest, StayThroughALife) {
  for (const auto mode :
       {WalRecoveryMode::kPointInTime, WalRecoveryMode::kAbsoluteConsistency}) {
    options_.wal_recovery_mode = mode;
    OpenAnew();
    Do("put a 1, flush, put b 2");
    Close();
    PutThere();
    Open();
    EXPECT_TRUE(HasEntries(db_.get(), {{"a", "1"}, {"b", "2"}}));
    ExpectThere();
    for (int i = 0; i < 200; ++i) {
      Put("c", std::to_string(i));
      Flush();
    }
    CompactAll();
    ExpectThere();
    const std::string checkpoint = dir_.Sub("checkpoint");
    std::filesystem::remove_all(checkpoint);
    ASSERT_TRUE(Ok(db_->CreateCheckpoint(checkpoint)));
    EXPECT_FALSE(std::filesystem::exists(checkpoint + "/000099.log"));
    Reopen();
    Reopen();
    const EntryList entries = {{"a", "1"}, {"b", "2"}, {"c", "199"}};
    EXPECT_TRUE(HasEntries(db_.get(), entries));
    ExpectThere();
    Close();
    ASSERT_TRUE(Ok(DB::OpenForReadOnly(options_, path_, &db_)));
    EXPECT_TRUE(HasEntries(db_.get(), entries));
    Close();
    ASSERT_TRUE(Ok(RepairDB(path_, options_)));
    ExpectThere();
    Open();
    EXPECT_TRUE(HasEntries(db_.get(), entries));
    ExpectThere();
    // Their numbers do not count, as far as they cannot come.
    for (const auto& [name, bytes] : ReadDirectory(path_)) {
      if (ForeignFiles().contains(name) || name.starts_with("LOG")) continue;
      EXPECT_LT(name.size(), std::string("1732500000.log").size() + 2) << name;
    }
    Close();
    ASSERT_TRUE(Ok(DestroyDB(path_, options_)));
    ExpectThere();
    std::filesystem::remove_all(path_ + "/lost");
    EXPECT_EQ(ReadDirectory(path_).size(), ForeignFiles().size());
  }
}

// Directories, pipes, sockets, devices where root runs the test, and links that
// lead to no file, by names of the engine's.
class DbForeignKindsTest : public DbForeignFilesTest {
 protected:
  static constexpr const char* kNames[] = {
      "000095.log",     "000001.log",       "1732500000.log",
      "000094.sst",     "000093.ldb",       "000092.blob",
      "000091.dbtmp",   "000090.log.dbtmp", "MANIFEST-000777",
      "OPTIONS-000078", "LOG.old.123",      "LOG.old.1732500000000000"};
  static constexpr int kKinds = 7;

  static void Make(int kind, const std::string& path) {
    switch (kind) {
      case 0:
        ASSERT_TRUE(std::filesystem::create_directory(path));
        WriteWholeFile(path + "/notes", "notes\n");
        break;
      case 1:
        ASSERT_EQ(mkfifo(path.c_str(), 0644), 0);
        break;
      case 2:
        ASSERT_EQ(mknod(path.c_str(), S_IFSOCK | 0644, 0), 0);
        break;
      case 3:
        std::filesystem::create_symlink("nowhere/at/all", path);
        break;
      case 4:
        std::filesystem::create_symlink(path, path);  // To itself.
        break;
      case 5:
        std::filesystem::create_symlink("/", path);
        break;
      default:
        std::filesystem::create_symlink("/dev/zero", path);
        break;
    }
  }
  void MakeAll(int kind) {
    for (const char* const name : kNames) Make(kind, path_ + "/" + name);
  }
  void ExpectAll(int kind) {
    for (const char* const name : kNames) {
      struct stat info;
      ASSERT_EQ(lstat((path_ + "/" + name).c_str(), &info), 0)
          << name << " of kind " << kind;
      EXPECT_FALSE(S_ISREG(info.st_mode));
    }
    if (kind == 0) {
      EXPECT_EQ(ReadWholeFile(path_ + "/000095.log/notes"), "notes\n");
    }
  }
};

TEST_F(DbForeignKindsTest, StayThroughALife) {
  for (int kind = 0; kind < kKinds; ++kind) {
    SCOPED_TRACE("kind " + std::to_string(kind));
    OpenAnew();
    Do("put a 1, flush, put b 2");
    Close();
    MakeAll(kind);
    EntryList entries = {{"a", "1"}, {"b", "2"}};
    ASSERT_TRUE(Ok(DB::OpenForReadOnly(options_, path_, &db_)));
    EXPECT_TRUE(HasEntries(db_.get(), entries));
    db_.reset();
    for (const auto mode : {WalRecoveryMode::kPointInTime,
                            WalRecoveryMode::kAbsoluteConsistency}) {
      options_.wal_recovery_mode = mode;
      ASSERT_TRUE(Ok(TryOpen()));
      EXPECT_TRUE(HasEntries(db_.get(), entries));
      const std::string log = ReadWholeFile(path_ + "/LOG");
      for (const char* const name : {"000095.log", "000092.blob"}) {
        EXPECT_TRUE(
            Contains(log, std::string(name) + " is not the database's"));
      }
      // New files get numbers past theirs.
      for (int i = 0; i < 3; ++i) {
        Put("c", std::to_string(i));
        Flush();
      }
      CompactAll();
      entries = {{"a", "1"}, {"b", "2"}, {"c", "2"}};
      Close();
    }
    ExpectAll(kind);
    ASSERT_TRUE(Ok(RepairDB(path_, options_)));
    ExpectAll(kind);
    ASSERT_TRUE(Ok(TryOpen()));
    EXPECT_TRUE(HasEntries(db_.get(), entries));
    Close();
    ASSERT_TRUE(Ok(DestroyDB(path_, options_)));
    ExpectAll(kind);
    std::filesystem::remove_all(path_ + "/lost");
    const std::filesystem::directory_iterator left(path_);
    EXPECT_EQ(std::distance(begin(left), end(left)),
              static_cast<std::ptrdiff_t>(std::size(kNames)));
    for (const char* const name : kNames) {
      std::filesystem::remove_all(path_ + "/" + name);
    }
  }
}

TEST_F(DbForeignKindsTest, DoNotHideThatCurrentIsMissing) {
  for (int kind = 0; kind < kKinds; ++kind) {
    OpenAnew();
    Put("a", "1");
    Close();
    MakeAll(kind);
    std::filesystem::remove(path_ + "/CURRENT");
    EXPECT_TRUE(TryOpen().IsCorruption());
    ASSERT_TRUE(Ok(RepairDB(path_, options_)));
    Open();
    EXPECT_EQ(Get("a"), "1");
    ExpectAll(kind);
    Close();
  }
}

TEST_F(DbForeignKindsTest, ADatabaseIsMadeAmongThem) {
  for (int kind = 0; kind < kKinds; ++kind) {
    std::filesystem::remove_all(path_);
    std::filesystem::create_directory(path_);
    MakeAll(kind);
    Do("open, put a 1, reopen");
    EXPECT_EQ(Get("a"), "1");
    ExpectAll(kind);
    Close();
  }
}

// In place of a file that the database needs.
TEST_F(DbForeignKindsTest, AreErrorsByNamesThatTheManifestKnows) {
  for (const char* const ending : {".sst", ".log", "MANIFEST", "CURRENT"}) {
    for (int kind = 0; kind < kKinds; ++kind) {
      SCOPED_TRACE(std::string(ending) + " of kind " + std::to_string(kind));
      OpenAnew();
      Do("put a 1, flush, put b 2");
      Close();
      const std::string file = ending[0] == '.'
                                   ? FilesEndingIn(path_, ending).back()
                                   : FilesStartingWith(path_, ending).back();
      std::filesystem::remove(file);
      Make(kind, file);
      const auto expect_error = [](const Status& status) {
        EXPECT_TRUE(status.IsIOError() || status.IsCorruption())
            << status.ToString();
      };
      options_.paranoid_checks = true;
      expect_error(DB::OpenForReadOnly(options_, path_, &db_));
      expect_error(TryOpen());
      options_.paranoid_checks = false;
      struct stat info;
      EXPECT_EQ(lstat(file.c_str(), &info), 0);
    }
  }
}

TEST_F(DbForeignFilesTest, ADatabaseIsMadeAmongThem) {
  std::filesystem::create_directory(path_);
  PutThere();
  Open();
  ExpectThere();
  Put("a", "1");
  Reopen();
  EXPECT_EQ(Get("a"), "1");
  ExpectThere();
}

TEST_F(DbForeignFilesTest, AreNamedInTheLogAndLeaveADatabaseClean) {
  Do("open, put a 1, flush, reopen");
  Close();
  const auto manifests = FilesStartingWith(path_, "MANIFEST");
  PutThere();
  Open();
  const std::string log = ReadWholeFile(path_ + "/LOG");
  EXPECT_TRUE(Contains(log, "000099.log is not the database's"));
  EXPECT_TRUE(Contains(log, "1732500000.log is not the database's"));
  // No new MANIFEST.
  EXPECT_TRUE(std::filesystem::exists(manifests.back()));
  Close();
}

TEST_F(DbForeignFilesTest, AreNoneOfALogsDamage) {
  Open();
  Put("a", "1");
  db_.reset();
  const std::string log = FilesEndingIn(path_, ".log").back();
  const std::string bytes = ReadWholeFile(log);
  ASSERT_FALSE(bytes.empty());
  // The rest of the database's own logs is removed.
  WriteWholeFile(path_ + "/000090.log", "");
  WriteWholeFile(path_ + "/000091.log", bytes.substr(0, 5));
  WriteWholeFile(path_ + "/000092.dbtmp", "MANIFEST-0000");
  WriteWholeFile(path_ + "/000093.dbtmp", "");
  WriteWholeFile(path_ + "/000094.log.dbtmp", "");
  WriteWholeFile(path_ + "/000095.sst", std::string("\0\1x", 3));
  WriteWholeFile(path_ + "/MANIFEST-000089", "");
  Open();
  EXPECT_EQ(Get("a"), "1");
  for (const char* name :
       {"000090.log", "000091.log", "000092.dbtmp", "000093.dbtmp",
        "000094.log.dbtmp", "000095.sst", "MANIFEST-000089"}) {
    EXPECT_FALSE(std::filesystem::exists(path_ + "/" + name)) << name;
  }
}

// A file is a log whichever single byte is changed or missing, except a log
// with only one record, and the last log.
TEST_F(DbForeignFilesTest, ALogIsNotTakenForOne) {
  Open();
  for (int i = 0; i < 3; ++i) Put(Key(i), "value");
  std::string bytes = ReadWholeFile(FilesEndingIn(path_, ".log").back());
  // A mapped log ends in zeros as long as it is open.
  bytes.resize(bytes.find_last_not_of('\0') + 1);
  Close();
  const std::string path = dir_.Sub("000007.log");
  const auto is_foreign = [&](const std::string& contents) {
    WriteWholeFile(path, contents);
    return IsForeignFile(Env::Default(), path, FileKind::kWal, 7, 5);
  };
  for (size_t i = 0; i < bytes.size(); ++i) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string changed = bytes;
      changed[i] = static_cast<char>(changed[i] ^ (1 << bit));
      EXPECT_FALSE(is_foreign(changed)) << "bit " << bit << " of byte " << i;
    }
    EXPECT_FALSE(is_foreign(bytes.substr(0, i))) << i << " bytes";
    // From the first record on, something is lost in front.
    std::string zeroed = bytes;
    std::fill(zeroed.begin(), zeroed.begin() + static_cast<int>(i), '\0');
    EXPECT_FALSE(is_foreign(zeroed)) << i << " zeros";
  }
  EXPECT_TRUE(is_foreign("a log of something else\n"));
  EXPECT_TRUE(is_foreign("hi\n"));
}

// A missing CURRENT does not make the tables and logs foreign.
TEST_F(DbForeignFilesTest, DoNotHideThatCurrentIsMissing) {
  Open();
  Put("a", "1");
  Close();
  PutThere();
  std::filesystem::remove(path_ + "/CURRENT");
  EXPECT_TRUE(TryOpen().IsCorruption());
  ExpectThere();
  ASSERT_TRUE(Ok(RepairDB(path_, options_)));
  Open();
  EXPECT_EQ(Get("a"), "1");
  ExpectThere();
}

TEST_F(DbForeignFilesTest, OldInfoLogsAreTheEnginesOnly) {
  Open();
  WriteWholeFile(path_ + "/LOG.old.1", "notes\n");
  for (int i = 0; i < 15; ++i) Reopen();
  EXPECT_EQ(ReadWholeFile(path_ + "/LOG.old.1"), "notes\n");
  EXPECT_LT(FilesStartingWith(path_, "LOG.old.").size(), 14u);
}

}  // namespace
}  // namespace varve::test
