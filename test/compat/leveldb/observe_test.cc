// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: an operator sees what a program does through varve-leveldb. Method: the
// launcher runs leveldb_helper with each of its options.
#include <gmock/gmock.h>
#include <sys/stat.h>
#include <unistd.h>

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
      Launch("--check " VARVE_SOURCE_DIRECTORY "/tools/varve-leveldb #", ""),
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
  EXPECT_EQ(Launch("--stats-seconds=x", "read-db " + db_), 2);
  EXPECT_THAT(output_, HasSubstr("--stats-seconds"));
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

TEST_F(LevelDbObserveTest, ASignalBeforeTheFirstOpenBeginsATrace) {
  const std::string path = directory_ / "trace";
  ASSERT_EQ(Launch("", "write-db " + db_ + " 100"), 0);
  EXPECT_EQ(
      Launch("--trace-signal=USR2 --trace=" + path, "signal-read-db " + db_),
      0);
  EXPECT_EQ(output_, "100 entries\n");
  EXPECT_TRUE(ReadWhole(path).ends_with("\n]}\n"));
  // Without a file there is nothing to write, and nothing dies.
  EXPECT_EQ(Launch("--trace-signal=SIGUSR2", "signal-read-db " + db_), 0);
  EXPECT_EQ(output_, "100 entries\n");
}

TEST_F(LevelDbObserveTest, WrongNumbersAreRefused) {
  const struct {
    const char* option;
    const char* variable;
    std::vector<std::string> values;
  } cases[] = {
      {"--stats-seconds",
       "VARVE_LEVELDB_STATS_SECONDS",
       {"abc", "0", "-1", "1x", "1 ", "1.5", "86401", "18446744073709551617"}},
      {"--trace-sampling",
       "VARVE_LEVELDB_TRACE_SAMPLING",
       {"abc", "0", "-1", "0.5x", "1.01", "nan", "1e99", "0x1"}},
      {"--trace-signal",
       "VARVE_LEVELDB_TRACE_SIGNAL",
       {"NONE", "0", "-1", "KILL", "SIGSTOP", "9", "12x", "4294967308"}},
  };
  for (const auto& wrong : cases) {
    for (const std::string& value : wrong.values) {
      const std::string setting = "='" + value + "' ";
      EXPECT_EQ(Launch(wrong.option + setting, "write-db " + db_ + " 1"), 2)
          << wrong.option << setting << output_;
      EXPECT_THAT(output_, HasSubstr(wrong.option));
      EXPECT_EQ(
          RunShell(std::string("LD_LIBRARY_PATH=") + VARVE_LEVELDB_DIRECTORY +
                       " " + wrong.variable + setting +
                       VARVE_LEVELDB_HELPER " write-db " + db_ + " 1",
                   &output_),
          1)
          << wrong.variable << setting << output_;
      EXPECT_THAT(output_, HasSubstr(wrong.variable));
    }
  }
  EXPECT_FALSE(std::filesystem::exists(db_));
}

TEST_F(LevelDbObserveTest, CheckLooksIntoScripts) {
  const auto check = [&](const std::string& first_line,
                         const std::string& rest) {
    const std::string path = directory_ / "script";
    std::ofstream(path) << first_line << "\n" << rest << "\n";
    std::filesystem::permissions(path, std::filesystem::perms::owner_all);
    return Launch("--check " + path + " #", "");
  };
  EXPECT_EQ(check("#!/bin/sh", ""), 1);
  EXPECT_THAT(output_, HasSubstr("script is a script of /bin/sh"));
  // The interpreter is the program that loads the library.
  EXPECT_EQ(check("#! " VARVE_LEVELDB_HELPER, ""), 0) << output_;
  EXPECT_THAT(output_, HasSubstr("loads " VARVE_LEVELDB_DIRECTORY));
  EXPECT_EQ(check("#!/usr/bin/env -S A=1 " VARVE_LEVELDB_HELPER " -x", ""), 0)
      << output_;
  EXPECT_EQ(check("#!", ""), 2);
  // A module that is linked with LevelDB's library.
  std::filesystem::create_directory(directory_ / "module");
  std::ofstream(directory_ / "module/__init__.py");
  EXPECT_EQ(check("#!/usr/bin/env python3", "import os, module.part"), 1);
  std::filesystem::copy(VARVE_LEVELDB_HELPER, directory_ / "module/part.so");
  EXPECT_EQ(check("#!/usr/bin/env python3", "import os, module.part"), 0)
      << output_;
  EXPECT_THAT(output_, HasSubstr("module/part.so loads "));
}

TEST_F(LevelDbObserveTest, CheckKnowsPrivileges) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can give a file away";
  const std::string path = directory_ / "program";
  std::filesystem::copy(VARVE_LEVELDB_HELPER, path);
  EXPECT_EQ(Launch("--check " + path + " #", ""), 0) << output_;
  ASSERT_EQ(chown(path.c_str(), 12345, 12345), 0);
  ASSERT_EQ(chmod(path.c_str(), 04755), 0);
  EXPECT_EQ(Launch("--check " + path + " #", ""), 1);
  EXPECT_THAT(output_, HasSubstr("setuid"));
  ASSERT_EQ(chmod(path.c_str(), 02755), 0);
  EXPECT_EQ(Launch("--check " + path + " #", ""), 1);
  EXPECT_THAT(output_, HasSubstr("setgid"));
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
