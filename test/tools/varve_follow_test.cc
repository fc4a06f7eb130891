// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: `varve follow` prints the updates of a database's logs in their order,
// also beside a process that writes it. Method: databases with known updates,
// and a pipe that ends when enough was read.

#include "test/testing/test_headers.h"
#include "test/testing/varve_command.h"

namespace varve {
namespace {

using test::Ended;

class VarveFollowTest : public test::VarveCommandTest {};

TEST_F(VarveFollowTest, PrintsUpdatesInTheirOrder) {
  Options options;
  options.create_if_missing = true;
  options.WAL_ttl_seconds = 1000000;
  std::unique_ptr<DB> db;
  ASSERT_TRUE(DB::Open(options, Db(), &db).ok());
  ColumnFamilyHandle* family = nullptr;
  ASSERT_TRUE(db->CreateColumnFamily({}, "other", &family).ok());
  WriteBatch batch;
  batch.Put("a", "1");
  batch.Delete(family, "b\xff");
  ASSERT_TRUE(db->Write({}, &batch).ok());
  ASSERT_TRUE(db->Flush({}).ok());
  ASSERT_TRUE(db->DeleteRange({}, db->DefaultColumnFamily(), "c", "d").ok());
  ASSERT_TRUE(db->Put({.disable_wal = true}, "e", "2").ok());
  ASSERT_TRUE(db->Put({}, "f", "3").ok());
  // Without its lock.
  const std::string text =
      "1 put a : 1\n2 other delete b\\xFF\n3 delete_range c : d\n"
      "gap updates 4 to 4: were not logged (disable_wal), or are lost\n"
      "5 put f : 3\n";
  EXPECT_EQ(Succeed({"follow"}), text);
  EXPECT_EQ(Succeed({"follow", "--from=2", "--once"}), text);
  EXPECT_EQ(Succeed({"follow", "--from=5"}), "5 put f : 3\n");
  EXPECT_EQ(Succeed({"follow", "--json"}),
            "{\"sequence\":1,\"batch\":1,\"updates\":2,\"family\":\"default\","
            "\"type\":\"put\",\"key\":\"a\",\"value\":\"1\"}\n"
            "{\"sequence\":2,\"batch\":1,\"updates\":2,\"family\":\"other\","
            "\"type\":\"delete\",\"key_hex\":\"62FF\"}\n"
            "{\"sequence\":3,\"batch\":3,\"updates\":1,\"family\":\"default\","
            "\"type\":\"delete_range\",\"key\":\"c\",\"end\":\"d\"}\n"
            "{\"gap\":\"unlogged\",\"first\":4,\"last\":4,\"files\":[]}\n"
            "{\"sequence\":5,\"batch\":5,\"updates\":1,\"family\":\"default\","
            "\"type\":\"put\",\"key\":\"f\",\"value\":\"3\"}\n");
  EXPECT_EQ(RunHere({"follow", "--from=x"}).exit_code, kExitUsage);
  EXPECT_EQ(RunHere({"follow", "--wait", "--once"}).exit_code, kExitUsage);
  ASSERT_TRUE(db->DestroyColumnFamilyHandle(family).ok());
}

TEST_F(VarveFollowTest, SaysThatAnUpdateIsGone) {
  Succeed({"put", "--create_if_missing", "a", "1"});
  Succeed({"put", "b", "2"});
  EXPECT_TRUE(Ended(RunHere({"follow", "--from=1"}), kExitAbsent, {},
                    {"update 1 is in no log any more"}));
}

// The reader of a pipe sees each write of the other side, and ends the command.
TEST_F(VarveFollowTest, WaitsForMore) {
  Options options;
  options.create_if_missing = true;
  std::unique_ptr<DB> db;
  ASSERT_TRUE(DB::Open(options, Db(), &db).ok());
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  FILE* const in = fdopen(ends[0], "r");
  FILE* const out = fdopen(ends[1], "w");
  signal(SIGPIPE, SIG_IGN);
  std::thread command([&] {
    EXPECT_EQ(RunVarve({"follow", "--db=" + Db(), "--wait"}, out, stderr),
              kExitFailure);  // EPIPE, where a signal would end the program.
    fclose(out);
  });
  char line[100];
  for (int i = 1; i <= 50; ++i) {
    const std::string number = std::to_string(i);
    ASSERT_TRUE(db->Put({}, "k", number).ok());
    if (i % 20 == 0) {
      ASSERT_TRUE(db->Flush({}).ok());
    }
    ASSERT_NE(fgets(line, sizeof(line), in), nullptr);
    EXPECT_EQ(line, number + " put k : " + number + "\n");
  }
  fclose(in);
  // It finds out by the next write.
  ASSERT_TRUE(db->Put({}, "k", "v").ok());
  command.join();
}

}  // namespace
}  // namespace varve
