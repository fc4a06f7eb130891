// Varve: a key-value storage engine. MIT licence, see LICENSE.
// Tags: threads
//
// Goal: families can be created, dropped, flushed, compacted and set while
// others write and read. A reader never sees a batch in one family and not in
// another. Method: writers put the same value of a key into all families that
// they know; two families stay, and two come and go; everything else happens
// beside that.

#include "test/testing/db/stress_threads.h"
#include "test/testing/test_headers.h"
#include "test/testing/threads/run_threads.h"
#include "util/base/mutex.h"
#include "varve/column_family.h"

namespace varve::test {
namespace {

constexpr int kWriters = 4;
constexpr int kKeysPerWriter = 40;
constexpr int kStaying = 2;
constexpr int kFamilies = 4;

using Handle = std::shared_ptr<ColumnFamilyHandle>;
using Handles = std::array<Handle, kFamilies>;

class DbFamiliesStressTest : public StressTestBase,
                             public ::testing::WithParamInterface<bool> {
 protected:
  void SetUp() override {
    StressTestBase::SetUp();
    options_.write_buffer_size = 64 << 10;
    options_.atomic_flush = GetParam();
    options_.max_total_wal_size = 1 << 20;
    options_.max_background_jobs = 3;
  }

  static std::string Name(int slot) { return "family" + std::to_string(slot); }

  void Open() {
    std::vector<std::string> names;
    if (!DB::ListColumnFamilies(options_, path_, &names).ok()) {
      names = {kDefaultColumnFamilyName};
    }
    std::vector<ColumnFamilyDescriptor> families;
    for (const std::string& name : names) families.emplace_back(name, options_);
    std::vector<ColumnFamilyHandle*> handles;
    ASSERT_TRUE(Ok(DB::Open(options_, path_, families, &handles, &db_)));
    for (ColumnFamilyHandle* const handle : handles) {
      const Handle owned(handle);
      for (int slot = 0; slot < kFamilies; ++slot) {
        if (handle->GetName() == Name(slot)) handles_[slot] = owned;
      }
    }
  }

  Handles Known() {
    MutexLock lock(&mutex_);
    return handles_;
  }
  void SetHandle(int slot, Handle handle) {
    MutexLock lock(&mutex_);
    handles_[slot].swap(handle);
  }
  // Returns whether the call succeeded, or was refused because the family has
  // been dropped.
  static bool OkOrDropped(const Status& s) {
    return s.ok() || (s.IsInvalidArgument() && Contains(s.message(), "drop")) ||
           (s.IsShutdownInProgress() && Contains(s.message(), "drop"));
  }

  void Create(int slot) {
    ColumnFamilyHandle* handle = nullptr;
    ASSERT_TRUE(Ok(db_->CreateColumnFamily(options_, Name(slot), &handle)));
    SetHandle(slot, Handle(handle));
  }

  void WriteSome(int writer, int* count, Rng* rng) {
    const std::string key =
        Key(writer * kKeysPerWriter + rng->Between(0, kKeysPerWriter - 1));
    ++*count;
    const Handles handles = Known();
    WriteBatch batch;
    for (const Handle& handle : handles) {
      if (handle != nullptr) batch.Put(handle.get(), key, Value(key, *count));
    }
    Status s = db_->Write({.sync = rng->OneIn(200)}, &batch);
    ASSERT_TRUE(OkOrDropped(s)) << s.ToString();
    // One update by itself takes another path.
    const Handle& other = handles[rng->Between(kStaying, kFamilies - 1)];
    if (other != nullptr && rng->OneIn(4)) {
      s = rng->OneIn(2) ? db_->Put({}, other.get(), key, Value(key, *count))
                        : db_->Delete({}, other.get(), key);
      ASSERT_TRUE(OkOrDropped(s)) << s.ToString();
    }
  }

  void CreateAndDrop(Rng* rng) {
    const int slot = rng->Between(kStaying, kFamilies - 1);
    const Handle known = Known()[slot];
    if (known == nullptr) {
      Create(slot);
    } else {
      // Others may use the handle for a while.
      ASSERT_TRUE(Ok(db_->DropColumnFamily(known.get())));
      SetHandle(slot, nullptr);
    }
    Env::Default()->SleepForMicroseconds(rng->Between(100, 20000));
  }

  // Compares the families that stay, by different kinds of reads.
  void ReadSome(Rng* rng) {
    const Handles handles = Known();
    if (rng->OneIn(2)) {
      std::vector<std::unique_ptr<Iterator>> iterators;
      std::vector<ColumnFamilyHandle*> families;
      for (const Handle& handle : handles) {
        if (handle != nullptr) families.push_back(handle.get());
      }
      ASSERT_TRUE(Ok(db_->NewIterators({}, families, &iterators)));
      std::vector<EntryList> found(iterators.size());
      for (size_t i = 0; i < iterators.size(); ++i) {
        for (iterators[i]->SeekToFirst(); iterators[i]->Valid();
             iterators[i]->Next()) {
          const std::string key = iterators[i]->key().ToString();
          ASSERT_GE(CountIn(key, iterators[i]->value()), 0) << key;
          found[i].emplace_back(key, iterators[i]->value().ToString());
        }
        ASSERT_TRUE(Ok(iterators[i]->status()));
      }
      ASSERT_TRUE(SameEntries(found[0], found[1]));
      return;
    }
    const Snapshot* const snapshot =
        rng->OneIn(2) ? db_->GetSnapshot() : nullptr;
    ReadOptions options{.snapshot = snapshot};
    std::vector<std::string> names;
    std::vector<Slice> keys;
    std::vector<ColumnFamilyHandle*> families;
    for (int i = 0; i < 8; ++i) {
      names.push_back(Key(rng->Between(0, kWriters * kKeysPerWriter - 1)));
    }
    for (const std::string& name : names) {
      for (int slot = 0; slot < kStaying; ++slot) {
        keys.emplace_back(name);
        families.push_back(handles[slot].get());
      }
    }
    std::vector<std::string> values;
    const std::vector<Status> statuses =
        db_->MultiGet(options, families, keys, &values);
    for (size_t i = 0; i < keys.size(); i += kStaying) {
      ASSERT_EQ(statuses[i].code(), statuses[i + 1].code());
      ASSERT_EQ(values[i], values[i + 1]) << keys[i].ToString();
    }
    if (snapshot != nullptr) db_->ReleaseSnapshot(snapshot);
  }

  void MaintainSome(Rng* rng) {
    const Handles handles = Known();
    const Handle& one = handles[rng->Below(kFamilies)];
    if (one == nullptr) return;
    Status s;
    switch (rng->Below(7)) {
      case 0: {
        std::vector<ColumnFamilyHandle*> families;
        for (const Handle& handle : handles) {
          if (handle != nullptr) families.push_back(handle.get());
        }
        s = db_->Flush({}, families);
        break;
      }
      case 1:
        s = db_->Flush({}, one.get());
        break;
      case 2:
        s = db_->CompactRange({}, one.get(), nullptr, nullptr);
        break;
      case 3:
        s = db_->SetOptions(one.get(), {{"write_buffer_size",
                                         rng->OneIn(2) ? "65536" : "131072"}});
        break;
      case 4: {
        std::string text;
        EXPECT_TRUE(db_->GetProperty("varve.column-families", &text));
        EXPECT_TRUE(db_->GetProperty(one.get(), "varve.oldest-log", &text));
        s = db_->SyncWAL();
        break;
      }
      case 5:
        s = db_->SetDBOptions(
            {{"max_background_jobs", rng->OneIn(2) ? "2" : "4"},
             {"max_open_files", rng->OneIn(2) ? "-1" : "16"},
             {"bytes_per_sync", rng->OneIn(2) ? "0" : "65536"},
             {"max_total_wal_size", rng->OneIn(2) ? "0" : "262144"}});
        break;
      default:
        s = db_->VerifyChecksum();
    }
    ASSERT_TRUE(OkOrDropped(s)) << s.ToString();
    Env::Default()->SleepForMicroseconds(rng->Between(100, 5000));
  }

  Mutex mutex_;
  Handles handles_;  // Guarded by mutex_ while threads run.
};

// The list of families grows beside the calls, also of the first family.
using DefaultFamilyStressTest = DbTestBase;
TEST_F(DefaultFamilyStressTest, IsFoundWithoutAHandleBesideNewFamilies) {
  constexpr int kCreators = 2;
  constexpr int kFamiliesOfEach = 8;
  for (int round = 0; round < 5; ++round) {
    OpenAnew();
    std::atomic<int> created{0};
    RunThreads(kCreators + 1, [&](int thread) {
      if (thread == kCreators) {
        do {
          std::string text;
          EXPECT_TRUE(Ok(db_->NewIterator({})->status()));
          EXPECT_TRUE(db_->GetProperty("varve.stats", &text));
          EXPECT_FALSE(db_->GetOptions(nullptr).comparator == nullptr);
          EXPECT_TRUE(Ok(db_->Put({}, nullptr, "k", "v")));
        } while (created < kCreators * kFamiliesOfEach);
        return;
      }
      for (int i = 0; i < kFamiliesOfEach; ++i) {
        ColumnFamilyHandle* handle = nullptr;
        const std::string name =
            std::to_string(thread) + "-" + std::to_string(i);
        EXPECT_TRUE(Ok(db_->CreateColumnFamily({}, name, &handle)));
        delete handle;
        ++created;
      }
    });
    Close();
  }
}

TEST_P(DbFamiliesStressTest, FamiliesComeAndGoBesideWritersAndReaders) {
  Open();
  for (int slot = 0; slot < kStaying; ++slot) Create(slot);
  std::array<int, kWriters> counts = {};
  std::atomic<int> changes{0};
  for (int writer = 0; writer < kWriters; ++writer) {
    Start([this, writer, count = &counts[writer]](Rng* rng) {
      WriteSome(writer, count, rng);
    });
  }
  Start([this, &changes](Rng* rng) {
    CreateAndDrop(rng);
    ++changes;
  });
  for (int i = 0; i < 2; ++i) Start([this](Rng* rng) { ReadSome(rng); });
  Start([this](Rng* rng) { MaintainSome(rng); });
  JoinAll();
  ASSERT_FALSE(HasFailure());
  EXPECT_GT(changes.load(), 2);
  int writes = 0;
  for (const int count : counts) writes += count;
  printf("%d writes, %d families created or dropped\n", writes, changes.load());
  for (const bool reopened : {false, true}) {
    if (reopened) {
      handles_ = {};
      ASSERT_TRUE(Ok(db_->Close()));
      db_.reset();
      Open();
      ASSERT_FALSE(HasFailure());
    }
    Rng rng(seed_);
    for (int i = 0; i < 20; ++i) ReadSome(&rng);
  }
  handles_ = {};
}

INSTANTIATE_TEST_SUITE_P(AtomicFlush, DbFamiliesStressTest, ::testing::Bool());

}  // namespace
}  // namespace varve::test
