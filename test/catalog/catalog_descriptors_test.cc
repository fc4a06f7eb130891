// Varve: a key-value storage engine. MIT licence, see LICENSE.
// Tags: threads unsanitized
//
// Goal: a catalog has as many databases as it likes, whatever the limit of file
// descriptors, as long as not all are in use at once. Method: more databases
// than descriptors; descriptors that the program takes away later; references
// and iterators that keep databases from being closed.

#include "experimental/ablation_experiment.h"
#include "test/testing/db_helpers.h"
#include "test/testing/env/descriptor_limit.h"
#include "test/testing/env/hook_env.h"
#include "test/testing/test_headers.h"
#include "test/testing/threads/run_threads.h"
#include "util/base/random.h"
#include "varve/catalog.h"

namespace varve::test {
namespace {

class CatalogDescriptorsTest : public ::testing::Test {
 protected:
  CatalogDescriptorsTest() {
    options_.options = TinyOptions();
    // The other form keeps files open.
    AblationOptions ablation = TEST_ChoicesOf(options_.options);
    ablation.table_open = {};
    options_.options.experiment = NewExperiment(ablation);
    options_.create_if_missing = true;
  }
  void Open() {
    catalog_.reset();
    ASSERT_TRUE(Ok(Catalog::Open(options_, dir_.Sub("catalog"), &catalog_)));
  }
  static std::string Name(int i) { return "database" + std::to_string(i); }
  void Create(int count) {
    for (int i = 0; i < count; ++i) {
      ASSERT_TRUE(Ok(catalog_->Create(Name(i))));
      Put(i, "first");
    }
  }
  void Put(int i, const std::string& value) {
    DatabaseRef ref;
    ASSERT_TRUE(Ok(catalog_->Find(Name(i), &ref)));
    ASSERT_TRUE(Ok(ref->Put({}, Name(i), value)));
  }
  std::string Get(int i) {
    DatabaseRef ref;
    Status status = catalog_->Find(Name(i), &ref);
    std::string value;
    if (status.ok()) status = ref->Get({}, Name(i), &value);
    return status.ok() ? value : status.ToString();
  }
  size_t CountOpen() { return catalog_->GetCounts().open; }

  TempDir dir_;
  CatalogOptions options_;
  std::unique_ptr<Catalog> catalog_;
};

TEST_F(CatalogDescriptorsTest, IdleDatabasesAreClosedForOthers) {
  for (const int limit : {40, 100}) {
    SCOPED_TRACE(limit);
    const DescriptorLimit few(limit);
    Open();
    if (limit == 40) Create(50);
    EXPECT_LT(CountOpen(), static_cast<size_t>(limit) / 5);
    Random random(1);
    for (int i = 0; i < 100; ++i) {
      const int database = static_cast<int>(random.Uniform(50));
      EXPECT_EQ(Get(database), "first");
    }
    DatabaseRef ref;
    ASSERT_TRUE(Ok(catalog_->Find(Name(25), &ref)));
    ASSERT_TRUE(Ok(ref->Flush({})));
    ASSERT_TRUE(Ok(ref->CompactRange({}, nullptr, nullptr)));
  }
}

TEST_F(CatalogDescriptorsTest, UpdatesWithoutALogAreKept) {
  for (const bool fails : {false, true}) {
    for (const bool avoid_flush : {false, true}) {
      SCOPED_TRACE(testing::Message() << fails << " " << avoid_flush);
      HookEnv env(kCreateOperation, Name(0) + "/");
      std::atomic<bool> refuses{false};
      env.hook = [&](const std::string& path) {
        return refuses && path.ends_with(".sst")
                   ? Status::IOError(path, "test: no tables here")
                   : Status::OK();
      };
      options_.options.env = &env;
      options_.options.avoid_flush_during_shutdown = avoid_flush;
      const DescriptorLimit few(64);
      Open();
      ASSERT_TRUE(Ok(catalog_->Create(Name(0))));
      {
        DatabaseRef ref;
        ASSERT_TRUE(Ok(catalog_->Find(Name(0), &ref)));
        ASSERT_TRUE(Ok(ref->Put({.disable_wal = true}, Name(0), "unlogged")));
      }
      refuses = fails;
      for (int i = 1; i < 30; ++i) {
        ASSERT_TRUE(Ok(catalog_->Create(Name(i))));
        Put(i, "first");
      }
      EXPECT_LT(CountOpen(), 20u);
      EXPECT_EQ(Get(0), "unlogged");
      refuses = false;
      catalog_->Close().IgnoreError();  // The flush failed.
      catalog_.reset();
      std::filesystem::remove_all(dir_.Sub("catalog"));
    }
  }
}

// The flush is done by the database under what folds its keys.
TEST_F(CatalogDescriptorsTest, UpdatesOfFoldedKeysWithoutALogAreKept) {
  options_.options.key_case = KeyCase::kInsensitive;
  options_.options.avoid_flush_during_shutdown = true;
  const DescriptorLimit few(64);
  Open();
  ASSERT_TRUE(Ok(catalog_->Create(Name(0))));
  {
    DatabaseRef ref;
    ASSERT_TRUE(Ok(catalog_->Find(Name(0), &ref)));
    ASSERT_TRUE(Ok(ref->Put({.disable_wal = true}, "DataBase0", "unlogged")));
  }
  for (int i = 1; i < 30; ++i) {
    ASSERT_TRUE(Ok(catalog_->Create(Name(i))));
    Put(i, "first");
  }
  EXPECT_LT(CountOpen(), 20u);
  EXPECT_EQ(Get(0), "unlogged");
}

TEST_F(CatalogDescriptorsTest, ThreadsUseMoreThanFit) {
  const DescriptorLimit few(70);
  Open();
  Create(60);
  RunThreads(4, [this](int t) {
    Random random(static_cast<uint64_t>(t));
    for (int i = 0; i < 100; ++i) {
      // Each has its own to write to.
      const int database = 4 * static_cast<int>(random.Uniform(15)) + t;
      const std::string value = std::to_string(i);
      Put(database, value);
      EXPECT_EQ(Get(database), value);
    }
  });
  ASSERT_TRUE(Ok(catalog_->Close()));
}

TEST_F(CatalogDescriptorsTest, TheLeastUsedAreClosed) {
  const DescriptorLimit few(100);
  Open();
  Create(8);
  DatabaseRef used;
  ASSERT_TRUE(Ok(catalog_->Find(Name(0), &used)));
  const DB* const used_db = used.operator->();
  for (int i = 8; i < 40; ++i) {
    ASSERT_TRUE(Ok(catalog_->Create(Name(i))));
    DatabaseRef again;
    // The database has a reference, so it is not closed and replaced.
    ASSERT_TRUE(Ok(catalog_->Find(Name(0), &again)));
    EXPECT_EQ(again.operator->(), used_db);
  }
  std::string value;
  EXPECT_TRUE(Ok(used->Get({}, Name(0), &value)));
}

// The open that lacks a descriptor is in another database's flush, whose mutex
// is held; nobody calls the catalog.
TEST_F(CatalogDescriptorsTest, AFlushGetsTheDescriptorsOfIdleDatabases) {
  const DescriptorLimit few(100);
  Open();
  Create(6);
  DatabaseRef ref;
  ASSERT_TRUE(Ok(catalog_->Find(Name(0), &ref)));
  for (int round = 0; round < 4; ++round) {
    OwnDescriptors own;
    own.Take();
    for (int i = 0; i < 10; ++i) ASSERT_TRUE(Ok(ref->Put({}, Key(i), "value")));
    ASSERT_TRUE(Ok(ref->Flush({})));
    own.CloseAll();
    for (int i = 1; i < 6; ++i) EXPECT_EQ(Get(i), "first");
  }
}

TEST_F(CatalogDescriptorsTest, AllInUseIsAnErrorThatPasses) {
  const DescriptorLimit few(60);
  Open();
  std::vector<DatabaseRef> refs;
  Status status;
  for (int i = 0; i < 30 && status.ok(); ++i) {
    status = catalog_->Create(Name(i));
    if (status.ok()) {
      refs.emplace_back();
      status = catalog_->Find(Name(i), &refs.back());
    }
  }
  EXPECT_TRUE(IsOutOfDescriptors(status)) << status.ToString();
  EXPECT_GE(refs.size(), 7u);
  refs.resize(refs.size() / 2);
  EXPECT_TRUE(Ok(catalog_->Create("another")));
}

TEST_F(CatalogDescriptorsTest, IteratorsKeepDatabasesOpen) {
  const DescriptorLimit few(80);
  Open();
  Create(4);
  std::vector<std::unique_ptr<Iterator>> iterators;
  for (int i = 0; i < 4; ++i) {
    DatabaseRef ref;
    ASSERT_TRUE(Ok(catalog_->Find(Name(i), &ref)));
    iterators.push_back(ref->NewIterator({}));
    iterators.back()->SeekToFirst();
  }
  for (int i = 4; i < 40; ++i) ASSERT_TRUE(Ok(catalog_->Create(Name(i))));
  for (int i = 0; i < 4; ++i) {
    ASSERT_TRUE(iterators[i]->Valid());
    EXPECT_EQ(iterators[i]->value().ToString(), "first");
  }
  EXPECT_TRUE(catalog_->Close().IsBusy());
  iterators.clear();
  for (int i = 0; i < 4; ++i) EXPECT_EQ(Get(i), "first");
  EXPECT_TRUE(Ok(catalog_->Close()));
}

}  // namespace
}  // namespace varve::test
