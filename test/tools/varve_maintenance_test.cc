// Varve: a key-value storage engine. MIT licence, see LICENSE.
// Goal: the commands of `varve` that change whole databases do what they say.
// Method: run them on fixtures, whole and damaged, and on databases made here.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "test/testing/fixtures.h"
#include "test/testing/varve_command.h"

namespace varve {
namespace {

using test::RunCommand;
using testing::HasSubstr;
using Outcome = test::CommandOutcome;

class VarveMaintenanceTest : public test::VarveCommandTest {};

TEST_F(VarveMaintenanceTest, RepairsDamagedDatabases) {
  for (const char* name : {"damaged-current-missing",
                           "damaged-manifest-missing", "damaged-manifest-empty",
                           "damaged-data-block", "damaged-sst-truncated"}) {
    UseFixture(name);
    EXPECT_EQ(RunHere({"check"}).exit_code, kExitFailure) << name;
    const Outcome outcome = RunHere({"repair", "--progress"});
    EXPECT_EQ(outcome.exit_code, kExitOk) << name << outcome.error;
    EXPECT_THAT(outcome.out, HasSubstr(Db() + "/lost\n")) << name;
    EXPECT_EQ(outcome.error, "repairing " + Db() + "\n") << name;
    EXPECT_TRUE(Succeed({"check"}).ends_with("no damage\n")) << name;
  }
}

TEST_F(VarveMaintenanceTest, KeepsAllWhenAHealthyDatabaseIsRepaired) {
  UseFixture("damage-base");
  const std::string before = Succeed({"scan", "--hex"});
  EXPECT_EQ(RunHere({"repair"}).error, "");
  EXPECT_EQ(Succeed({"scan", "--hex"}), before);
}

TEST_F(VarveMaintenanceTest, SaysWhereToLookForDamage) {
  UseFixture("damaged-data-block");
  const Outcome outcome = RunHere({"scan"});
  EXPECT_EQ(outcome.exit_code, kExitFailure);
  EXPECT_THAT(outcome.error, HasSubstr("varve check --db=" + Db()));
}

TEST_F(VarveMaintenanceTest, Compacts) {
  for (const char* name : {"rocksdb-default-levels", "leveldb-default"}) {
    UseFixture(name);
    const std::string before = Succeed({"scan", "--hex"});
    const Outcome outcome = RunHere({"compact", "--progress"});
    EXPECT_EQ(outcome.out, "OK\n") << outcome.error;
    EXPECT_THAT(outcome.error, HasSubstr("compactions, "));
    EXPECT_EQ(Succeed({"scan", "--hex"}), before);
    EXPECT_THAT(Succeed({"levels"}), HasSubstr("level 0: 0 files"));
    EXPECT_TRUE(Succeed({"check"}).ends_with("no damage\n"));
  }
}

TEST_F(VarveMaintenanceTest, CompactsARange) {
  UseFixture("rocksdb-default-levels");
  const std::string levels = Succeed({"levels"});
  // After all keys, so there is nothing to do.
  EXPECT_EQ(Succeed({"compact", "--hex", "--from=0xFFFF"}), "OK\n");
  EXPECT_EQ(Succeed({"compact", "--from=user", "--to=zz"}), "OK\n");
  EXPECT_NE(Succeed({"levels"}), levels);
  EXPECT_THAT(Succeed({"levels"}), HasSubstr("level 0: 0 files"));
}

TEST_F(VarveMaintenanceTest, MakesCheckpoints) {
  UseFixture("leveldb-default");
  const std::string before = Succeed({"scan", "--hex"});
  const std::string copy = directory_.Sub("copy");
  EXPECT_EQ(Succeed({"checkpoint", copy}), "OK\n");
  Succeed({"put", "later", "1"});
  EXPECT_EQ(RunCommand({"--db", copy, "scan", "--hex"}).out, before);
  EXPECT_EQ(RunCommand({"--db", copy, "check"}).exit_code, kExitOk);
  const Outcome again = RunHere({"checkpoint", copy});
  EXPECT_EQ(again.exit_code, kExitFailure);
  EXPECT_THAT(again.error, HasSubstr(copy));
}

}  // namespace
}  // namespace varve
