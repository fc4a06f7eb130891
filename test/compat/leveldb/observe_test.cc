// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: an operator sees what a program does through varve-leveldb. Method: the
// launcher runs leveldb_helper with each of its options.
#include <gmock/gmock.h>

#include "test/compat/leveldb/program.h"

namespace leveldb_test {
namespace {

using testing::HasSubstr;

class LevelDbObserveTest : public testing::Test {
 protected:
  int Launch(const std::string& options, const std::string& arguments) {
    return RunShell("VARVE_LEVELDB_DIRECTORY=" VARVE_LEVELDB_DIRECTORY
                    " LD_LIBRARY_PATH= " VARVE_SOURCE_DIRECTORY
                    "/tools/varve-leveldb " +
                        options + " " VARVE_LEVELDB_HELPER " " + arguments,
                    &output_);
  }
  const TestDirectory directory_;
  const std::string db_ = directory_ / "db";
  std::string output_;
};

TEST_F(LevelDbObserveTest, ProgramsRunOnTheLibrary) {
  EXPECT_EQ(Launch("--check", ""), 0) << output_;
  EXPECT_THAT(output_, HasSubstr("loads " VARVE_LEVELDB_DIRECTORY));
  EXPECT_EQ(RunShell("VARVE_LEVELDB_DIRECTORY=" VARVE_LEVELDB_DIRECTORY
                     " " VARVE_SOURCE_DIRECTORY
                     "/tools/varve-leveldb --check " VARVE_SOURCE_DIRECTORY
                     "/tools/quickstart",
                     &output_),
            1);
  EXPECT_THAT(output_, HasSubstr("does not link LevelDB's shared library"));
  EXPECT_EQ(Launch("", "write-db " + db_ + " 10"), 0);
  EXPECT_TRUE(std::filesystem::exists(db_ + "/VARVE.txt"));
  // A script.
  EXPECT_EQ(
      Launch("--check " VARVE_SOURCE_DIRECTORY "/tools/varve-leveldb; #", ""),
      1);
  EXPECT_THAT(output_, HasSubstr("does not link LevelDB's shared library"));
  EXPECT_EQ(Launch("--none", ""), 2);
  EXPECT_THAT(output_, HasSubstr("no option --none"));
}

TEST_F(LevelDbObserveTest, StatisticsAreWritten) {
  const std::string path = directory_ / "stats";
  ASSERT_EQ(Launch("--stats=" + path + " --stats-seconds=1",
                   "write-db " + db_ + " 123"),
            0);
  EXPECT_THAT(ReadWhole(path),
              HasSubstr("# TYPE varve_number_keys_written_total counter\n"
                        "varve_number_keys_written_total{db=\"" +
                        db_ + "\"} 123\n"));
  EXPECT_THAT(ReadWhole(path), HasSubstr("\",quantile=\"0.99\"} "));
  EXPECT_EQ(Launch("--stats-seconds=x", "read-db " + db_), 1);
  EXPECT_THAT(output_, HasSubstr("VARVE_LEVELDB_STATS_SECONDS"));
}

TEST_F(LevelDbObserveTest, ATraceIsWrittenAtTheEnd) {
  const std::string path = directory_ / "trace.%p";
  ASSERT_EQ(Launch("--trace=" + path, "write-db " + db_ + " 100"), 0);
  std::string found;
  for (const auto& entry :
       std::filesystem::directory_iterator(directory_ / "")) {
    if (entry.path().filename().string().starts_with("trace.")) {
      found = entry.path().string();
    }
  }
  EXPECT_THAT(found, testing::MatchesRegex(".*trace\\.[0-9]+"));
  const std::string trace = ReadWhole(found);
  EXPECT_NE(trace.find("{\"name\":\"DB::Write\""), std::string::npos);
  EXPECT_TRUE(trace.ends_with("\n]}\n"));
}

TEST_F(LevelDbObserveTest, OptionsComeFromAFile) {
  const std::string path = directory_ / "options";
  std::ofstream(path) << "# A comment.\n\n block_cache = 16M \n"
                         "compression=none\nuse_direct_reads = true\n";
  ASSERT_EQ(Launch("--options=" + path, "write-db " + db_ + " 1000"), 0)
      << output_;
  EXPECT_EQ(Launch("--options=" + path, "read-db " + db_), 0);
  std::ofstream(path) << "compression=none\nno_such_option=1\n";
  EXPECT_EQ(Launch("--options=" + path, "read-db " + db_), 1);
  EXPECT_THAT(output_, HasSubstr(path + ", line 2: "));
  EXPECT_EQ(Launch("--options=/none", "read-db " + db_), 1);
  EXPECT_THAT(output_, HasSubstr("VARVE_LEVELDB_OPTIONS"));
}

}  // namespace
}  // namespace leveldb_test
