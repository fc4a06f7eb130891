// Varve: a key-value storage engine. MIT licence, see LICENSE.
// Goal: with --ttl, the commands of `varve` read and write values that end in
// the times of their writes, and let none expire. Method: run them beside
// DBWithTTL on one database, with old and damaged values.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "test/testing/env/date_env.h"
#include "test/testing/fixtures.h"
#include "test/testing/status_checks.h"
#include "test/testing/tools.h"
#include "test/testing/varve_command.h"
#include "varve/db_ttl.h"

namespace varve {
namespace {

using testing::HasSubstr;
using testing::MatchesRegex;

constexpr uint64_t kLongAgo = 1500000000;  // 2017-07-14 02:40 UTC.

class VarveTtlTest : public test::VarveCommandTest {
 protected:
  // Writes an entry a long time ago, and some seconds later.
  void PutLongAgo(const std::string& key, const std::string& value,
                  uint64_t later_s = 0) {
    test::DateEnv env(kLongAgo + later_s);
    Options options;
    options.create_if_missing = true;
    options.env = &env;
    std::unique_ptr<DBWithTTL> db;
    ASSERT_TRUE(Ok(DBWithTTL::Open(options, Db(), &db)));
    ASSERT_TRUE(Ok(db->Put({}, key, value)));
  }
};

TEST_F(VarveTtlTest, ReadsShowNoTimes) {
  PutLongAgo("a", "one");
  EXPECT_EQ(Succeed({"get", "--ttl", "a"}), "one\n");
  EXPECT_EQ(Succeed({"scan", "--ttl"}), "a : one\n");
  EXPECT_EQ(Succeed({"scan", "--ttl", "--json"}),
            "{\"key\":\"a\",\"value\":\"one\"}\n");
  EXPECT_EQ(Succeed({"count", "--ttl"}), "1\n");
  EXPECT_THAT(Succeed({"export-to", "--ttl", "-"}), HasSubstr("\na\tone\n"));
  // Without it, they are bytes of the value: 1500000000 is 0x59682F00.
  EXPECT_EQ(Succeed({"get", "--hex", "0x61"}), "0x6F6E65002F6859\n");
}

TEST_F(VarveTtlTest, PrintsTimes) {
  PutLongAgo("a", "one");
  PutLongAgo("b", "two");
  setenv("TZ", "UTC", 1);
  EXPECT_EQ(Succeed({"scan", "--ttl", "--timestamp", "--limit=1"}),
            "Fri Jul 14 02:40:00 2017 a : one\n");
  EXPECT_EQ(Succeed({"scan", "--ttl", "--timestamp", "--keys", "--reverse"}),
            "Fri Jul 14 02:40:00 2017 b\nFri Jul 14 02:40:00 2017 a\n");
  EXPECT_EQ(Succeed({"scan", "--ttl", "--timestamp", "--json", "--from=b"}),
            "{\"time\":1500000000,\"key\":\"b\",\"value\":\"two\"}\n");
  EXPECT_EQ(RunHere({"scan", "--timestamp"}).exit_code, kExitUsage);
}

// The start is a part of the range, and the end is not, as in ldb.
TEST_F(VarveTtlTest, ReadsWritesOfARangeOfTime) {
  PutLongAgo("a", "one");
  PutLongAgo("b", "two", 10);
  PutLongAgo("c", "three", 20);
  const std::string first = "--start_time=" + std::to_string(kLongAgo);
  const std::string second = "--start_time=" + std::to_string(kLongAgo + 10);
  const std::string third = "--end_time=" + std::to_string(kLongAgo + 20);
  EXPECT_EQ(Succeed({"scan", "--ttl", first, third}), "a : one\nb : two\n");
  EXPECT_EQ(Succeed({"scan", "--ttl", second}), "b : two\nc : three\n");
  EXPECT_EQ(Succeed({"scan", "--ttl", second, "--reverse"}),
            "c : three\nb : two\n");
  EXPECT_EQ(Succeed({"scan", "--ttl", second, third}), "b : two\n");
  EXPECT_EQ(Succeed({"scan", "--ttl", "--end_time=0"}), "");
  // The limit counts what is printed.
  EXPECT_EQ(Succeed({"scan", "--ttl", second, "--limit=1"}), "b : two\n");
  EXPECT_EQ(
      Succeed({"scan", "--ttl", third, "--timestamp", "--json", "--from=b"}),
      "{\"time\":1500000010,\"key\":\"b\",\"value\":\"two\"}\n");
  EXPECT_EQ(Succeed({"count", "--ttl", second}), "2\n");
  EXPECT_EQ(Succeed({"count", "--ttl", third, "--to=b"}), "1\n");
  EXPECT_THAT(Succeed({"export-to", "--ttl", second, third, "-"}),
              HasSubstr("varve-dump 1\nb\ttwo\nvarve-dump-end 1 "));
  EXPECT_EQ(RunHere({"scan", first}).exit_code, kExitUsage);
  EXPECT_EQ(RunHere({"count", third}).exit_code, kExitUsage);
  EXPECT_EQ(
      RunHere({"scan", "--ttl", "--start_time=2", "--end_time=1"}).exit_code,
      kExitUsage);
  EXPECT_EQ(RunHere({"scan", "--ttl", "--start_time=-1"}).exit_code,
            kExitUsage);
  EXPECT_EQ(RunHere({"get", "--ttl", first, "a"}).exit_code, kExitUsage);
}

TEST_F(VarveTtlTest, TablesHaveTimes) {
  PutLongAgo("a", "one");
  const std::string table = directory_.Sub("table");
  const std::string dump = Succeed({"export-to", "--ttl", "-"});
  EXPECT_EQ(test::RunCommand({"write-sst", "--ttl", "-", table}, dump).out,
            "OK, 1 entries\n");
  Succeed({"ingest-sst", table});
  EXPECT_EQ(Succeed({"scan", "--ttl"}), "a : one\n");
  // That is now.
  const std::string later = "--start_time=" + std::to_string(kLongAgo + 1);
  EXPECT_EQ(Succeed({"count", "--ttl", later}), "1\n");
  const std::string next =
      "--start_time=" + std::to_string(time(nullptr) + 1000);
  EXPECT_EQ(Succeed({"count", "--ttl", next}), "0\n");
}

TEST_F(VarveTtlTest, WritesAddTimes) {
  EXPECT_EQ(Succeed({"put", "--ttl", "--create_if_missing", "a", "one"}),
            "OK\n");
  Succeed({"put", "--ttl", "b", "-"}, "two");
  Succeed({"batchput", "--ttl", "c", "three", "d", ""});
  Succeed({"batchput", "--ttl"}, "e\tfive\n");
  const std::string dump = Succeed({"export-to", "--ttl", "-"});
  Succeed({"delete", "--ttl", "a"});
  Succeed({"delete-range", "--ttl", "c", "d"});
  EXPECT_EQ(Succeed({"scan", "--ttl"}), "b : two\nd : \ne : five\n");
  Succeed({"ingest-from", "--ttl", "-"}, dump);
  EXPECT_EQ(Succeed({"scan", "--ttl", "--values"}),
            "one\ntwo\nthree\n\nfive\n");
  std::unique_ptr<DBWithTTL> db;
  ASSERT_TRUE(Ok(DBWithTTL::Open(Options(), Db(), &db)));
  std::string value;
  ASSERT_TRUE(Ok(db->Get({}, "c", &value)));
  EXPECT_EQ(value, "three");
}

TEST_F(VarveTtlTest, CompactionsLetNothingExpire) {
  PutLongAgo("a", "one");
  Succeed({"compact", "--ttl"});
  EXPECT_EQ(Succeed({"scan", "--ttl"}), "a : one\n");
}

TEST_F(VarveTtlTest, OperatorsSeeValuesWithoutTimes) {
  PutLongAgo("a", "one");
  const char* const append = "--merge_operator=stringappend";
  Succeed({"merge", "--ttl", append, "a", "two"});
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(Succeed({"get", "--ttl", append, "a"}), "one,two\n");
    EXPECT_THAT(Succeed({"scan", "--ttl", append, "--timestamp"}),
                MatchesRegex("[A-Z].* 20[0-9][0-9] a : one,two\n"));
    Succeed({"compact", "--ttl", append});
  }
}

TEST_F(VarveTtlTest, AllFamiliesHaveTimes) {
  Succeed({"put", "--ttl", "--create_if_missing", "--family=red", "a", "one"});
  EXPECT_EQ(Succeed({"get", "--ttl", "--family=red", "a"}), "one\n");
  EXPECT_EQ(Succeed({"scan", "--ttl"}), "");
}

TEST_F(VarveTtlTest, ReportsValuesWithoutTimes) {
  Succeed({"put", "--create_if_missing", "a", "one"});
  Succeed({"put", "--hex", "0x62", "0x6F6E6501000000"});  // In 1970.
  for (const std::string key : {"a", "b"}) {
    EXPECT_EQ(RunHere({"get", "--ttl", key}).exit_code, kExitDamage);
  }
  EXPECT_EQ(RunHere({"scan", "--ttl"}).exit_code, kExitDamage);
  const test::CommandOutcome timed = RunHere({"scan", "--ttl", "--timestamp"});
  EXPECT_EQ(timed.exit_code, kExitDamage);
  EXPECT_THAT(timed.error, HasSubstr("has no time"));
  for (const std::string command : {"scan", "count"}) {
    const test::CommandOutcome ranged =
        RunHere({command, "--ttl", "--end_time=5"});
    EXPECT_EQ(ranged.exit_code, kExitDamage);
    EXPECT_THAT(ranged.error, HasSubstr("has no time"));
  }
}

}  // namespace
}  // namespace varve
