// Varve: a key-value storage engine. MIT licence, see LICENSE.
// Tags: variants
//
// Goal: a name in any case finds its database. A database stays open while a
// reference to it exists, and exists or not as the last successful call left
// it, even after the process died inside a call. Method: each call in each
// state; references that block Drop and CloseIdle; directories as a killed
// process leaves them.
#include "varve/catalog.h"

#include "experimental/ablation_experiment.h"
#include "test/testing/db/catalog_fixture.h"
#include "test/testing/db_helpers.h"
#include "test/testing/directory.h"
#include "test/testing/env/date_env.h"
#include "test/testing/machine/live_threads.h"
#include "test/testing/test_headers.h"
#include "test/testing/threads/actor.h"
#include "util/threads/epoch.h"
#include "varve/write_buffer_manager.h"

namespace varve::test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class CatalogTest : public CatalogTestBase {};

// One that hangs in a read of whatever database is not waited for.
TEST_F(CatalogTest, EndsDatabasesWhileAReaderStaysInside) {
  for (const std::string name : {"one", "two"}) {
    ASSERT_TRUE(Ok(catalog_->Create(name)));
    Put(name, "key", name);
  }
  Actor reader;
  reader.Do([] { EpochGuard::Enter(CurrentThreadRecord()); });
  EXPECT_EQ(CloseIdle(), 2u);
  EXPECT_EQ(Get("one", "key"), "one");
  EXPECT_TRUE(Ok(catalog_->Drop("one")));
  EXPECT_TRUE(FindStatus("one").IsNotFound());
  ASSERT_TRUE(Ok(catalog_->Create("one")));
  Put("one", "key", "again");
  EXPECT_EQ(Get("one", "key"), "again");
  reader.Do([] { EpochGuard::Exit(CurrentThreadRecord()); });
  EXPECT_EQ(Get("two", "key"), "two");
}

TEST_F(CatalogTest, FindsInAnyCase) {
  ASSERT_TRUE(Ok(catalog_->Create("Oren")));
  ASSERT_TRUE(Ok(catalog_->Create("Straße")));
  const DatabaseRef oren = Find("oren");
  for (int round = 0; round < 3; ++round) {
    for (const char* name : {"Oren", "oren", "oRen", "OREN"}) {
      EXPECT_EQ(Find(name).get(), oren.get()) << name;
    }
    EXPECT_NE(Find("STRASSE").get(), oren.get());
    EXPECT_EQ(Find("strasse").get(), Find("Straße").get());
    EXPECT_TRUE(FindStatus("ore").IsNotFound());
    EXPECT_TRUE(FindStatus("orenn").IsNotFound());
  }
  EXPECT_THAT(Names(), ElementsAre("oren", "strasse"));
  EXPECT_THAT(Files(), ElementsAre("db-oren", "db-strasse"));
}

TEST_F(CatalogTest, OpensRequestedDatabasesOnly) {
  for (const char* name : {"a", "b", "c"}) {
    ASSERT_TRUE(Ok(catalog_->Create(name)));
    Put(name, "key", name);
  }
  EXPECT_EQ(catalog_->GetCounts().open, 3u);
  Open();
  EXPECT_EQ(catalog_->GetCounts().open, 0u);
  EXPECT_THAT(Names(), ElementsAre("a", "b", "c"));
  EXPECT_EQ(Get("B", "key"), "b");
  EXPECT_EQ(catalog_->GetCounts().open, 1u);
  EXPECT_EQ(catalog_->GetCounts().databases, 3u);
}

TEST_F(CatalogTest, RefusesInvalidNames) {
  for (const char* name : {"", "../x", "a/b", "con", "a\n", "\xFF", "x."}) {
    EXPECT_TRUE(catalog_->Create(name).IsInvalidArgument()) << name;
    EXPECT_TRUE(FindStatus(name).IsInvalidArgument()) << name;
    EXPECT_TRUE(catalog_->Drop(name).IsInvalidArgument()) << name;
  }
  EXPECT_TRUE(FindStatus(std::string(5000, 'x')).IsInvalidArgument());
  EXPECT_THAT(Names(), IsEmpty());
  EXPECT_THAT(Files(), IsEmpty());
  ASSERT_TRUE(Ok(catalog_->Create("name")));
  EXPECT_TRUE(catalog_->Create("NAME").IsInvalidArgument());
}

TEST_F(CatalogTest, ClosesUnusedDatabases) {
  for (const char* name : {"a", "b"}) {
    ASSERT_TRUE(Ok(catalog_->Create(name)));
    Put(name, "key", name);
  }
  DatabaseRef used = Find("a");
  EXPECT_EQ(CloseIdle(), 1u);
  EXPECT_EQ(catalog_->GetCounts().open, 1u);
  EXPECT_EQ(Find("A").get(), used.get());
  ASSERT_TRUE(Ok(used->Put({}, "more", "1")));
  EXPECT_EQ(Get("b", "key"), "b");
  used.Reset();
  EXPECT_FALSE(used);
  EXPECT_EQ(CloseIdle(), 2u);
  EXPECT_EQ(CloseIdle(), 0u);
  EXPECT_EQ(Get("a", "more"), "1");
}

TEST_F(CatalogTest, ClosesDatabasesNotRequestedSince) {
  ASSERT_TRUE(Ok(catalog_->Create("a")));
  Find("a");
  constexpr uint64_t kForEver = uint64_t{1} << 50;
  EXPECT_EQ(CloseIdle(kForEver), 0u);
  const uint64_t start_us = Env::Default()->NowMicros();
  while (Env::Default()->NowMicros() < start_us + 2) {
  }
  // Asked for since.
  Find("a");
  EXPECT_EQ(CloseIdle(kForEver), 0u);
  const uint64_t again_us = Env::Default()->NowMicros();
  while (Env::Default()->NowMicros() < again_us + 2) {
  }
  EXPECT_EQ(CloseIdle(1), 1u);
}

TEST_F(CatalogTest, IteratorsKeepADatabaseOpen) {
  ASSERT_TRUE(Ok(catalog_->Create("a")));
  DatabaseRef ref = Find("a");
  DB* const db = ref.get();
  auto iterator = ref->NewIterator({});
  // By mistake, before the iterator.
  ref.Reset();
  EXPECT_EQ(CloseIdle(), 0u);
  EXPECT_TRUE(catalog_->Drop("a").IsBusy());
  EXPECT_EQ(Find("A").get(), db);
  EXPECT_TRUE(catalog_->Close().IsBusy());
  iterator.reset();
  EXPECT_EQ(CloseIdle(), 1u);
}

TEST_F(CatalogTest, DropsWithAllFiles) {
  ASSERT_TRUE(Ok(catalog_->Create("Gone")));
  ASSERT_TRUE(Ok(catalog_->Create("stays")));
  Put("gone", "key", "old");
  ASSERT_TRUE(Ok(Find("gone")->Flush({})));
  std::filesystem::create_directory(root_ + "/db-gone/lost");
  ASSERT_TRUE(Ok(WriteStringToFile(Env::Default(), "x",
                                   root_ + "/db-gone/lost/000009.sst", false)));
  ASSERT_TRUE(Ok(catalog_->Drop("GONE")));
  EXPECT_TRUE(FindStatus("gone").IsNotFound());
  EXPECT_TRUE(FindStatus("Gone").IsNotFound());
  EXPECT_TRUE(catalog_->Drop("gone").IsNotFound());
  EXPECT_THAT(Names(), ElementsAre("stays"));
  EXPECT_THAT(Files(), ElementsAre("db-stays"));
  // Another one of that name.
  ASSERT_TRUE(Ok(catalog_->Create("gone")));
  EXPECT_THAT(Get("Gone", "key"), HasSubstr("NotFound"));
  // One that is not open.
  EXPECT_EQ(CloseIdle(), 2u);
  ASSERT_TRUE(Ok(catalog_->Drop("gone")));
  EXPECT_THAT(Files(), ElementsAre("db-stays"));
}

// An open by path, or a lock of the root, protects the database.
TEST_F(CatalogTest, DatabasesOpenElsewhereAreNotRemoved) {
  ASSERT_TRUE(Ok(catalog_->Create("a")));
  EXPECT_EQ(CloseIdle(), 1u);
  std::unique_ptr<DB> db;
  ASSERT_TRUE(Ok(DB::Open(options_.options, root_ + "/db-a", &db)));
  ASSERT_TRUE(Ok(db->Put({}, "key", "value")));
  EXPECT_TRUE(catalog_->Drop("a").IsBusy());
  ASSERT_TRUE(Ok(db->Flush({})));
  db.reset();
  EXPECT_EQ(Get("a", "key"), "value");
  EXPECT_TRUE(DestroyDB(root_, options_.options).IsBusy());
  std::unique_ptr<Catalog> second;
  EXPECT_TRUE(Catalog::Open(options_, root_, &second).IsBusy());
  ASSERT_TRUE(Ok(catalog_->Drop("a")));
  EXPECT_THAT(Files(), ElementsAre());
}

TEST_F(CatalogTest, DropIsBusyWhileReferencesAreOut) {
  ASSERT_TRUE(Ok(catalog_->Create("a")));
  DatabaseRef ref = Find("a");
  EXPECT_TRUE(IsBusy(catalog_->Drop("a")));
  // It is as it was.
  EXPECT_EQ(Find("A").get(), ref.get());
  ASSERT_TRUE(Ok(ref->Put({}, "key", "value")));
  EXPECT_EQ(Get("a", "key"), "value");
  DatabaseRef moved = std::move(ref);
  EXPECT_TRUE(catalog_->Drop("a").IsBusy());
  moved = DatabaseRef();
  EXPECT_TRUE(Ok(catalog_->Drop("a")));
}

TEST_F(CatalogTest, DropWaitsForReferences) {
  options_.drop_timeout_us = 1000000000;
  Open();
  ASSERT_TRUE(Ok(catalog_->Create("a")));
  DatabaseRef ref = Find("a");
  Actor dropper;
  Actor finder;
  Status dropped;
  Status found;
  dropper.Start([&] { dropped = catalog_->Drop("a"); });
  while (catalog_->GetCounts().open > 0) std::this_thread::yield();
  // From now on nobody gets another one.
  finder.Start([&] { found = FindStatus("a"); });
  ASSERT_TRUE(Ok(ref->Put({}, "still", "there")));
  ref.Reset();
  dropper.Wait();
  finder.Wait();
  EXPECT_TRUE(Ok(dropped));
  EXPECT_TRUE(IsNotFound(found));
}

TEST_F(CatalogTest, AReferenceMayBeGivenBackElsewhere) {
  ASSERT_TRUE(Ok(catalog_->Create("a")));
  DatabaseRef ref;
  {
    Actor finder;
    finder.Do([&] { ref = Find("a"); });
  }
  EXPECT_TRUE(catalog_->Drop("a").IsBusy());
  Actor another;
  another.Do([&] { ref.Reset(); });
  EXPECT_TRUE(Ok(catalog_->Drop("a")));
}

TEST_F(CatalogTest, FindGivesTheFormerReferenceBack) {
  ASSERT_TRUE(Ok(catalog_->Create("a")));
  ASSERT_TRUE(Ok(catalog_->Create("b")));
  DatabaseRef ref = Find("a");
  ASSERT_TRUE(Ok(catalog_->Find("b", &ref)));
  EXPECT_TRUE(Ok(catalog_->Drop("a")));
  EXPECT_TRUE(catalog_->Find("c", &ref).IsNotFound());
  EXPECT_FALSE(ref);
  EXPECT_TRUE(Ok(catalog_->Drop("b")));
}

TEST_F(CatalogTest, CachesABoundedNumberOfNames) {
  options_.max_cached_names = 8;
  Open();
  for (const char* name : {"abcdefgh", "a database with a longer name"}) {
    ASSERT_TRUE(Ok(catalog_->Create(name)));
    for (int bits = 0; bits < 256; ++bits) {
      std::string variant = name;
      for (size_t i = 0; i < 8; ++i) {
        if ((bits >> i & 1) != 0 && variant[i] != ' ') variant[i] ^= 0x20;
      }
      EXPECT_TRUE(Ok(FindStatus(variant)));
      EXPECT_TRUE(Ok(FindStatus(variant)));
      EXPECT_LE(catalog_->GetCounts().cached_names, 8u);
    }
  }
  ASSERT_TRUE(Ok(catalog_->Drop("abcdefgh")));
  ASSERT_TRUE(Ok(catalog_->Drop("A Database With A Longer Name")));
  EXPECT_EQ(catalog_->GetCounts().cached_names, 0u);
}

TEST_F(CatalogTest, CachesNoNameTwice) {
  ASSERT_TRUE(Ok(catalog_->Create("a")));
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(Ok(FindStatus("a")));
    EXPECT_TRUE(Ok(FindStatus("A")));
    CloseIdle();
  }
  const bool learns = TEST_ChoicesOf(options_.options).catalog == CatalogMode{};
  EXPECT_EQ(catalog_->GetCounts().cached_names, learns ? 2u : 0u);
}

TEST_F(CatalogTest, IsOpenOnce) {
  std::unique_ptr<Catalog> second;
  EXPECT_TRUE(Catalog::Open(options_, root_, &second).IsBusy());
  ASSERT_TRUE(Ok(catalog_->Close()));
  EXPECT_TRUE(Ok(Catalog::Open(options_, root_, &second)));
}

TEST_F(CatalogTest, RefusesUnsuitableOptions) {
  std::unique_ptr<Catalog> other;
  CatalogOptions options = options_;
  options.create_if_missing = false;
  EXPECT_TRUE(
      Catalog::Open(options, dir_.Sub("none"), &other).IsInvalidArgument());
  options = options_;
  options.max_cached_names = 3;
  EXPECT_TRUE(
      Catalog::Open(options, dir_.Sub("new"), &other).IsInvalidArgument());
  options = options_;
  options.options.comparator = nullptr;
  EXPECT_TRUE(
      Catalog::Open(options, dir_.Sub("new"), &other).IsInvalidArgument());
}

TEST_F(CatalogTest, ARemovedDirectoryIsNotAMissingName) {
  ASSERT_TRUE(Ok(catalog_->Create("a")));
  EXPECT_EQ(CloseIdle(), 1u);
  std::filesystem::rename(root_ + "/db-a", root_ + "/elsewhere");
  EXPECT_THAT(FindStatus("a").ToString(), HasSubstr("Corruption"));
  EXPECT_TRUE(FindStatus("b").IsNotFound());
  std::filesystem::rename(root_ + "/elsewhere", root_ + "/db-a");
  EXPECT_TRUE(FindStatus("a").ok());
}

TEST_F(CatalogTest, ADatabaseThatCannotBeOpenedIsTriedAgain) {
  ASSERT_TRUE(Ok(catalog_->Create("a")));
  Put("a", "key", "value");
  EXPECT_EQ(CloseIdle(), 1u);
  std::unique_ptr<DB> elsewhere;
  ASSERT_TRUE(Ok(DB::Open(options_.options, root_ + "/db-a", &elsewhere)));
  EXPECT_TRUE(FindStatus("a").IsBusy());
  elsewhere.reset();
  EXPECT_EQ(Get("a", "key"), "value");
}

TEST_F(CatalogTest, LeftoversOfADeathAreRemoved) {
  ASSERT_TRUE(Ok(catalog_->Create("dropped")));
  Put("dropped", "key", "value");
  ASSERT_TRUE(Ok(catalog_->Close()));
  catalog_.reset();
  std::filesystem::rename(root_ + "/db-dropped", root_ + "/dropped-5");
  // One whose directory was made, and nothing in it; and what is not ours.
  std::filesystem::create_directory(root_ + "/db-new");
  std::filesystem::create_directory(root_ + "/db-Strange");
  Open();
  EXPECT_THAT(Names(), ElementsAre("new"));
  EXPECT_THAT(Files(), ElementsAre("db-Strange", "db-new"));
  Put("new", "key", "value");
  ASSERT_TRUE(Ok(catalog_->Drop("new")));
  EXPECT_THAT(Files(), ElementsAre("db-Strange"));
  // It has come from elsewhere since.
  std::filesystem::create_directory(root_ + "/db-late");
  EXPECT_TRUE(catalog_->Create("late").IsInvalidArgument());
  EXPECT_TRUE(Ok(FindStatus("late")));
}

TEST_F(CatalogTest, LeavesFilesAndOtherNamesAlone) {
  ASSERT_TRUE(Ok(catalog_->Close()));
  catalog_.reset();
  WriteWholeFile(root_ + "/dropped-3", "notes\n");
  std::filesystem::create_directory(root_ + "/dropped-007");
  WriteWholeFile(root_ + "/dropped-007/CURRENT", "MANIFEST-000001\n");
  Open();
  ASSERT_TRUE(Ok(catalog_->Create("a")));
  ASSERT_TRUE(Ok(catalog_->Drop("a")));
  EXPECT_EQ(ReadWholeFile(root_ + "/dropped-3"), "notes\n");
  EXPECT_TRUE(std::filesystem::exists(root_ + "/dropped-007/CURRENT"));
}

TEST_F(CatalogTest, DatabasesShareCacheAndDescriptors) {
  options_.options.max_open_files = 16;
  options_.options.disable_auto_compactions = true;
  options_.options.block_cache = nullptr;
  Open();
  for (int i = 0; i < 6; ++i) {
    const std::string name = "db" + std::to_string(i);
    ASSERT_TRUE(Ok(catalog_->Create(name)));
    const DatabaseRef ref = Find(name);
    for (int table = 0; table < 5; ++table) {
      ASSERT_TRUE(Ok(ref->Put({}, Key(table), Key(i))));
      ASSERT_TRUE(Ok(ref->Flush({})));
    }
  }
  for (int i = 0; i < 6; ++i) {
    for (int table = 0; table < 5; ++table) {
      EXPECT_EQ(Get("DB" + std::to_string(i), Key(table)), Key(i));
      EXPECT_LE(catalog_->GetCounts().open_table_files, 16u);
    }
  }
  uint64_t usage[2] = {0, 0};
  ASSERT_TRUE(Find("db0")->GetIntProperty("varve.block-cache-usage", usage));
  ASSERT_TRUE(
      Find("db5")->GetIntProperty("varve.block-cache-usage", usage + 1));
  EXPECT_EQ(usage[0], usage[1]);
}

TEST_F(CatalogTest, DatabasesShareABudgetByDefault) {
  options_.options.write_buffer_size = 32 << 20;
  Open();
  EXPECT_EQ(catalog_->GetCounts().memtable_budget_bytes, 128u << 20);
  options_.options.write_buffer_size = 64 << 10;
  Open();
  EXPECT_EQ(catalog_->GetCounts().memtable_budget_bytes, 64u << 20);
}

TEST_F(CatalogTest, UsesTheGivenBudget) {
  const auto manager = std::make_shared<WriteBufferManager>(0);
  options_.options.write_buffer_manager = manager;
  Open();
  ASSERT_TRUE(Ok(catalog_->Create("a")));
  Put("a", "key", "value");
  EXPECT_EQ(catalog_->GetCounts().memtable_budget_bytes, 0u);
  manager->SetBufferSize(100 << 20);
  EXPECT_EQ(catalog_->GetCounts().memtable_budget_bytes, 100u << 20);
  EXPECT_EQ(catalog_->GetCounts().memtable_bytes, manager->memory_usage());
  catalog_.reset();
  EXPECT_EQ(manager->memory_usage(), 0u);
}

// The catalog would not know the families' options when it opens the database
// again.
TEST_F(CatalogTest, DatabasesHaveOneFamily) {
  ASSERT_TRUE(Ok(catalog_->Create("a")));
  {
    const DatabaseRef ref = Find("a");
    ColumnFamilyHandle* handle = nullptr;
    EXPECT_TRUE(IsNotSupported(ref->CreateColumnFamily({}, "family", &handle)));
    EXPECT_EQ(handle, nullptr);
    ASSERT_TRUE(Ok(ref->Put({}, ref->DefaultColumnFamily(), "key", "value")));
  }
  EXPECT_EQ(CloseIdle(), 1u);
  EXPECT_EQ(Get("a", "key"), "value");
  // A family that was created without the catalog.
  EXPECT_EQ(CloseIdle(), 1u);
  std::unique_ptr<DB> db;
  ASSERT_TRUE(Ok(DB::Open(options_.options, root_ + "/db-a", &db)));
  ColumnFamilyHandle* handle = nullptr;
  ASSERT_TRUE(Ok(db->CreateColumnFamily({}, "family", &handle)));
  delete handle;
  db.reset();
  EXPECT_TRUE(IsInvalidArgument(FindStatus("a"), "family"));
  // It can be dropped all the same.
  EXPECT_TRUE(Ok(catalog_->Drop("a")));
}

// They would have too many threads. Tables that are due for their age are
// compacted when their database is opened again.
TEST_F(CatalogTest, DatabasesHaveNoThreadForTheAgeOfTables) {
  DateEnv env(1700000000);
  options_.options.env = &env;
  options_.options.ttl = 1000;
  Open();
  ASSERT_TRUE(Ok(catalog_->Create("a")));
  Put("a", "key", "value");
  ASSERT_TRUE(Ok(Find("a")->Flush({})));
  EXPECT_EQ(CountLiveThreads("varve:age"), 0);
  env.now_s += 1001;
  EXPECT_EQ(CloseIdle(), 1u);
  {
    const DatabaseRef ref = Find("a");
    uint64_t tables = 1;
    for (int i = 0; i < 60000 && tables != 0; ++i) {
      Env::Default()->SleepForMicroseconds(1000);
      ASSERT_TRUE(ref->GetIntProperty("varve.num-files-at-level0", &tables));
    }
    EXPECT_EQ(tables, 0u);
  }
  catalog_.reset();  // Before the Env.
}

TEST_F(CatalogTest, WorksInMemory) {
  const auto memory = NewMemoryEnv(Env::Default());
  options_.options.env = memory.get();
  std::unique_ptr<Catalog> catalog;
  ASSERT_TRUE(Ok(memory->CreateDirIfMissing("/m")));
  ASSERT_TRUE(Ok(Catalog::Open(options_, "/m/root", &catalog)));
  ASSERT_TRUE(Ok(catalog->Create("a")));
  {
    DatabaseRef ref;
    ASSERT_TRUE(Ok(catalog->Find("A", &ref)));
    ASSERT_TRUE(Ok(ref->Put({}, "key", "value")));
  }
  ASSERT_TRUE(Ok(catalog->Drop("a")));
  std::vector<std::string> children;
  ASSERT_TRUE(Ok(memory->GetChildren("/m/root", &children)));
  EXPECT_THAT(children, ElementsAre("LOCK"));
  catalog.reset();
}

}  // namespace
}  // namespace varve::test
