// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: of the files in a directory those go that the database does not need,
// and no others. Method: empty files of all kinds in memory, and whole tables.

#include "db/recovery/leftovers.h"

#include "env/file_names.h"
#include "table/build/table_builder.h"
#include "test/testing/db/table_parts.h"
#include "test/testing/db_helpers.h"
#include "test/testing/env/string_file.h"
#include "test/testing/test_headers.h"

namespace varve::test {
namespace {

class LeftoversTest : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(Ok(place_.Open(false, true))); }
  void TearDown() override { place_.Unlock().IgnoreError(); }

  void Make(const std::string& name) {
    ASSERT_TRUE(Ok(WriteStringToFile(env_.get(), "x", "/db/" + name, false)));
  }
  std::vector<std::string> Names() {
    std::vector<std::string> names;
    EXPECT_TRUE(Ok(env_->GetChildren("/db", &names)));
    std::erase(names, "LOCK");
    std::sort(names.begin(), names.end());
    return names;
  }

  const Options options_ = TinyOptions();
  const std::unique_ptr<Env> env_ = NewMemoryEnv(Env::Default());
  TableParts tables_{options_, env_.get()};
  DbDirectory place_{env_.get(), "/db"};
};

TEST_F(LeftoversTest, RemovesObsoleteFiles) {
  const std::vector<std::string> kept = {
      "000004.sst",      "000006.sst", "000007.log", "000009.log",
      "CURRENT",         "IDENTITY",   "LOG",        "MANIFEST-000008",
      "another's 1.sst", "notes.txt"};
  for (const std::string& name : kept) Make(name);
  for (const char* name : {"000003.sst", "000005.ldb", "000002.log",
                           "000006.log", "MANIFEST-000001", "000011.dbtmp"}) {
    Make(name);
  }
  LiveFiles live;
  live.tables = {4};
  live.manifest_number = 8;
  live.log_number = 7;
  live.next_file_number = 12;
  live.foreign = {"000006.sst"};
  RemoveLeftovers(place_, {&tables_.table_cache}, nullptr, live);
  std::vector<std::string> expected = kept;
  std::sort(expected.begin(), expected.end());
  EXPECT_EQ(Names(), expected);
}

TEST_F(LeftoversTest, RemovesAnUnknownTableThatIsDamaged) {
  Make("000012.sst");
  LiveFiles live;
  live.next_file_number = 12;
  RemoveLeftovers(place_, {&tables_.table_cache}, nullptr, live);
  EXPECT_EQ(Names(), std::vector<std::string>{});
}

// From the next file number on, an edit of the table may be lost.
TEST_F(LeftoversTest, KeepsAnUnknownTableThatIsWhole) {
  varve::testing::StringFile table;
  TableBuilderOptions options;
  options.comparator = &tables_.comparator;
  TableBuilder builder(options, &table);
  builder.Add(MakeInternalKey("key", PackTrailer(1, ValueType::kValue)),
              "value");
  ASSERT_TRUE(Ok(builder.Finish()));
  for (const char* name : {"000011.sst", "000012.sst", "000013.sst"}) {
    ASSERT_TRUE(Ok(WriteStringToFile(env_.get(), table.contents(),
                                     std::string("/db/") + name, false)));
  }
  LiveFiles live;
  live.next_file_number = 12;
  RemoveLeftovers(place_, {&tables_.table_cache}, nullptr, live);
  EXPECT_EQ(Names(), std::vector<std::string>{"lost"});
  std::vector<std::string> kept;
  ASSERT_TRUE(Ok(env_->GetChildren("/db/lost", &kept)));
  std::sort(kept.begin(), kept.end());
  EXPECT_EQ(kept, (std::vector<std::string>{"000012.sst", "000013.sst"}));
}

TEST_F(LeftoversTest, KeepsTheTenNewestInfoLogs) {
  std::vector<std::string> names;
  for (uint64_t time = 100; time < 115; ++time) {
    const std::string path = OldInfoLogFileName("/db", time);
    names.push_back(path.substr(path.rfind('/') + 1));
    Make(names.back());
  }
  const std::vector<std::string> newest(names.end() - 10, names.end());
  RemoveOldInfoLogs(place_, names);
  EXPECT_EQ(Names(), newest);
}

}  // namespace
}  // namespace varve::test
