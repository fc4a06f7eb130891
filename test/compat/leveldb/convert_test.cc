// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: databases go from LevelDB to Varve and back, and everybody is told.
// Method: leveldb_helper writes and reads them with one library or the other.
#include <gmock/gmock.h>

#include "test/compat/leveldb/program.h"

namespace leveldb_test {
namespace {

using testing::HasSubstr;

TEST(LevelDbConvertTest, ADatabaseOfLevelDbIsConvertedOnce) {
  const TestDirectory directory;
  const std::string db = directory / "db";
  std::string output;
  ASSERT_EQ(RunHelper(false, "write-db " + db + " 20000", &output), 0);
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(RunHelper(true, "read-db " + db, &output), 0);
    EXPECT_EQ(output, "20000 entries\n");
    EXPECT_EQ(ReadWhole(db + "/LOG").find("LevelDB can no longer open it") !=
                  std::string::npos,
              i == 0);
  }
  EXPECT_THAT(ReadWhole(db + "/VARVE.txt"),
              HasSubstr("Varve has converted it"));
  // LevelDB refuses it, and leaves it as it is.
  EXPECT_EQ(RunHelper(false, "read-db " + db, &output), 1);
  EXPECT_EQ(output, "Corruption: VersionEdit: unknown tag\n");
  EXPECT_EQ(RunHelper(true, "read-db " + db, &output), 0);
  EXPECT_EQ(output, "20000 entries\n");
}

TEST(LevelDbConvertTest, ADatabaseOfVarvesIsMarked) {
  const TestDirectory directory;
  const std::string db = directory / "db";
  std::string output;
  ASSERT_EQ(RunHelper(true, "write-db " + db + " 100", &output), 0);
  const std::string text = ReadWhole(db + "/VARVE.txt");
  EXPECT_THAT(text, HasSubstr("LevelDB itself cannot open it"));
  EXPECT_THAT(text, testing::Not(HasSubstr("converted")));
  EXPECT_EQ(RunHelper(false, "read-db " + db, &output), 1);
}

TEST(LevelDbConvertTest, FilesOfLevelDbAreDumpedAlike) {
  const TestDirectory directory;
  const std::string db = directory / "db";
  std::string output;
  ASSERT_EQ(RunHelper(false, "write-db " + db + " 3000", &output), 0);
  int dumped = 0;
  for (int round = 0; round < 2; ++round) {
    for (const auto& entry : std::filesystem::directory_iterator(db)) {
      const std::string extension = entry.path().extension().string();
      if (extension != ".log" && extension != ".ldb") continue;
      std::string ours;
      const std::string arguments = "dump " + entry.path().string();
      EXPECT_EQ(RunHelper(false, arguments, &output), 0);
      EXPECT_EQ(RunHelper(true, arguments, &ours), 0);
      EXPECT_TRUE(ours == output) << entry.path();
      dumped += output.size() > 100000;
    }
    // The second open makes a table of the log.
    EXPECT_EQ(RunHelper(false, "read-db " + db, &output), 0);
  }
  EXPECT_EQ(dumped, 2);
  EXPECT_EQ(RunHelper(true, "dump " + db + "/CURRENT", &output), 1);
  EXPECT_THAT(output, HasSubstr("unknown file type"));
}

TEST(LevelDbConvertTest, TheLogHasTheNoteWhateverLoggerAProgramGives) {
  const TestDirectory directory;
  const std::string db = directory / "db";
  std::string output;
  ASSERT_EQ(RunHelper(false, "write-db " + db + " 10", &output), 0);
  const std::string old = ReadWhole(db + "/LOG");
  EXPECT_EQ(RunHelper(true, "read-db-quietly " + db, &output), 0);
  EXPECT_EQ(output, "10 entries\n");
  EXPECT_THAT(ReadWhole(db + "/LOG"),
              HasSubstr("LevelDB can no longer open it"));
  EXPECT_EQ(ReadWhole(db + "/LOG.old"), old);
}

#ifdef VARVE_HAVE_COPY
TEST(LevelDbConvertTest, ADatabaseGoesBackToLevelDb) {
  const TestDirectory directory;
  const std::string db = directory / "db";
  std::string output;
  ASSERT_EQ(RunHelper(true, "write-db " + db + " 3000", &output), 0);
  // The user's programs run on Varve, and the conversion on LevelDB. It needs
  // no other program of Varve's.
  const std::string launcher =
      "PATH=/usr/bin:/bin VARVE_LEVELDB_DIRECTORY=" VARVE_LEVELDB_DIRECTORY
      " LD_LIBRARY_PATH=/none:" VARVE_LEVELDB_DIRECTORY
      "/: " VARVE_SOURCE_DIRECTORY "/tools/varve-leveldb ";
  const std::string convert = launcher + "--to-leveldb " + db + " ";
  ASSERT_EQ(RunShell(convert + (directory / "back"), &output), 0) << output;
  EXPECT_THAT(output, HasSubstr("3000 entries"));
  EXPECT_EQ(RunHelper(false, "read-db " + (directory / "back"), &output), 0);
  EXPECT_EQ(output, "3000 entries\n");
  EXPECT_NE(RunShell(convert + (directory / "back"), &output), 0);
  EXPECT_THAT(output, HasSubstr("exists already"));
  EXPECT_NE(RunShell(launcher + "--to-leveldb " + (directory / "none") + " " +
                         (directory / "new"),
                     &output),
            0);
  EXPECT_FALSE(std::filesystem::exists(directory / "new"));
  // LevelDB's library cannot be mistaken for Varve's.
  EXPECT_NE(RunShell("LD_LIBRARY_PATH=" VARVE_LEVELDB_DIRECTORY
                     " " VARVE_LEVELDB_DIRECTORY "/leveldb-copy " +
                         db + " " + (directory / "new"),
                     &output),
            0);
  EXPECT_THAT(output, HasSubstr("the library is Varve's"));
  EXPECT_FALSE(std::filesystem::exists(directory / "new"));
}
#endif

}  // namespace
}  // namespace leveldb_test
