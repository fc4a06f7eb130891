// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: what frees space works on a device that is full of the database's own
// data, at the first call, and loses nothing that was not deleted. Method: an
// environment of few MiB, filled until writes are refused for good; and a real
// file system of 16 MiB where one may be mounted.

#include "test/testing/db_helpers.h"
#include "test/testing/env/hook_env.h"
#include "test/testing/env/small_device_env.h"
#include "test/testing/env/small_file_system.h"
#include "test/testing/seed.h"
#include "test/testing/test_headers.h"

namespace varve::test {
namespace {

constexpr uint64_t kDeviceBytes = 4 << 20;

class DbSpaceTest : public ::testing::TestWithParam<size_t> {
 protected:
  DbSpaceTest()
      : memory_(NewMemoryEnv(Env::Default())),
        device_(memory_.get(), kDeviceBytes) {
    options_ = TinyOptions();
    options_.env = &device_;
    options_.write_buffer_size = GetParam();
    options_.compression = CompressionType::kNone;
  }
  ~DbSpaceTest() override { db_.reset(); }

  void Open() {
    db_.reset();
    ASSERT_TRUE(Ok(DB::Open(options_, "/db", &db_)));
  }
  // Writes until nothing goes any more, by itself neither.
  void Fill(bool in_order) {
    const auto timeout = std::chrono::milliseconds(400);
    auto last = std::chrono::steady_clock::now();
    while (std::chrono::steady_clock::now() - last < timeout) {
      const int number =
          in_order ? written_ : static_cast<int>(rng_.Below(100000));
      const std::string value = rng_.Bytes(500);
      const Status status = db_->Put({}, Key(number), value);
      if (status.ok()) {
        last = std::chrono::steady_clock::now();
        model_[Key(number)] = value;
        ++written_;
      } else {
        ASSERT_TRUE(IsNoSpace(status));
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
    }
    ASSERT_GT(written_, 0);
  }
  void DeleteRange(const std::string& begin, const std::string& end) {
    ASSERT_TRUE(Ok(db_->DeleteRange({}, begin, end)));
    model_.erase(model_.lower_bound(begin), model_.lower_bound(end));
  }
  void ExpectModel() {
    EntryList entries;
    ASSERT_TRUE(Ok(ScanForward(db_.get(), {}, &entries)));
    EXPECT_TRUE(SameEntries(EntryList(model_.begin(), model_.end()), entries));
  }
  bool IsReadOnly() {
    uint64_t value = 0;
    EXPECT_TRUE(db_->GetIntProperty("varve.is-read-only", &value));
    return value != 0;
  }

  const std::unique_ptr<Env> memory_;
  SmallDeviceEnv device_;
  Options options_;
  std::unique_ptr<DB> db_;
  Rng rng_{TestSeed()};
  std::map<std::string, std::string> model_;
  int written_ = 0;
};

TEST_P(DbSpaceTest, DeletingAllMakesTheDeviceEmpty) {
  Open();
  Fill(false);
  DeleteRange("", "z");
  ExpectModel();
  EXPECT_TRUE(Ok(db_->CompactRange({}, nullptr, nullptr)));
  EXPECT_LT(device_.UsedBytes(), kDeviceBytes / 10);
  EXPECT_FALSE(IsReadOnly());
  EXPECT_TRUE(Ok(db_->Put({}, "after", "it")));
  model_["after"] = "it";
  ExpectModel();
  Open();
  ExpectModel();
}

// The MANIFEST has reserved the space of the edit that removes the tables.
TEST_P(DbSpaceTest, DeletingAllTakesNoFreeByte) {
  Open();
  Fill(false);
  device_.SetCapacity(device_.UsedBytes());
  DeleteRange("", "z");
  EXPECT_TRUE(Ok(db_->CompactRange({}, nullptr, nullptr)));
  EXPECT_LT(device_.UsedBytes(), kDeviceBytes / 10);
  EXPECT_FALSE(IsReadOnly());
  ExpectModel();
  Open();
  ExpectModel();
}

TEST_P(DbSpaceTest, DeletingHalfMakesSpace) {
  Open();
  Fill(true);
  DeleteRange(Key(0), Key(written_ / 2));
  ExpectModel();
  // The other half may take too much to be written anew.
  const Status status = db_->CompactRange({}, nullptr, nullptr);
  EXPECT_TRUE(status.ok() || status.IsNoSpace()) << status.ToString();
  EXPECT_TRUE(Ok(db_->Put({}, "after", "it")));
  model_["after"] = "it";
  ExpectModel();
  ASSERT_TRUE(Ok(db_->VerifyChecksum()));
  Open();
  ExpectModel();
}

TEST_P(DbSpaceTest, DeletionsAreTakenOneByOne) {
  Open();
  Fill(true);
  for (int i = 0; i < 50; ++i) {
    ASSERT_TRUE(Ok(db_->Delete({}, Key(i)))) << i;
    model_.erase(Key(i));
  }
  WriteBatch batch;
  batch.Delete(Key(50));
  batch.SingleDelete(Key(51));
  ASSERT_TRUE(Ok(db_->Write({}, &batch)));
  model_.erase(Key(50));
  model_.erase(Key(51));
  ExpectModel();
  device_.SetCapacity(4 * kDeviceBytes);
  Open();
  ExpectModel();
}

// A write may be logged together with those that are refused.
TEST_P(DbSpaceTest, DeletionsAreTakenBesideRefusedWrites) {
  Open();
  Fill(true);
  std::atomic<bool> stop{false};
  std::vector<std::thread> others;
  for (int thread = 0; thread < 2; ++thread) {
    others.emplace_back([&, thread] {
      Rng rng(thread);
      while (!stop) {
        const Status status =
            db_->Put({}, "z" + std::to_string(thread), rng.Bytes(500));
        EXPECT_TRUE(status.ok() || status.IsNoSpace()) << status.ToString();
      }
    });
  }
  for (int i = 0; i < 100; ++i) {
    EXPECT_TRUE(Ok(i % 2 == 0 ? db_->DeleteRange({}, Key(2 * i), Key(2 * i + 2))
                              : db_->Delete({}, Key(2 * i))))
        << i;
    model_.erase(Key(2 * i));
    if (i % 2 == 0) model_.erase(Key(2 * i + 1));
  }
  EXPECT_TRUE(Ok(db_->DeleteRange({}, Key(0), Key(written_ / 2))));
  model_.erase(model_.lower_bound(Key(0)),
               model_.lower_bound(Key(written_ / 2)));
  const Status status = db_->CompactRange({}, nullptr, nullptr);
  EXPECT_TRUE(status.ok() || status.IsNoSpace()) << status.ToString();
  stop = true;
  for (std::thread& thread : others) thread.join();
  for (const bool reopened : {false, true}) {
    if (reopened) Open();
    EntryList entries;
    ASSERT_TRUE(Ok(ScanForward(db_.get(), {}, &entries)));
    while (!entries.empty() && entries.back().first[0] == 'z') {
      entries.pop_back();
    }
    EXPECT_TRUE(SameEntries(EntryList(model_.begin(), model_.end()), entries));
  }
}

TEST_P(DbSpaceTest, SnapshotsKeepTheirVersions) {
  Open();
  Fill(true);
  const Snapshot* const snapshot = db_->GetSnapshot();
  const EntryList all(model_.begin(), model_.end());
  DeleteRange("", "z");
  // There may be no space for it.
  db_->CompactRange({}, nullptr, nullptr).IgnoreError();
  ReadOptions options{.snapshot = snapshot};
  EntryList entries;
  ASSERT_TRUE(Ok(ScanForward(db_.get(), options, &entries)));
  EXPECT_TRUE(SameEntries(all, entries));
  ExpectModel();
  db_->ReleaseSnapshot(snapshot);
  EXPECT_TRUE(Ok(db_->CompactRange({}, nullptr, nullptr)));
  EXPECT_LT(device_.UsedBytes(), kDeviceBytes / 10);
}

// A compaction that begins while the edit is written that removes tables.
TEST_P(DbSpaceTest, TablesThatAreRemovedAreNoInputs) {
  HookEnv env(kWriteOperation, "MANIFEST", &device_);
  std::atomic<bool> armed{false};
  options_.env = &env;
  options_.disable_auto_compactions = true;
  options_.num_levels = 2;
  options_.write_buffer_size = 1 << 20;
  Open();
  const auto write = [this](int begin, int end, int step) {
    for (int i = begin; i < end; i += step) {
      model_[Key(i)] = rng_.Bytes(500);
      ASSERT_TRUE(Ok(db_->Put({}, Key(i), model_[Key(i)])));
    }
    ASSERT_TRUE(Ok(db_->Flush({})));
  };
  for (int table = 0; table < 4; ++table) {
    write(table * 400, table * 400 + 400, 1);
    ASSERT_TRUE(Ok(db_->CompactRange({}, nullptr, nullptr)));
  }
  write(400, 1600, 2);
  DeleteRange(Key(0), Key(400));
  ASSERT_TRUE(Ok(db_->Flush({})));
  device_.SetCapacity(device_.UsedBytes() + (100 << 10));
  std::thread other;
  Status other_status;
  env.hook = [&](const std::string&) {
    if (!armed.exchange(false)) return Status::OK();
    device_.SetCapacity(4 * kDeviceBytes);
    other = std::thread([&] {
      CompactRangeOptions compaction;
      compaction.exclusive_manual_compaction = false;
      compaction.rewrite_bottommost_level = true;
      const std::string begin = Key(0);
      const std::string end = Key(399);
      const Slice first(begin);
      const Slice last(end);
      other_status = db_->CompactRange(compaction, &first, &last);
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    return Status::OK();
  };
  armed = true;
  EXPECT_TRUE(Ok(db_->CompactRange({}, nullptr, nullptr)));
  ASSERT_TRUE(other.joinable());
  other.join();
  EXPECT_TRUE(Ok(other_status));
  EXPECT_FALSE(IsReadOnly());
  ExpectModel();
  Open();
  ExpectModel();
  db_.reset();
}

TEST_P(DbSpaceTest, SpaceThatComesIsUsedByTheNextFlush) {
  Open();
  Fill(true);
  device_.SetCapacity(4 * kDeviceBytes);
  EXPECT_TRUE(Ok(db_->Flush({})));
  EXPECT_FALSE(IsReadOnly());
  EXPECT_TRUE(Ok(db_->Put({}, "after", "it")));
  model_["after"] = "it";
  EXPECT_TRUE(Ok(db_->CompactRange({}, nullptr, nullptr)));
  ExpectModel();
}

// A compaction needs more than there is; writes do not.
TEST_P(DbSpaceTest, CompactionsWithoutSpaceStopNoWrites) {
  options_.disable_auto_compactions = true;
  Open();
  for (int table = 0; table < 4; ++table) {
    for (int i = 0; i < 400; ++i) {
      const std::string key = Key(i * 4 + table);
      model_[key] = rng_.Bytes(500);
      ASSERT_TRUE(Ok(db_->Put({}, key, model_[key])));
    }
    ASSERT_TRUE(Ok(db_->Flush({})));
  }
  device_.SetCapacity(device_.UsedBytes() + (100 << 10));
  EXPECT_TRUE(db_->CompactRange({}, nullptr, nullptr).IsNoSpace());
  EXPECT_FALSE(IsReadOnly());
  EXPECT_TRUE(Ok(db_->Put({}, "after", "it")));
  model_["after"] = "it";
  EXPECT_TRUE(Ok(db_->Flush({})));
  ExpectModel();
  device_.SetCapacity(4 * kDeviceBytes);
  EXPECT_TRUE(Ok(db_->CompactRange({}, nullptr, nullptr)));
  ExpectModel();
}

TEST_P(DbSpaceTest, ResumeStartsCompactionsThatPaused) {
  options_.level0_file_num_compaction_trigger = 4;
  options_.level0_slowdown_writes_trigger = 8;
  options_.level0_stop_writes_trigger = 8;
  options_.write_buffer_size = 1 << 20;
  Open();
  const auto write_table = [this](int table, int entries) {
    for (int i = 0; i < entries; ++i) {
      const std::string key = Key(i * 100 + table);
      const std::string value = rng_.Bytes(500);
      const Status status = db_->Put({}, key, value);
      if (!status.ok()) return status;
      model_[key] = value;
    }
    return db_->Flush({});
  };
  for (int table = 0; table < 3; ++table) {
    ASSERT_TRUE(Ok(write_table(table, 400)));
  }
  device_.SetCapacity(device_.UsedBytes() + (500 << 10));
  ASSERT_TRUE(Ok(write_table(3, 400)));
  // Until the compaction has failed, its output takes the space of flushes.
  for (int idle = 0; idle < 50; ++idle) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    uint64_t running = 0;
    ASSERT_TRUE(
        db_->GetIntProperty("rocksdb.num-running-compactions", &running));
    if (running != 0) idle = 0;
  }
  Status status;
  for (int table = 4; status.ok() && table < 20; ++table) {
    status = write_table(table, 1);
  }
  EXPECT_TRUE(IsNoSpace(status, "writes are stopped"));
  EXPECT_FALSE(IsReadOnly());
  device_.SetCapacity(4 * kDeviceBytes);
  EXPECT_TRUE(Ok(db_->Resume()));
  EXPECT_TRUE(Ok(write_table(20, 1)));
  ExpectModel();
}

INSTANTIATE_TEST_SUITE_P(Buffers, DbSpaceTest,
                         ::testing::Values(64 << 10, 256 << 10, 1 << 20));

// A file system of 16 MiB.
TEST(DbSpaceMountTest, DeletingAllMakesAFileSystemEmpty) {
  TempDir dir;
  const SmallFileSystem small(dir.path(), "16m");
  // The tests above inject the errors that the database meets here.
  if (!small.is_mounted()) GTEST_SKIP() << kMayNotMount;
  for (const WriteMethod method : kWriteMethods) {
    SCOPED_TRACE(WriteMethodName(method));
    Options options = TinyOptions();
    options.wal_write = method;
    options.write_buffer_size = 1 << 20;
    options.compression = CompressionType::kNone;
    const std::string path = dir.Sub(WriteMethodName(method));
    std::unique_ptr<DB> db;
    ASSERT_TRUE(Ok(DB::Open(options, path, &db)));
    Rng rng(1);
    int refused = 0;
    for (int i = 0; refused < 100 && i < 1000000; ++i) {
      const int number = static_cast<int>(rng.Below(100000));
      if (db->Put({}, Key(number), rng.Bytes(1000)).ok()) continue;
      ++refused;
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    ASSERT_EQ(refused, 100);
    for (int i = 0; i < 100; ++i) {
      ASSERT_TRUE(Ok(db->Delete({}, Key(i)))) << i;
    }
    EXPECT_TRUE(Ok(db->DeleteRange({}, "", "z")));
    EXPECT_TRUE(Ok(db->CompactRange({}, nullptr, nullptr)));
    EXPECT_TRUE(Ok(db->Put({}, "after", "it")));
    EntryList entries;
    EXPECT_TRUE(Ok(ScanForward(db.get(), {}, &entries)));
    EXPECT_TRUE(SameEntries({{"after", "it"}}, entries));
    db.reset();
    EXPECT_TRUE(Ok(DestroyDB(path, options)));
  }
}

// A log is mapped where its allocated space ends no earlier than a piece of the
// mapping. It may never end in half a record.
TEST(DbSpaceMountTest, LogsToBeMappedKeepSpaceForDeletions) {
  TempDir dir;
  const SmallFileSystem small(dir.path(), "8m");
  if (!small.is_mounted()) GTEST_SKIP() << kMayNotMount;
  for (const bool short_of_space : {false, true}) {
    SCOPED_TRACE(short_of_space);
    Options options = TinyOptions();
    options.wal_write = WriteMethod::kMap;
    options.write_buffer_size = 4 << 20;
    const std::string path = dir.Sub(short_of_space ? "short" : "enough");
    const std::string filler = dir.Sub("filler");
    const auto fill = [&filler](uint64_t left) {
      std::unique_ptr<WritableFile> file;
      ASSERT_TRUE(Ok(Env::Default()->NewWritableFile(filler, {}, &file)));
      while (file->Append(std::string(4096, 'f')).ok()) {
      }
      ASSERT_TRUE(file->Size() > left);
      file.reset();
      ASSERT_TRUE(Ok(Env::Default()->Truncate(
          filler, std::filesystem::file_size(filler) - left)));
    };
    std::unique_ptr<DB> db;
    if (short_of_space) fill(512 << 10);
    ASSERT_TRUE(Ok(DB::Open(options, path, &db)));
    std::map<std::string, std::string> model;
    if (!short_of_space) {
      // The log allocates its space.
      ASSERT_TRUE(Ok(db->Put({}, "first", "1")));
      model["first"] = "1";
      fill(0);
    }
    Rng rng(1);
    Status status;
    for (int i = 0; status.ok() && i < 100000; ++i) {
      const std::string value = rng.Bytes(900);
      status = db->Put({}, Key(i), value);
      if (status.ok()) model[Key(i)] = value;
    }
    ASSERT_TRUE(IsNoSpace(status));
    // The log had allocated space for these, or the device had it.
    ASSERT_GT(model.size(), short_of_space ? 200u : 40u);
    for (int i = 0; i < 100; ++i) {
      ASSERT_TRUE(Ok(db->Delete({}, Key(i)))) << i;
      model.erase(Key(i));
    }
    ASSERT_TRUE(Ok(Env::Default()->RemoveFile(filler)));
    ASSERT_TRUE(Ok(db->Flush({})));
    ASSERT_TRUE(Ok(db->Put({}, "zz", "it")));
    model["zz"] = "it";
    db.reset();
    ASSERT_TRUE(Ok(DB::Open(options, path, &db)));
    EntryList entries;
    ASSERT_TRUE(Ok(ScanForward(db.get(), {}, &entries)));
    EXPECT_TRUE(SameEntries(EntryList(model.begin(), model.end()), entries));
    db.reset();
    ASSERT_TRUE(Ok(DestroyDB(path, options)));
  }
}

}  // namespace
}  // namespace varve::test
