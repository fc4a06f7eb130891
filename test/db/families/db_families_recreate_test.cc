// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: a family that was dropped and created again under its name, with
// another comparator and another merge operator, is opened with the options of
// the last one, by every kind of open. Method: one database in which a family
// was that three times, with tables and logs of each time, and copies of it.

#include "test/testing/comparators.h"
#include "test/testing/db/families_fixture.h"
#include "test/testing/directory.h"
#include "test/testing/test_headers.h"
#include "varve/checkpoint.h"
#include "varve/merge_operator.h"

namespace varve::test {
namespace {

class DbFamiliesRecreateTest : public FamiliesTest {
 protected:
  void SetUp() override {
    FamiliesTest::SetUp();
    OpenNew({});
    // The last one has neither of the other comparators, and no operator.
    family_options_["x"] = options_;
    family_options_["x"].merge_operator = NewStringAppendOperator();
    CreateAndFill();
    family_options_["x"] = options_;
    family_options_["x"].comparator = ReverseBytewiseComparator();
    family_options_["x"].merge_operator = NewUInt64AddOperator();
    Drop();
    CreateAndFill();
    family_options_["x"] = options_;
    family_options_["x"].comparator = &own_;
    Drop();
    CreateAndFill();
    expected_ = {{"c", "log"}, {"b", "table"}, {"a", "table"}};
  }

  // Fills a table and a log.
  void CreateAndFill() {
    ASSERT_NO_FATAL_FAILURE(Create("x"));
    const bool merges = Describe("x").options.merge_operator != nullptr;
    const auto add = [&](const std::string& key, const std::string& value) {
      ASSERT_TRUE(Ok(merges ? db_->Merge({}, At("x"), key, "12345678")
                            : db_->Put({}, At("x"), key, value)));
    };
    add("a", "table");
    add("b", "table");
    ASSERT_TRUE(Ok(db_->Flush({}, At("x"))));
    add("c", "log");
  }
  void Drop() {
    ASSERT_TRUE(Ok(db_->DropColumnFamily(At("x"))));
    ASSERT_NO_FATAL_FAILURE(Release("x"));
  }
  void ExpectLast() {
    EXPECT_TRUE(FamilyHasEntries(db_.get(), At("x"), expected_));
  }

  ReverseComparator own_;
  EntryList expected_;
};

TEST_F(DbFamiliesRecreateTest, OpensByTheLastOptions) {
  ASSERT_NO_FATAL_FAILURE(ReopenAsKilled());
  ExpectLast();
  ASSERT_NO_FATAL_FAILURE(ReopenAll());
  ExpectLast();
  // It goes on to be changed, and dropped.
  PutIn("x", "d", "more");
  ASSERT_NO_FATAL_FAILURE(FlushOne("x"));
  ASSERT_NO_FATAL_FAILURE(Drop());
  ASSERT_NO_FATAL_FAILURE(Close());
  ASSERT_TRUE(Ok(TryOpen({})));
}

TEST_F(DbFamiliesRecreateTest, OtherOptionsOfTheNameAreRefused) {
  Close();
  for (const Comparator* const comparator :
       {BytewiseComparator(), ReverseBytewiseComparator()}) {
    family_options_["x"].comparator = comparator;
    EXPECT_TRUE(
        IsInvalidArgument(TryOpen({"x"}), "column family x", own_.Name()));
  }
}

TEST_F(DbFamiliesRecreateTest, OpensForReadingBesideTheWriterToo) {
  std::vector<ColumnFamilyDescriptor> families = {
      Describe(kDefaultColumnFamilyName), Describe("x")};
  for (const bool beside : {true, false}) {
    if (!beside) Close();
    std::vector<std::string> names;
    ASSERT_TRUE(Ok(DB::ListColumnFamilies(options_, path_, &names)));
    EXPECT_EQ(names, (std::vector<std::string>{"default", "x"}));
    std::vector<ColumnFamilyHandle*> handles;
    std::unique_ptr<DB> reader;
    ASSERT_TRUE(
        Ok(DB::OpenForReadOnly(options_, path_, families, &handles, &reader)));
    EXPECT_TRUE(FamilyHasEntries(reader.get(), handles[1], expected_));
    for (ColumnFamilyHandle* const handle : handles) delete handle;
  }
  ASSERT_TRUE(Ok(TryOpen({}, /*read_only=*/true)));
}

TEST_F(DbFamiliesRecreateTest, ACheckpointOpens) {
  const std::string copy = dir_.Sub("checkpoint");
  std::unique_ptr<Checkpoint> checkpoint;
  ASSERT_TRUE(Ok(Checkpoint::Create(db_.get(), &checkpoint)));
  ASSERT_TRUE(Ok(checkpoint->CreateCheckpoint(copy)));
  Close();
  path_ = copy;
  ASSERT_NO_FATAL_FAILURE(OpenAll());
  ExpectLast();
}

TEST_F(DbFamiliesRecreateTest, IsRepairedByTheLastOptions) {
  ASSERT_TRUE(Ok(db_->WaitForCompact()));
  const std::string killed = dir_.Sub("copy");
  CopyDirectory(path_, killed);
  Close();
  path_ = killed;
  ASSERT_TRUE(Ok(RepairDB(
      path_, options_, {Describe(kDefaultColumnFamilyName), Describe("x")})));
  ASSERT_NO_FATAL_FAILURE(OpenAll());
  ExpectLast();
}

}  // namespace
}  // namespace varve::test
