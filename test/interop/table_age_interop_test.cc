// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: Varve and RocksDB read and keep the ages of each other's tables.
// Method: an Env whose wall clock the test sets; the properties of tables and
// the MANIFEST, as RocksDB's tools show them; a compaction by RocksDB.

#include "test/testing/env/date_env.h"
#include "test/testing/test_headers.h"
#include "test/testing/tools.h"

namespace varve::test {
namespace {

constexpr uint64_t kStart = 1700000000;

class TableAgeInteropTest : public DbTestBase {
 protected:
  TableAgeInteropTest() { options_.env = &env_; }

  uint64_t OldestTime() { return Number("varve.estimate-oldest-key-time"); }

  DateEnv env_{kStart};
};

TEST_F(TableAgeInteropTest, TimesAreKeptByBoth) {
  Open();
  Put("a", "1");
  Put("b", "1");
  Flush();
  env_.now_s = kStart + 10;
  CompactAll();
  EXPECT_EQ(OldestTime(), kStart);
  Close();

  const std::string properties = RunOrFail(
      {"sst_dump", "--file=" + path_, "--command=none", "--show_properties"});
  EXPECT_TRUE(Contains(properties, "\n  creation time: 1700000000\n"))
      << properties;
  EXPECT_TRUE(Contains(properties, "file creation time: 1700000010"))
      << properties;
  const std::string manifest =
      RunOrFail({"ldb", "--db=" + path_, "manifest_dump", "--verbose",
                 "--path=" + FilesStartingWith(path_, "MANIFEST-").at(0)});
  EXPECT_TRUE(Contains(manifest,
                       "oldest_ancester_time:1700000000 "
                       "file_creation_time:1700000010"))
      << manifest;

  Ldb(path_, {"put", Hex("a"), Hex("2")});
  Ldb(path_, {"compact"});
  Open();
  EXPECT_EQ(Get("a"), "2");
  EXPECT_EQ(Tables(), 1u);
  EXPECT_EQ(OldestTime(), kStart);
  // The file is as old as RocksDB has made it, by the true clock.
  const auto tables = [this] { return FilesEndingIn(path_, ".sst"); };
  options_.periodic_compaction_seconds = 1000;
  env_.now_s = Env::Default()->NowMicros() / 1000000;
  Reopen();
  ASSERT_TRUE(Ok(db_->WaitForCompact()));
  const std::vector<std::string> before = tables();
  env_.now_s += 500;
  ASSERT_TRUE(Ok(db_->WaitForCompact()));
  EXPECT_EQ(tables(), before);
  env_.now_s += 600;
  ASSERT_TRUE(Ok(db_->WaitForCompact()));
  EXPECT_NE(tables(), before);
  EXPECT_EQ(OldestTime(), kStart);
}

}  // namespace
}  // namespace varve::test
