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

#include "test/testing/db/numbered_writer.h"
#include "test/testing/test_headers.h"
#include "test/testing/tools.h"

namespace varve::test {
namespace {

constexpr NumberedBatches kBatches{
    .slots = 400, .range_slots = 40, .range_period = 1000};

// Returns whether the entries are of one moment. Sets *number to its batch.
::testing::AssertionResult AreOfOneMoment(const EntryList& entries,
                                          int64_t* number) {
  *number = NewestIn(entries);
  return SameEntries(kBatches.ContentsAfter(*number), entries)
         << ", batch " << *number;
}

constexpr WriterMode kModes[] = {
    {"Unsynced", false, WriteMethod::kCall, 64 << 10},
    {"Synced", true, WriteMethod::kAuto, 64 << 10},
    {"Mapped", false, WriteMethod::kMap, 64 << 10},
    {"Auto", false, WriteMethod::kAuto, 64 << 10},
    {"LargeBuffer", false, WriteMethod::kAuto, 4 << 20}};

int Work(const WriterMode& mode, const std::string& place) {
  std::unique_ptr<DB> db;
  return RunWriter(
      mode, place, /*seed=*/1,
      {.open = [&] { return DB::Open(mode.MakeOptions(), place + "/db", &db); },
       .write =
           [&](const WriteOptions& options, int64_t number) {
             WriteBatch batch;
             kBatches.AddTo(&batch, nullptr, number);
             return db->Write(options, &batch);
           },
       .rest =
           [&](Rng* rng) {
             Status status;
             if (rng->OneIn(5000)) status = db->Flush(FlushOptions());
             if (status.ok() && rng->OneIn(20000)) {
               status =
                   db->CompactRange(CompactRangeOptions(), nullptr, nullptr);
             }
             return status;
           },
       .close =
           [&] {
             Status status = db->Close();
             db.reset();
             return status;
           }});
}

TEST(BusyWriterTest, Work) { WorkIfWriter(kModes, Work); }

class ReadBesideWriterTest : public BesideWriterTest {
 protected:
  ReadBesideWriterTest() : BesideWriterTest("BusyWriterTest.Work") {}
  void SetUp() override {
    BesideWriterTest::SetUp();
    ASSERT_NO_FATAL_FAILURE(StartWriter());
    end_ = std::chrono::steady_clock::now() +
           std::chrono::seconds(EnvironmentInt("VARVE_READER_SECONDS", 2));
  }
  bool GoesOn() const {
    return std::chrono::steady_clock::now() < end_ && !HasFailure();
  }

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
