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

#include <sys/stat.h>
#include <unistd.h>

#include "test/testing/db_helpers.h"
#include "test/testing/machine/shared_memory.h"
#include "test/testing/run_tool.h"
#include "test/testing/seed.h"
#include "test/testing/test_headers.h"
#include "varve/sst_file_writer.h"

namespace varve::test {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int64_t kSlots = 200;
constexpr int64_t kRangeSlots = 40;
constexpr int64_t kRangePeriod = 500;
constexpr const char* kNewestKey = "newest";
constexpr size_t kFamilies = 4;

// The writer's progress, in memory that both processes share.
struct Progress {
  std::atomic<int64_t> begun;
  std::atomic<int64_t> returned;
  std::atomic<int64_t> opened;
  std::atomic<int64_t> failed;
};

std::string SlotKey(int64_t slot) { return Key(static_cast<int>(slot)); }
std::string SlotValue(int64_t number) {
  const uint64_t mixed = static_cast<uint64_t>(number) * 0x9E3779B97F4A7C15u;
  std::string value = std::to_string(number) + ":";
  value.append(static_cast<size_t>(mixed >> 55), 'v');
  return value;
}
bool IsDeletion(int64_t number) { return number % 7 == 0; }
bool IsRangeDeletion(int64_t number) {
  return number % kRangePeriod == kRangePeriod / 2;
}
// Such a batch is a table for each family.
bool IsIngestion(int64_t number) { return number % 1000 == 777; }

// Returns the expected contents of each family after batch `number`.
EntryList ContentsAfter(int64_t number) {
  EntryList entries;
  int64_t cleared = number - number % kRangePeriod + kRangePeriod / 2;
  if (cleared > number) cleared -= kRangePeriod;
  for (int64_t slot = 0; slot < kSlots; ++slot) {
    const int64_t newest =
        number - ((number - slot) % kSlots + kSlots) % kSlots;
    if (newest <= 0 || (IsDeletion(newest) && !IsIngestion(newest))) continue;
    if (slot < kRangeSlots && newest < cleared) continue;
    entries.emplace_back(SlotKey(slot), SlotValue(newest));
  }
  if (number > 0) entries.emplace_back(kNewestKey, std::to_string(number));
  return entries;
}

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
    if (IsIngestion(number)) return Ingest(number);
    WriteBatch batch;
    for (ColumnFamilyHandle* const family : handles_) {
      if (IsRangeDeletion(number)) {
        batch.DeleteRange(family, SlotKey(0), SlotKey(kRangeSlots));
      }
      const std::string key = SlotKey(number % kSlots);
      if (IsDeletion(number)) {
        batch.Delete(family, key);
      } else {
        batch.Put(family, key, SlotValue(number));
      }
      batch.Put(family, kNewestKey, std::to_string(number));
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
        status = writer.Put(SlotKey(number % kSlots), SlotValue(number));
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

struct Mode {
  const char* name;  // The directory has it too, so that the writer knows it.
  bool sync;
  WriteMethod method;
  size_t write_buffer_size;
};
constexpr Mode kModes[] = {{"Unsynced", false, WriteMethod::kCall, 64 << 10},
                           {"Synced", true, WriteMethod::kAuto, 64 << 10},
                           {"Mapped", false, WriteMethod::kMap, 64 << 10},
                           {"LargeBuffer", false, WriteMethod::kAuto, 4 << 20}};

Options OptionsFor(const Mode& mode) {
  Options options = TinyOptions();
  options.wal_write = mode.method;
  options.write_buffer_size = mode.write_buffer_size;
  return options;
}

// The writer: runs until it is killed.
int Work(const Mode& mode, const std::string& place) {
  Progress* const progress = MapShared<Progress>(place + "/progress");
  WriteOptions options;
  Primary primary(place, OptionsFor(mode));
  for (Rng rng(static_cast<uint64_t>(getpid()));;) {
    Status status = primary.Open();
    progress->opened.fetch_add(1);
    for (int i = 0; i < 20000 && status.ok(); ++i) {
      const int64_t number = progress->returned.load() + 1;
      progress->begun.store(number);
      options.sync = mode.sync && !rng.OneIn(3);
      status = primary.Write(options, number);
      if (status.ok()) progress->returned.store(number);
      if (status.ok() && rng.OneIn(2000)) status = primary.Flush(&rng);
      if (status.ok() && rng.OneIn(10000)) status = primary.Compact(&rng);
    }
    if (status.ok()) status = primary.Close();
    if (!status.ok()) {
      fprintf(stderr, "%s\n", status.ToString().c_str());
      progress->failed.store(1);
      return 1;
    }
  }
}

constexpr const char* kWriterVariable = "VARVE_FOLLOWED_WRITER";

// Run by the tests below in a process of its own; by itself it does nothing.
TEST(FollowedWriterTest, Work) {
  const char* const place = getenv(kWriterVariable);
  if (place == nullptr) return;
  for (const Mode& mode : kModes) {
    if (std::string(place).ends_with(std::string("/") + mode.name)) {
      _exit(Work(mode, place));
    }
  }
  _exit(2);
}

class FollowBesideWriterTest : public ::testing::TestWithParam<Mode> {
 protected:
  void SetUp() override {
    place_ = dir_.Sub(GetParam().name);
    ASSERT_EQ(mkdir(place_.c_str(), 0755), 0);
    progress_ = MapShared<Progress>(place_ + "/progress");
  }
  void TearDown() override {
    EndFollower();
    EXPECT_EQ(progress_->failed.load(), 0);
    if (writer_ != nullptr) KillWriter();
    munmap(progress_, sizeof(Progress));
  }

  void StartWriter() {
    const int64_t before = progress_->returned.load();
    setenv(kWriterVariable, place_.c_str(), 1);
    writer_ = std::make_unique<RunningTool>(std::vector<std::string>{
        "/proc/self/exe", "--gtest_filter=FollowedWriterTest.Work"});
    unsetenv(kWriterVariable);
    const auto timeout = Clock::now() + std::chrono::seconds(60);
    while (progress_->returned.load() == before && Clock::now() < timeout &&
           progress_->failed.load() == 0) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    ASSERT_GT(progress_->returned.load(), before) << "nothing was written";
  }
  void KillWriter() {
    writer_->Kill();
    const ToolResult& result = writer_->Wait();
    EXPECT_EQ(result.exit_code, 128 + SIGKILL) << result.Summary();
    writer_.reset();
  }
  void OpenFollower() {
    Options options = OptionsFor(GetParam());
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
      int64_t newest = 0;
      if (!entries.empty() && entries.back().first == kNewestKey) {
        newest = atoll(entries.back().second.c_str());
      }
      if (i == 0) *number = newest;
      ASSERT_EQ(newest, *number) << "family " << i;
      ASSERT_TRUE(SameEntries(ContentsAfter(newest), entries))
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

  TempDir dir_;
  std::string place_;
  Progress* progress_ = nullptr;
  std::unique_ptr<RunningTool> writer_;
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
