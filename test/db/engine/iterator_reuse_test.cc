// Varve: a key-value storage engine. MIT licence, see LICENSE.
// Tags: threads variants
//
// Goal: iterators that reuse the memory and trees of earlier ones show the same
// entries as new ones, and kept memory keeps no object alive. Method: iterators
// in sequence, nested, of several databases, and moved between threads, while
// the databases change.

#include "test/testing/db_helpers.h"
#include "test/testing/directory.h"
#include "test/testing/test_headers.h"
#include "varve/testing/fault_injection_env.h"

namespace varve::test {
namespace {

class IteratorReuseTest : public DbTestBase {
 protected:
  // Key i has the value of that list, or is not there if it is empty.
  void Model(int keys) { expected_.resize(static_cast<size_t>(keys)); }
  void Write(int key, const std::string& value) {
    expected_[static_cast<size_t>(key)] = value;
    if (value.empty()) {
      Delete(Key(key));
    } else {
      Put(Key(key), value);
    }
  }
  EntryList Expected() const {
    EntryList list;
    for (size_t i = 0; i < expected_.size(); i++) {
      if (!expected_[i].empty()) {
        list.emplace_back(Key(static_cast<int>(i)), expected_[i]);
      }
    }
    return list;
  }
  void Check() { ASSERT_TRUE(HasEntries(db_.get(), Expected(), {}, false)); }

  uint64_t Property(const std::string& name) {
    uint64_t value = 0;
    EXPECT_TRUE(db_->GetIntProperty("varve." + name, &value)) << name;
    return value;
  }

  std::vector<std::string> expected_;
};

TEST_F(IteratorReuseTest, EachChangeOfTheDatabaseIsSeen) {
  options_.disable_auto_compactions = true;
  Open();
  Model(300);
  Check();  // Empty: no child.
  Write(1, "a");
  Check();  // A memtable.
  Write(2, "b");
  Check();  // The same tree.
  Write(1, "");
  Check();
  Flush();
  Check();  // A table, and an empty memtable.
  Write(3, "c");
  Check();
  ASSERT_TRUE(Ok(db_->DeleteRange({}, Key(2), Key(3))));
  expected_[2].clear();
  Check();  // A filter, from now on.
  Write(2, "d");
  Check();
  Flush();
  Check();
  for (int i = 10; i < 300; i++) Write(i, std::string(500, 'v'));
  Check();
  Flush();
  CompactAll();
  Check();  // Many tables of a level.
  for (int i = 10; i < 300; i += 3) Write(i, "");
  Check();
  CompactAll();
  Check();
  Reopen();
  Check();
}

TEST_F(IteratorReuseTest, OptionsOfAnEarlierOneDoNotStay) {
  Open();
  Model(50);
  for (int i = 0; i < 50; i++) Write(i, "old" + std::to_string(i));
  Flush();
  {
    const std::string lower_key = Key(10);
    const std::string upper_key = Key(20);
    const Slice lower(lower_key);
    const Slice upper(upper_key);
    ReadOptions options;
    options.iterate_lower_bound = &lower;
    options.iterate_upper_bound = &upper;
    options.snapshot = db_->GetSnapshot();
    Write(15, "new");
    EntryList found;
    ASSERT_TRUE(Ok(ScanForward(db_.get(), options, &found)));
    ASSERT_EQ(found.size(), 10u);
    EXPECT_EQ(found[5].second, "old15");
    db_->ReleaseSnapshot(options.snapshot);
  }
  Check();
}

TEST_F(IteratorReuseTest, NestedOnesStandWhereTheyStood) {
  Open();
  Model(200);
  for (int i = 0; i < 200; i++) Write(i, std::string(i % 90, 'x') + "y");
  Flush();
  // More than a thread keeps, and in an order that is none of a stack.
  for (int round = 0; round < 3; round++) {
    std::vector<std::unique_ptr<Iterator>> iterators;
    for (int i = 0; i < 7; i++) {
      iterators.push_back(db_->NewIterator({}));
      iterators.back()->Seek(Key(20 * i));
    }
    iterators.erase(iterators.begin() + 2);
    iterators.push_back(db_->NewIterator({}));
    iterators.back()->Seek(Key(40));
    std::swap(iterators[2], iterators.back());
    for (int step = 0; step < 15; step++) {
      for (size_t i = 0; i < iterators.size(); i++) {
        const int place =
            i == 2 ? 2 : (i == 6 ? 3 : static_cast<int>(i + (i > 1)));
        ASSERT_TRUE(iterators[i]->Valid());
        EXPECT_EQ(iterators[i]->key(), Slice(Key(20 * place + step)));
        iterators[i]->Next();
      }
    }
  }
}

TEST_F(IteratorReuseTest, DatabasesDoNotMixUp) {
  constexpr int kDatabases = 6;  // More than a thread keeps.
  std::vector<std::unique_ptr<DB>> databases(kDatabases);
  for (int round = 0; round < 3; round++) {
    for (int i = 0; i < kDatabases; i++) {
      auto& db = databases[static_cast<size_t>(i)];
      ASSERT_TRUE(
          Ok(DB::Open(options_, dir_.Sub("db" + std::to_string(i)), &db)));
      for (int key = 0; key <= i; key++) {
        ASSERT_TRUE(Ok(db->Put({}, Key(key), std::to_string(i + round))));
      }
      if (round == i % 3) {
        ASSERT_TRUE(Ok(db->Flush({})));
      }
    }
    for (int turn = 0; turn < 4; turn++) {
      for (int i = 0; i < kDatabases; i++) {
        EntryList found;
        ASSERT_TRUE(Ok(
            ScanForward(databases[static_cast<size_t>(i)].get(), {}, &found)));
        ASSERT_EQ(found.size(), static_cast<size_t>(i + 1));
        for (const auto& [key, value] : found) {
          EXPECT_EQ(value, std::to_string(i + round));
        }
      }
    }
    for (auto& db : databases) ASSERT_TRUE(Ok(db->Close()));
    for (auto& db : databases) db.reset();
  }
}

TEST_F(IteratorReuseTest, KeptMemoryReferencesNothing) {
  options_.disable_auto_compactions = true;
  options_.block_cache = NewTestCache(8 << 20);
  Open();
  Model(2000);
  for (int i = 0; i < 2000; i++) Write(i, std::string(100, 'v'));
  Flush();
  for (int i = 0; i < 2000; i += 2) Write(i, std::string(100, 'w'));
  Flush();
  std::vector<std::unique_ptr<Iterator>> iterators;
  for (int i = 0; i < 4; i++) {
    iterators.push_back(db_->NewIterator({}));
    iterators.back()->Seek(Key(500 * i));
  }
  EXPECT_GT(options_.block_cache->GetPinnedUsage(), 0u);
  iterators.clear();
  EXPECT_EQ(options_.block_cache->GetPinnedUsage(), 0u);
  const auto tables = [this] { return FilesEndingIn(path_, ".sst").size(); };
  const size_t before = tables();
  CompactAll();
  ASSERT_TRUE(Ok(db_->WaitForCompact()));
  EXPECT_EQ(Property("num-live-versions"), 1u);
  uint64_t live = 0;
  for (int level = 0; level < 7; level++) {
    live += Property("num-files-at-level" + std::to_string(level));
  }
  EXPECT_LT(live, before);
  EXPECT_EQ(tables(), live) << "a kept arena holds a table";
  Check();
  Close();
}

TEST_F(IteratorReuseTest, AnIteratorMayEndOnAnotherThread) {
  Open();
  Model(500);
  for (int i = 0; i < 500; i++) Write(i, std::string(50, 'v'));
  Flush();
  for (int i = 0; i < 500; i += 2) Write(i, "w");
  const EntryList expected = Expected();
  std::atomic<int> wrong = 0;
  for (int round = 0; round < 20; round++) {
    std::unique_ptr<Iterator> handed = db_->NewIterator({});
    handed->SeekToFirst();
    std::thread([&] {
      for (const auto& [key, value] : expected) {
        if (!handed->Valid() || handed->key() != Slice(key) ||
            handed->value() != Slice(value)) {
          ++wrong;
          break;
        }
        handed->Next();
      }
      handed.reset();
      // From what the other thread's iterator was.
      if (!HasEntries(db_.get(), expected, {}, false)) ++wrong;
      handed = db_->NewIterator({});
      handed->SeekToLast();
    }).join();
    // Its thread has ended.
    EXPECT_EQ(handed->key(), Slice(expected.back().first));
    handed.reset();
    if (round % 5 == 0) Flush();
  }
  EXPECT_EQ(wrong, 0);
}

// Then its references are of that thread, and those before are released.
TEST_F(IteratorReuseTest, AnIteratorMayBeRefreshedOnAnotherThread) {
  Open();
  Put("k", "0");
  std::unique_ptr<Iterator> handed = db_->NewIterator({});
  for (int round = 1; round <= 4; ++round) {
    const std::string value = std::to_string(round);
    Put("k", value);
    if (round % 2 == 0) Flush();
    std::thread([&] {
      EXPECT_TRUE(Ok(handed->Refresh()));
      handed->SeekToFirst();
      EXPECT_EQ(handed->value().ToString(), value);
    }).join();
    if (round % 2 == 0) {
      EXPECT_TRUE(Ok(handed->Refresh()));
    }
  }
  std::thread([&] { handed.reset(); }).join();
  CompactAll();
  ASSERT_TRUE(Ok(db_->WaitForCompact()));
  EXPECT_EQ(Property("num-live-versions"), 1u);
  EXPECT_TRUE(Ok(db_->Close()));
}

// The first iterator cannot read them, and is not moved.
TEST_F(IteratorReuseTest, UnreadableRangeDeletionsAreReadAgain) {
  FaultInjectionEnv env(Env::Default());
  options_.env = &env;
  options_.disable_auto_compactions = true;
  Open();
  for (const char* key : {"a", "b", "c"}) Put(key, "v");
  const Snapshot* const snapshot = db_->GetSnapshot();
  ASSERT_TRUE(Ok(db_->DeleteRange({}, "b", "c")));
  Flush();
  CompactAll();  // To a level whose tables are read when they are reached.
  db_->ReleaseSnapshot(snapshot);
  options_.paranoid_checks = false;  // Open opens no tables.
  Reopen();
  env.SetPathFilter(".sst");
  env.FailAfter(0, Status::Corruption("test"), kReadOperation);
  db_->NewIterator({});
  EXPECT_EQ(env.FailureCount(), 1u);
  env.ClearFailure();
  EXPECT_TRUE(HasEntries(db_.get(), {{"a", "v"}, {"c", "v"}}));
  db_.reset();  // It uses the Env.
}

TEST_F(IteratorReuseTest, ManyThreadsWhileTheDatabaseChanges) {
  Open();
  constexpr int kKeys = 400;
  for (int i = 0; i < kKeys; i++) Put(Key(i), "0");
  std::atomic<bool> stop = false;
  std::atomic<int> wrong = 0;
  std::vector<std::thread> readers;
  for (int t = 0; t < 3; t++) {
    readers.emplace_back([&] {
      while (!stop) {
        const auto outer = db_->NewIterator({});
        const auto inner = db_->NewIterator({});
        inner->SeekToFirst();
        int count = 0;
        std::string last;
        for (outer->SeekToFirst(); outer->Valid(); outer->Next()) {
          if (outer->key() != Slice(Key(count++))) ++wrong;
        }
        if (count != kKeys || !inner->Valid()) ++wrong;
      }
    });
  }
  for (int round = 1; round < 40; round++) {
    for (int i = 0; i < kKeys; i++) {
      Put(Key(i), std::string(100, static_cast<char>('a' + round % 26)));
    }
    if (round % 3 == 0) Flush();
  }
  stop = true;
  for (std::thread& reader : readers) reader.join();
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace varve::test
