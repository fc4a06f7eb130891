// Varve: a key-value storage engine. MIT licence, see LICENSE.
// Tags: threads
//
// Goal: DB::OpenForReadOnly and the commands of `varve` beside a process that
// writes: no error, no wrong answer. Method: this program starts itself as a
// writer, which writes numbered batches, flushes, compacts, and closes and
// opens its database again. The number of the newest batch that a reader sees
// says what all other entries must be. It must be a batch that had returned
// before the open began, or a later one; and it must stay the same while the
// reader is open. VARVE_READER_SECONDS sets how long each case runs.

#include <sys/stat.h>
#include <unistd.h>

#include "test/testing/db_helpers.h"
#include "test/testing/machine/shared_memory.h"
#include "test/testing/run_tool.h"
#include "test/testing/seed.h"
#include "test/testing/test_headers.h"
#include "test/testing/tools.h"

namespace varve::test {
namespace {

constexpr int64_t kSlots = 400;
// The slots that a range deletion empties, and how often there is one.
constexpr int64_t kRangeSlots = 40;
constexpr int64_t kRangePeriod = 1000;
constexpr const char* kNewestKey = "newest";

// The writer's progress, in memory that both processes share.
struct Progress {
  std::atomic<int64_t> returned;
  std::atomic<int64_t> opened;  // Times the database was opened.
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

// Returns the expected contents after batch `number`.
EntryList ContentsAfter(int64_t number) {
  EntryList entries;
  // The last range deletion, which removed older entries from its slots.
  int64_t cleared = number - number % kRangePeriod + kRangePeriod / 2;
  if (cleared > number) cleared -= kRangePeriod;
  for (int64_t slot = 0; slot < kSlots; ++slot) {
    const int64_t newest =
        number - ((number - slot) % kSlots + kSlots) % kSlots;
    if (newest <= 0 || IsDeletion(newest)) continue;
    if (slot < kRangeSlots && newest < cleared) continue;
    entries.emplace_back(SlotKey(slot), SlotValue(newest));
  }
  if (number > 0) entries.emplace_back(kNewestKey, std::to_string(number));
  return entries;
}

Status WriteNumber(DB* db, const WriteOptions& options, int64_t number) {
  WriteBatch batch;
  if (IsRangeDeletion(number)) {
    batch.DeleteRange(SlotKey(0), SlotKey(kRangeSlots));
  }
  const std::string key = SlotKey(number % kSlots);
  if (IsDeletion(number)) {
    batch.Delete(key);
  } else {
    batch.Put(key, SlotValue(number));
  }
  batch.Put(kNewestKey, std::to_string(number));
  return db->Write(options, &batch);
}

// Returns whether the entries are of one moment. Sets *number to its batch.
::testing::AssertionResult AreOfOneMoment(const EntryList& entries,
                                          int64_t* number) {
  *number = 0;
  if (!entries.empty() && entries.back().first == kNewestKey) {
    *number = atoll(entries.back().second.c_str());
  }
  return SameEntries(ContentsAfter(*number), entries) << ", batch " << *number;
}

struct Mode {
  const char* name;  // The directory has it too, so that the writer knows it.
  bool sync;
  WriteMethod method;
  size_t write_buffer_size;
};
constexpr Mode kModes[] = {{"Unsynced", false, WriteMethod::kCall, 64 << 10},
                           {"Synced", true, WriteMethod::kAuto, 64 << 10},
                           {"Mapped", false, WriteMethod::kMap, 64 << 10},
                           {"Auto", false, WriteMethod::kAuto, 64 << 10},
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
  for (Rng rng(1);;) {
    std::unique_ptr<DB> db;
    Status status = DB::Open(OptionsFor(mode), place + "/db", &db);
    progress->opened.fetch_add(1);
    for (int i = 0; i < 20000 && status.ok(); ++i) {
      const int64_t number = progress->returned.load() + 1;
      options.sync = mode.sync && !rng.OneIn(3);
      status = WriteNumber(db.get(), options, number);
      if (status.ok()) progress->returned.store(number);
      if (status.ok() && rng.OneIn(5000)) status = db->Flush(FlushOptions());
      if (status.ok() && rng.OneIn(20000)) {
        status = db->CompactRange(CompactRangeOptions(), nullptr, nullptr);
      }
    }
    if (status.ok()) status = db->Close();
    if (!status.ok()) {
      fprintf(stderr, "%s\n", status.ToString().c_str());
      progress->failed.store(1);
      return 1;
    }
  }
}

constexpr const char* kWriterVariable = "VARVE_READ_BESIDE_WRITER";

// Run by the tests below in a process of its own; by itself it does nothing.
TEST(BusyWriterTest, Work) {
  const char* const place = getenv(kWriterVariable);
  if (place == nullptr) return;
  for (const Mode& mode : kModes) {
    if (std::string(place).ends_with(std::string("/") + mode.name)) {
      _exit(Work(mode, place));
    }
  }
  _exit(2);
}

class ReadBesideWriterTest : public ::testing::TestWithParam<Mode> {
 protected:
  void SetUp() override {
    place_ = dir_.Sub(GetParam().name);
    ASSERT_EQ(mkdir(place_.c_str(), 0755), 0);
    progress_ = MapShared<Progress>(place_ + "/progress");
    setenv(kWriterVariable, place_.c_str(), 1);
    writer_ = std::make_unique<RunningTool>(std::vector<std::string>{
        "/proc/self/exe", "--gtest_filter=BusyWriterTest.Work"});
    unsetenv(kWriterVariable);
    const auto timeout =
        std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (progress_->returned.load() == 0 &&
           std::chrono::steady_clock::now() < timeout) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    ASSERT_GT(progress_->returned.load(), 0) << "nothing was written";
    end_ = std::chrono::steady_clock::now() +
           std::chrono::seconds(EnvironmentInt("VARVE_READER_SECONDS", 2));
  }
  void TearDown() override {
    EXPECT_EQ(progress_->failed.load(), 0);
    writer_->Kill();
    const ToolResult& result = writer_->Wait();
    EXPECT_EQ(result.exit_code, 128 + SIGKILL) << result.Summary();
    munmap(progress_, sizeof(Progress));
  }
  bool GoesOn() const {
    return std::chrono::steady_clock::now() < end_ && !HasFailure();
  }
  std::string Db() const { return place_ + "/db"; }

  TempDir dir_;
  std::string place_;
  Progress* progress_ = nullptr;
  std::unique_ptr<RunningTool> writer_;
  std::chrono::steady_clock::time_point end_;
};

TEST_P(ReadBesideWriterTest, OpensSeeOneMoment) {
  const uint64_t seed = TestSeed();
  SCOPED_TRACE("TEST_SEED=" + std::to_string(seed));
  Rng rng(seed);
  int opens = 0;
  for (; GoesOn(); ++opens) {
    Options options;
    options.experiment = TestExperiment();
    options.paranoid_checks = !rng.OneIn(4);
    if (rng.OneIn(4)) {
      options.wal_recovery_mode = WalRecoveryMode::kAbsoluteConsistency;
    }
    const int64_t returned = progress_->returned.load();
    std::unique_ptr<DB> db;
    const auto start = std::chrono::steady_clock::now();
    ASSERT_TRUE(Ok(DB::OpenForReadOnly(options, Db(), &db)))
        << "open " << opens;
    const int64_t begun = progress_->returned.load() + 1;
    const auto micros = std::chrono::duration_cast<std::chrono::microseconds>(
        std::chrono::steady_clock::now() - start);
    EntryList entries;
    int64_t number = 0;
    ASSERT_TRUE(Ok(ScanForward(db.get(), {}, &entries))) << "open " << opens;
    ASSERT_TRUE(AreOfOneMoment(entries, &number))
        << "open " << opens << ", " << returned << " had returned, "
        << micros.count() << " us";
    ASSERT_GE(number, returned) << "open " << opens;
    ASSERT_LE(number, begun) << "open " << opens;
    if (!rng.OneIn(4)) continue;
    // The writer removes what this reads.
    std::this_thread::sleep_for(std::chrono::milliseconds(rng.Below(300)));
    ASSERT_TRUE(Ok(ScanBackward(db.get(), {}, &entries))) << "open " << opens;
    int64_t later = 0;
    ASSERT_TRUE(AreOfOneMoment(entries, &later)) << "open " << opens;
    ASSERT_EQ(later, number);
    ASSERT_TRUE(Ok(db->Close()));
  }
  printf("%d opens, %lld batches, opened by the writer %lld times\n", opens,
         static_cast<long long>(progress_->returned.load()),
         static_cast<long long>(progress_->opened.load()));
}

#if VARVE_HAS_TOOL

// The lines that `varve scan` prints.
EntryList ParseScan(const std::string& text) {
  EntryList entries;
  size_t begin = 0;
  for (size_t end; (end = text.find('\n', begin)) != std::string::npos;
       begin = end + 1) {
    const std::string line = text.substr(begin, end - begin);
    const size_t middle = line.find(" : ");
    if (middle == std::string::npos) continue;
    entries.emplace_back(line.substr(0, middle), line.substr(middle + 3));
  }
  return entries;
}

TEST_P(ReadBesideWriterTest, ToolsAreRight) {
  const std::string db = "--db=" + Db();
  int runs = 0;
  int told = 0;
  for (; GoesOn(); ++runs) {
    const auto run = [&](const std::vector<std::string>& arguments) {
      ToolResult result = RunTool(Command({VARVE_TOOL_PATH, db}, arguments));
      EXPECT_EQ(result.exit_code, 0) << arguments[0] << result.Summary();
      told += Contains(result.error, "is open in process ") ? 1 : 0;
      return result;
    };
    const int64_t returned = progress_->returned.load();
    const ToolResult check = run({"check"});
    EXPECT_TRUE(check.out.ends_with("no damage\n")) << check.Summary();
    const ToolResult get = run({"get", kNewestKey});
    EXPECT_GE(atoll(get.out.c_str()), returned) << get.Summary();
    int64_t number = 0;
    EXPECT_TRUE(AreOfOneMoment(ParseScan(run({"scan"}).out), &number));
    EXPECT_GE(number, returned);
    run({"export-to", "-"});
    run({"levels"});
    run({"stats"});
    run({"dump-manifest"});
  }
  EXPECT_GT(told, 0) << "of the writer, which has it open most of the time";
  printf("%d runs of each\n", runs);
}

#endif  // VARVE_HAS_TOOL

INSTANTIATE_TEST_SUITE_P(All, ReadBesideWriterTest, ::testing::ValuesIn(kModes),
                         [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace varve::test
