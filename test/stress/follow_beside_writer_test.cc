// Varve: a key-value storage engine. MIT licence, see LICENSE.
// Tags: threads
//
// Goal: a follower beside a process that writes four families: no error, and
// after each catch-up one moment of all families that is at least as new as
// the last update that was answered before; also beside reads of other threads.
// And a promotion after the writer was killed loses nothing that was answered.
// Method: this program starts itself as a writer of numbered batches, each of
// which changes all families alike; it flushes, compacts, ingests, and closes
// and opens its database again. The number of the newest batch that a reader
// sees says what all other entries of all families must be.
//
// VARVE_FOLLOWER_SECONDS sets how long each case runs, and VARVE_PROMOTIONS how
// often a writer is killed and replaced.

#include "test/testing/db/numbered_writer.h"
#include "test/testing/test_headers.h"
#include "varve/sst_file_writer.h"

namespace varve::test {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kFamilies = 4;
// An ingestion is a table for each family.
constexpr NumberedBatches kBatches{.slots = 200,
                                   .range_slots = 40,
                                   .range_period = 500,
                                   .ingestion_period = 1000};

class Primary {
 public:
  Primary(const std::string& place, const Options& options)
      : place_(place), options_(options) {}
  ~Primary() { Drop(); }

  Status Open() {
    options_.create_if_missing = true;
    options_.create_missing_column_families = true;
    return DB::Open(options_, place_ + "/db", Descriptors(options_), &handles_,
                    &db_);
  }
  Status Close() {
    for (ColumnFamilyHandle* const handle : handles_) delete handle;
    handles_.clear();
    Status status = db_->Close();
    db_.reset();
    return status;
  }
  static std::vector<ColumnFamilyDescriptor> Descriptors(
      const Options& options) {
    return {{kDefaultColumnFamilyName, options},
            {"a", options},
            {"b", options},
            {"c", options}};
  }
  Status Write(const WriteOptions& options, int64_t number) {
    if (kBatches.IsIngestion(number)) return Ingest(number);
    WriteBatch batch;
    for (ColumnFamilyHandle* const family : handles_) {
      kBatches.AddTo(&batch, family, number);
    }
    return db_->Write(options, &batch);
  }
  // One family at a time, or all.
  Status Flush(Rng* rng) {
    const FlushOptions options;
    return rng->OneIn(3) ? db_->Flush(options, handles_)
                         : db_->Flush(options, handles_[rng->Below(kFamilies)]);
  }
  Status Compact(Rng* rng) {
    return db_->CompactRange(CompactRangeOptions(),
                             handles_[rng->Below(kFamilies)], nullptr, nullptr);
  }

 private:
  void Drop() {
    for (ColumnFamilyHandle* const handle : handles_) delete handle;
    handles_.clear();
    db_.reset();
  }
  Status Ingest(int64_t number) {
    std::vector<IngestExternalFileArg> arguments;
    Status status;
    for (size_t i = 0; i < kFamilies && status.ok(); ++i) {
      const std::string path = place_ + "/ingested" + std::to_string(i);
      SstFileWriter writer(options_, handles_[i]);
      status = writer.Open(path);
      if (status.ok()) {
        status = writer.Put(kBatches.KeyOf(number), kBatches.ValueOf(number));
      }
      if (status.ok()) status = writer.Put(kNewestKey, std::to_string(number));
      if (status.ok()) status = writer.Finish();
      arguments.push_back({handles_[i], {path}, {}});
    }
    return status.ok() ? db_->IngestExternalFiles(arguments) : status;
  }

  const std::string place_;
  Options options_;
  std::unique_ptr<DB> db_;
  std::vector<ColumnFamilyHandle*> handles_;
};

constexpr WriterMode kModes[] = {
    {"Unsynced", false, WriteMethod::kCall, 64 << 10},
    {"Synced", true, WriteMethod::kAuto, 64 << 10},
    {"Mapped", false, WriteMethod::kMap, 64 << 10},
    {"LargeBuffer", false, WriteMethod::kAuto, 4 << 20}};

int Work(const WriterMode& mode, const std::string& place) {
  Primary primary(place, mode.MakeOptions());
  return RunWriter(
      mode, place, static_cast<uint64_t>(getpid()),
      {.open = [&] { return primary.Open(); },
       .write = [&](const WriteOptions& options,
                    int64_t number) { return primary.Write(options, number); },
       .rest =
           [&](Rng* rng) {
             Status status;
             if (rng->OneIn(2000)) status = primary.Flush(rng);
             if (status.ok() && rng->OneIn(10000)) {
               status = primary.Compact(rng);
             }
             return status;
           },
       .close = [&] { return primary.Close(); }});
}

TEST(FollowedWriterTest, Work) { WorkIfWriter(kModes, Work); }

class FollowBesideWriterTest : public BesideWriterTest {
 protected:
  FollowBesideWriterTest() : BesideWriterTest("FollowedWriterTest.Work") {}
  void TearDown() override {
    EndFollower();
    BesideWriterTest::TearDown();
  }

  void OpenFollower() {
    Options options = GetParam().MakeOptions();
    options.experiment = TestExperiment();
    ASSERT_TRUE(Ok(DB::OpenAsSecondary(
        options, place_ + "/db", dir_.Sub("second"),
        Primary::Descriptors(options), &handles_, &follower_)));
  }
  void EndFollower() {
    for (ColumnFamilyHandle* const handle : handles_) delete handle;
    handles_.clear();
    follower_.reset();
  }
  // Sets *number to the batch of the moment that all families show.
  void Inspect(const ReadOptions& options, int64_t* number) {
    std::vector<std::unique_ptr<Iterator>> iterators;
    ASSERT_TRUE(Ok(follower_->NewIterators(options, handles_, &iterators)));
    for (size_t i = 0; i < kFamilies; ++i) {
      EntryList entries;
      Iterator* const it = iterators[i].get();
      for (it->SeekToFirst(); it->Valid(); it->Next()) {
        entries.emplace_back(it->key().ToString(), it->value().ToString());
      }
      ASSERT_TRUE(Ok(it->status()));
      const int64_t newest = NewestIn(entries);
      if (i == 0) *number = newest;
      ASSERT_EQ(newest, *number) << "family " << i;
      ASSERT_TRUE(SameEntries(kBatches.ContentsAfter(newest), entries))
          << "family " << i << ", batch " << newest;
    }
  }
  // Reads the numbers of all families until *ends. They must be the same, and
  // must not fall.
  void ReadAlong(const std::atomic<bool>* ends) {
    const std::vector<Slice> keys(kFamilies, kNewestKey);
    int64_t last = 0;
    while (!ends->load() && !HasFailure()) {
      std::string values[kFamilies];
      Status statuses[kFamilies];
      follower_->MultiGet(ReadOptions(), kFamilies, handles_.data(),
                          keys.data(), values, statuses);
      for (size_t i = 0; i < kFamilies; ++i) {
        ASSERT_TRUE(Ok(statuses[i]));
        ASSERT_EQ(values[i], values[0]) << "family " << i;
      }
      ASSERT_GE(atoll(values[0].c_str()), last);
      last = atoll(values[0].c_str());
      // One after the other: never back.
      for (size_t i = kFamilies; i-- > 0;) {
        std::string value;
        ASSERT_TRUE(
            Ok(follower_->Get(ReadOptions(), handles_[i], kNewestKey, &value)));
        ASSERT_GE(atoll(value.c_str()), last) << "family " << i;
        last = atoll(value.c_str());
      }
      ++reads_;
    }
  }

  std::unique_ptr<DB> follower_;
  std::vector<ColumnFamilyHandle*> handles_;
  std::atomic<int64_t> reads_{0};
};

TEST_P(FollowBesideWriterTest, CatchUpsShowOneMomentAndNothingOld) {
  const uint64_t seed = TestSeed();
  SCOPED_TRACE("TEST_SEED=" + std::to_string(seed));
  Rng rng(seed);
  StartWriter();
  OpenFollower();
  if (HasFatalFailure()) return;
  std::atomic<bool> ends{false};
  std::thread reader([&] { ReadAlong(&ends); });
  const auto end = Clock::now() + std::chrono::seconds(EnvironmentInt(
                                      "VARVE_FOLLOWER_SECONDS", 2));
  int64_t catch_ups = 0;
  int64_t kills = 0;
  int64_t slowest_us = 0;
  int64_t last = 0;
  const auto run = [&] {
    const int64_t returned = progress_->returned.load();
    const auto start = Clock::now();
    ASSERT_TRUE(Ok(follower_->TryCatchUpWithPrimary()));
    const auto micros = std::chrono::duration_cast<std::chrono::microseconds>(
        Clock::now() - start);
    slowest_us = std::max<int64_t>(slowest_us, micros.count());
    const int64_t begun = progress_->begun.load();
    std::string newest;
    ASSERT_TRUE(
        Ok(follower_->Get(ReadOptions(), handles_[3], kNewestKey, &newest)));
    ASSERT_GE(atoll(newest.c_str()), returned) << "catch-up " << catch_ups;
    if (!rng.OneIn(3)) return;
    int64_t number = 0;
    Inspect(ReadOptions(), &number);
    if (HasFatalFailure()) return;
    ASSERT_GE(number, returned) << "catch-up " << catch_ups;
    ASSERT_LE(number, begun) << "catch-up " << catch_ups;
    ASSERT_GE(number, last) << "catch-up " << catch_ups;
    last = number;
    if (rng.OneIn(20)) {
      // A snapshot stays, whatever comes.
      const Snapshot* const snapshot = follower_->GetSnapshot();
      for (int i = 0; i < 3; ++i) {
        std::this_thread::sleep_for(std::chrono::milliseconds(rng.Below(50)));
        ASSERT_TRUE(Ok(follower_->TryCatchUpWithPrimary()));
      }
      ReadOptions options;
      options.snapshot = snapshot;
      int64_t again = 0;
      Inspect(options, &again);
      EXPECT_EQ(again, number);
      follower_->ReleaseSnapshot(snapshot);
    }
    if (rng.OneIn(200)) {
      KillWriter();
      ++kills;
      if (rng.OneIn(2)) {
        ASSERT_TRUE(Ok(follower_->TryCatchUpWithPrimary()));
      }
      StartWriter();
    }
  };
  while (Clock::now() < end && !HasFailure()) {
    run();
    ++catch_ups;
  }
  ends = true;
  reader.join();
  printf(
      "%lld catch-ups, the slowest took %lld us; %lld batches, %lld opens, "
      "%lld kills; %lld reads\n",
      static_cast<long long>(catch_ups), static_cast<long long>(slowest_us),
      static_cast<long long>(progress_->returned.load()),
      static_cast<long long>(progress_->opened.load()),
      static_cast<long long>(kills), static_cast<long long>(reads_.load()));
}

TEST_P(FollowBesideWriterTest, PromotionLosesNothing) {
  const uint64_t seed = TestSeed();
  SCOPED_TRACE("TEST_SEED=" + std::to_string(seed));
  Rng rng(seed);
  const int64_t count = EnvironmentInt("VARVE_PROMOTIONS", 3);
  std::vector<int64_t> micros;
  for (int64_t i = 0; i < count && !HasFailure(); ++i) {
    SCOPED_TRACE("promotion " + std::to_string(i));
    StartWriter();
    OpenFollower();
    if (HasFatalFailure()) return;
    for (uint64_t steps = rng.Below(4); steps > 0; --steps) {
      std::this_thread::sleep_for(std::chrono::milliseconds(rng.Below(30)));
      ASSERT_TRUE(Ok(follower_->TryCatchUpWithPrimary()));
    }
    const Status living = follower_->Promote();
    ASSERT_TRUE(living.IsBusy()) << living.ToString();
    std::this_thread::sleep_for(std::chrono::milliseconds(rng.Below(60)));
    KillWriter();
    const auto start = Clock::now();
    ASSERT_TRUE(Ok(follower_->Promote()));
    ASSERT_TRUE(Ok(follower_->Put(WriteOptions(), handles_[1], "mine", "1")));
    micros.push_back(std::chrono::duration_cast<std::chrono::microseconds>(
                         Clock::now() - start)
                         .count());
    ASSERT_TRUE(Ok(follower_->Delete(WriteOptions(), handles_[1], "mine")));
    int64_t number = 0;
    Inspect(ReadOptions(), &number);
    if (HasFatalFailure()) return;
    ASSERT_GE(number, progress_->returned.load());
    ASSERT_LE(number, progress_->begun.load());
    progress_->returned.store(number);
    if (rng.OneIn(2)) {
      ASSERT_TRUE(Ok(follower_->Flush(FlushOptions(), handles_)));
    }
    EndFollower();  // The next writer opens what it has left.
  }
  std::sort(micros.begin(), micros.end());
  printf(
      "%zu promotions; to the first write: median %lld us, largest %lld us\n",
      micros.size(), static_cast<long long>(micros[micros.size() / 2]),
      static_cast<long long>(micros.back()));
}

INSTANTIATE_TEST_SUITE_P(All, FollowBesideWriterTest,
                         ::testing::ValuesIn(kModes),
                         [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace varve::test
