// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: databases of a catalog with case-insensitive keys fold them in every
// call, and are opened, kept open, closed and dropped like others.
// Method: each call that reaches a database through the catalog, with keys in
// several cases.

#include <gmock/gmock.h>

#include <string>

#include "test/testing/db/catalog_fixture.h"
#include "varve/read_transaction.h"
#include "varve/write_batch.h"

namespace varve::test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

class CatalogKeyCaseTest : public CatalogTestBase {
 protected:
  CatalogKeyCaseTest() { options_.options.key_case = KeyCase::kInsensitive; }

  EntryList Entries(const Slice& name) {
    EntryList entries;
    const DatabaseRef ref = Find(name);
    EXPECT_TRUE(Ok(ScanForward(ref.get(), {}, &entries)));
    return entries;
  }
};

TEST_F(CatalogKeyCaseTest, EveryDatabaseFoldsItsKeys) {
  for (const std::string name : {"one", "Two"}) {
    ASSERT_TRUE(Ok(catalog_->Create(name)));
    Put(name, "Straße", name);
    Put(name, "KEY", "old");
    Put(name, "Key", "new");
  }
  for (int round = 0; round < 2; ++round) {
    EXPECT_EQ(Get("ONE", "STRASSE"), "one");
    EXPECT_EQ(Get("two", "strasse"), "Two");
    EXPECT_THAT(Entries("one"),
                ElementsAre(Pair("key", "new"), Pair("strasse", "one")));
    // From the logs, then from tables.
    ASSERT_TRUE(Ok(Find("two")->Flush({})));
    EXPECT_EQ(CloseIdle(), 2u);
    Open();
  }
  const DatabaseRef one = Find("one");
  WriteBatch batch;
  batch.Delete("kEy");
  batch.Put("A", "1");
  ASSERT_TRUE(Ok(one->Write({}, &batch)));
  EXPECT_THAT(Entries("one"),
              ElementsAre(Pair("a", "1"), Pair("strasse", "one")));
  ASSERT_TRUE(Ok(one->DeleteRange({}, "B", "Z")));
  EXPECT_THAT(Entries("one"), ElementsAre(Pair("a", "1")));
  EXPECT_THAT(Entries("two"),
              ElementsAre(Pair("key", "new"), Pair("strasse", "Two")));
  EXPECT_TRUE(one->Put({}, "\xFF", "no text").IsInvalidArgument());
}

TEST_F(CatalogKeyCaseTest, ReadersKeepADatabaseOpen) {
  ASSERT_TRUE(Ok(catalog_->Create("a")));
  Put("a", "Key", "1");
  DatabaseRef ref = Find("a");
  DB* const db = ref.get();
  auto iterator = ref->NewIterator({});
  ref.Reset();  // By mistake, before the iterator.
  EXPECT_EQ(CloseIdle(), 0u);
  EXPECT_TRUE(catalog_->Drop("a").IsBusy());
  EXPECT_EQ(Find("A").get(), db);
  iterator->Seek("KEY");
  ASSERT_TRUE(iterator->Valid());
  EXPECT_EQ(iterator->key().ToString(), "key");
  iterator.reset();
  {
    ref = Find("a");
    ReadTransaction transaction(ref.get());
    ASSERT_TRUE(Ok(ref->Put({}, "KEY", "2")));
    EXPECT_EQ(CloseIdle(), 0u);
    std::string value;
    ASSERT_TRUE(Ok(transaction.Get({}, "kEY", &value)));
    EXPECT_EQ(value, "1");
  }
  ref.Reset();
  EXPECT_EQ(CloseIdle(), 1u);
  EXPECT_EQ(Get("a", "key"), "2");
  ASSERT_TRUE(Ok(catalog_->Drop("A")));
  EXPECT_THAT(Files(), ElementsAre());
}

TEST_F(CatalogKeyCaseTest, DatabasesOfTheOtherKindAreRefused) {
  ASSERT_TRUE(Ok(catalog_->Create("a")));
  Put("a", "Key", "value");
  options_.options.key_case = KeyCase::kSensitive;
  Open();
  for (int round = 0; round < 2; ++round) {
    const Status status = FindStatus("a");
    EXPECT_TRUE(status.IsInvalidArgument());
    EXPECT_THAT(status.ToString(), HasSubstr("are case-insensitive"));
  }
  EXPECT_EQ(catalog_->GetCounts().open, 0u);
  ASSERT_TRUE(Ok(catalog_->Create("b")));
  Put("b", "Key", "value");
  EXPECT_THAT(Entries("b"), ElementsAre(Pair("Key", "value")));
  options_.options.key_case = KeyCase::kInsensitive;
  Open();
  EXPECT_EQ(Get("a", "KEY"), "value");
  EXPECT_THAT(FindStatus("b").ToString(), HasSubstr("are case-sensitive"));
  // A database that cannot be opened can be dropped.
  EXPECT_TRUE(Ok(catalog_->Drop("b")));
}

}  // namespace
}  // namespace varve::test
