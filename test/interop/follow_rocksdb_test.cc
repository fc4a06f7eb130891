// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: Varve follows a primary that is RocksDB, and takes its place. Method:
// RocksDB in this process writes numbered batches over three families, which
// change all of them alike, and flushes and compacts; and db_bench in another
// process overwrites keys that all are there, also with logs that are reused.

#include <string>

#include "test/testing/engines/busy_db_bench.h"
#include "test/testing/rocksdb_library.h"
#include "varve/column_family.h"

namespace varve::test {
namespace {

constexpr size_t kFamilies = 3;

std::vector<ColumnFamilyDescriptor> Descriptors() {
  const ColumnFamilyOptions options;
  return {{kDefaultColumnFamilyName, options}, {"a", options}, {"b", options}};
}

class FollowRocksDbTest : public ::testing::Test {
 protected:
  FollowRocksDbTest() : path_(dir_.Sub("db")) {}
  void TearDown() override {
    EndFollower();
    EndPrimary();
  }

  // The objects of RocksDB's C interface are pointers.
  void OpenPrimary() {
    ASSERT_TRUE(rocksdb_.loaded());
    void* const options = rocksdb_.Call<void*>("options_create");
    rocksdb_.Call<void>("options_set_create_if_missing", options,
                        static_cast<unsigned char>(1));
    rocksdb_.Call<void>("options_set_create_missing_column_families", options,
                        static_cast<unsigned char>(1));
    rocksdb_.Call<void>("options_set_write_buffer_size", options,
                        size_t{256} << 10);
    rocksdb_.Call<void>("options_set_target_file_size_base", options,
                        uint64_t{64} << 10);
    rocksdb_.Call<void>("options_set_max_bytes_for_level_base", options,
                        uint64_t{256} << 10);
    const char* names[kFamilies] = {"default", "a", "b"};
    const void* family_options[kFamilies] = {options, options, options};
    primary_ = rocksdb_.CallChecked<void*>(
        "open_column_families", options, path_.c_str(), int{kFamilies},
        static_cast<const char**>(names),
        static_cast<const void**>(family_options),
        static_cast<void**>(handles_));
    rocksdb_.Call<void>("options_destroy", options);
    ASSERT_NE(primary_, nullptr);
  }
  void EndPrimary() {
    if (primary_ == nullptr) return;
    for (void* const handle : handles_) {
      rocksdb_.Call<void>("column_family_handle_destroy", handle);
    }
    rocksdb_.Call<void>("close", primary_);
    primary_ = nullptr;
  }
  void OpenFollower() {
    ASSERT_TRUE(Ok(DB::OpenAsSecondary(DBOptions(), path_, "", Descriptors(),
                                       &followed_, &follower_)));
  }
  void EndFollower() {
    for (ColumnFamilyHandle* const handle : followed_) delete handle;
    followed_.clear();
    follower_.reset();
  }
  void WriteNext() {
    ++number_;
    void* const batch = rocksdb_.Call<void*>("writebatch_create");
    const auto put = [&](void* family, const std::string& key,
                         const std::string& value) {
      rocksdb_.Call<void>("writebatch_put_cf", batch, family, key.data(),
                          key.size(), value.data(), value.size());
    };
    for (void* const handle : handles_) {
      put(handle, "number", std::to_string(number_));
      put(handle, Key(number_ % 500),
          std::to_string(number_) + std::string(300, 'v'));
      const std::string begin = Key(10);
      const std::string end = Key(20);
      const std::string key = Key((number_ + 7) % 500);
      if (number_ % 97 == 0) {
        rocksdb_.Call<void>("writebatch_delete_range_cf", batch, handle,
                            begin.data(), begin.size(), end.data(), end.size());
      }
      if (number_ % 5 == 0) {
        rocksdb_.Call<void>("writebatch_delete_cf", batch, handle, key.data(),
                            key.size());
      }
    }
    void* const options = rocksdb_.Call<void*>("writeoptions_create");
    rocksdb_.CallChecked<void>("write", primary_, options, batch);
    rocksdb_.Call<void>("writeoptions_destroy", options);
    rocksdb_.Call<void>("writebatch_destroy", batch);
  }
  EntryList PrimaryEntries(size_t family) {
    EntryList entries;
    void* const options = rocksdb_.Call<void*>("readoptions_create");
    void* const it = rocksdb_.Call<void*>("create_iterator_cf", primary_,
                                          options, handles_[family]);
    for (rocksdb_.Call<void>("iter_seek_to_first", it);
         rocksdb_.Call<unsigned char>("iter_valid", it) != 0;
         rocksdb_.Call<void>("iter_next", it)) {
      size_t key_size = 0;
      size_t value_size = 0;
      const char* const key =
          rocksdb_.Call<const char*>("iter_key", it, &key_size);
      const char* const value =
          rocksdb_.Call<const char*>("iter_value", it, &value_size);
      entries.emplace_back(std::string(key, key_size),
                           std::string(value, value_size));
    }
    rocksdb_.Call<void>("iter_destroy", it);
    rocksdb_.Call<void>("readoptions_destroy", options);
    return entries;
  }
  void FlushPrimary(size_t family) {
    void* const options = rocksdb_.Call<void*>("flushoptions_create");
    rocksdb_.CallChecked<void>("flush_cf", primary_, options, handles_[family]);
    rocksdb_.Call<void>("flushoptions_destroy", options);
  }
  void CompactPrimary(size_t family) {
    const char* const none = nullptr;
    rocksdb_.Call<void>("compact_range_cf", primary_, handles_[family], none,
                        size_t{0}, none, size_t{0});
  }
  void ExpectSame() {
    ASSERT_TRUE(Ok(follower_->TryCatchUpWithPrimary()));
    for (size_t i = 0; i < kFamilies; ++i) {
      EntryList found;
      const auto it = follower_->NewIterator(ReadOptions(), followed_[i]);
      for (it->SeekToFirst(); it->Valid(); it->Next()) {
        found.emplace_back(it->key().ToString(), it->value().ToString());
      }
      ASSERT_TRUE(Ok(it->status()));
      ASSERT_TRUE(SameEntries(PrimaryEntries(i), found)) << "family " << i;
    }
  }
  void BesideDbBench(bool recycles) {
    BusyDbBench writer(dir_, path_, "65536", recycles);
    std::unique_ptr<DB> db;
    ASSERT_TRUE(Ok(DB::OpenAsSecondary(Options(), path_, "", &db)));
    int catch_ups = 0;
    uint64_t before = 0;
    for (int moved = 0; moved < 300; ++catch_ups) {
      ASSERT_TRUE(Ok(db->TryCatchUpWithPrimary())) << catch_ups;
      EntryList entries;
      ASSERT_TRUE(Ok(ScanForward(db.get(), {}, &entries))) << catch_ups;
      ASSERT_EQ(entries.size(), BusyDbBench::kKeys) << catch_ups;
      const uint64_t now = db->GetLatestSequenceNumber();
      ASSERT_GE(now, before);
      moved += now > before ? 1 : 0;
      before = now;
    }
    printf("%d catch-ups\n", catch_ups);
    const Status living = db->Promote();
    EXPECT_TRUE(living.IsBusy()) << living.ToString();
    writer.Kill();
    ASSERT_TRUE(Ok(db->Promote()));
    ASSERT_TRUE(Ok(db->Put(WriteOptions(), "mine", "1")));
    EntryList entries;
    ASSERT_TRUE(Ok(ScanForward(db.get(), {}, &entries)));
    EXPECT_EQ(entries.size(), BusyDbBench::kKeys + 1);
  }

  TempDir dir_;
  const std::string path_;
  const RocksDbLibrary rocksdb_;
  void* primary_ = nullptr;
  void* handles_[kFamilies] = {};
  std::unique_ptr<DB> follower_;
  std::vector<ColumnFamilyHandle*> followed_;
  int number_ = 0;
};

TEST_F(FollowRocksDbTest, ShowsTheSameAfterEachStep) {
  OpenPrimary();
  OpenFollower();
  for (int step = 0; step < 60; ++step) {
    for (int i = 0; i < 40; ++i) WriteNext();
    if (step % 3 == 0) ExpectSame();
    const size_t family = static_cast<size_t>(step) % kFamilies;
    if (step % 4 == 0) FlushPrimary(family);
    if (step % 10 == 9) CompactPrimary(family);
    if (step % 20 == 19) {
      EndPrimary();
      OpenPrimary();
    }
    ExpectSame();
    if (HasFatalFailure()) return;
  }
}

TEST_F(FollowRocksDbTest, TakesItsPlaceAndIsReadByIt) {
  OpenPrimary();
  for (int i = 0; i < 100; ++i) WriteNext();
  OpenFollower();
  for (int i = 0; i < 100; ++i) WriteNext();
  EndPrimary();
  ASSERT_TRUE(Ok(follower_->Promote()));
  for (size_t i = 0; i < kFamilies; ++i) {
    std::string value;
    ASSERT_TRUE(
        Ok(follower_->Get(ReadOptions(), followed_[i], "number", &value)));
    EXPECT_EQ(value, std::to_string(number_));
    ASSERT_TRUE(Ok(follower_->Put(WriteOptions(), followed_[i], "mine", "1")));
  }
  EndFollower();
  OpenPrimary();
  for (size_t i = 0; i < kFamilies; ++i) {
    const EntryList entries = PrimaryEntries(i);
    const auto contains = [&entries](const std::string& key,
                                     const std::string& value) {
      return std::find(entries.begin(), entries.end(),
                       std::make_pair(key, value)) != entries.end();
    };
    EXPECT_TRUE(contains("mine", "1"));
    EXPECT_TRUE(contains("number", std::to_string(number_)));
  }
}

// RocksDB's MANIFEST does not have its id.
TEST_F(FollowRocksDbTest, ReportsAnotherDatabase) {
  OpenPrimary();
  WriteNext();
  OpenFollower();
  EndPrimary();
  // Keeps the directory.
  ASSERT_TRUE(
      Ok(WriteStringToFile(Env::Default(), "", path_ + "/notes", false)));
  ASSERT_TRUE(Ok(DestroyDB(path_, Options())));
  OpenPrimary();
  WriteNext();
  const Status status = follower_->TryCatchUpWithPrimary();
  EXPECT_TRUE(status.IsInvalidArgument()) << status.ToString();
  std::string number;
  EXPECT_TRUE(Ok(follower_->Get(ReadOptions(), "number", &number)));
  EXPECT_EQ(number, "1");
}

TEST_F(FollowRocksDbTest, IsRightBesideAnotherProcess) { BesideDbBench(false); }

TEST_F(FollowRocksDbTest, IsRightWhereLogsAreReused) { BesideDbBench(true); }

}  // namespace
}  // namespace varve::test
