// Varve: a key-value storage engine. MIT licence, see LICENSE.
// Tags: optimized variants
//
// Goal: however many calls of the operating system fail one after the other,
// and whenever power is lost in between, a checkpoint that was acknowledged is
// there and holds the database of that moment, one that was refused is not
// there or as good, and making it may be tried until it works. Method: random
// writes, checkpoints and plans of failures; each checkpoint is opened when it
// was made, and after the next power cut. db_checkpoint_test has each single
// failure.

#include "test/testing/faults/fault_seeds.h"
#include "test/testing/faults/many_faults.h"
#include "test/testing/numbered_writes.h"
#include "test/testing/test_headers.h"

namespace varve::test {
namespace {

struct Totals {
  uint64_t operations = 0;
  uint64_t failures = 0;
  uint64_t made = 0;
  uint64_t refused = 0;
  uint64_t there_though_refused = 0;
  uint64_t cuts = 0;
  uint64_t surviving = 0;
};

// The directory of a requested checkpoint.
struct Copy {
  std::string path;
  bool made = false;
  bool done = false;  // Not requested again.
  // One for each request.
  std::vector<EntryList> may_hold;
};

class Session : private ManyFaultsSession {
 public:
  Session(uint64_t seed, Totals* totals)
      : ManyFaultsSession(seed),
        totals_(totals),
        options_(TinyOptions()),
        writes_(1) {
    EXPECT_TRUE(Ok(memory_->CreateDirIfMissing("/db")));
    options_.env = &faulty_;
    options_.write_buffer_size = 16 << 10;
    options_.target_file_size_base = 16 << 10;
    options_.level0_file_num_compaction_trigger = rng_.Between(2, 4);
  }
  ~Session() { db_.reset(); }

  void Run(int steps) {
    Open(false);
    RunSteps(steps, [this] {
      ++totals_->operations;
      Step();
    });
    if (!::testing::Test::HasFailure()) CutPower();
    totals_->failures += faulty_.FailureCount();
  }

 private:
  // Checkpoints and later contents tell how those calls ended that may fail.
  void Step() {
    DoOneOf({
        {1, [this] { CutPower(); }},
        {1, [this] { Reopen(); }},
        {3, [this] { PlanFailure(); }},
        {1, [this] { faulty_.ClearFailure(); }},
        {1, [this] { db_->Resume().IgnoreError(); }},
        {1, [this] { Flush(); }},
        {1, [this] { db_->CompactRange({}, nullptr, nullptr).IgnoreError(); }},
        {4, [this] { MakeCopy().IgnoreError(); }},
        {1, [this] { ExpectRepeatedUntilMade(); }},
        {6, [this] { writes_.Write(db_.get(), rng_.OneIn(3)).IgnoreError(); }},
    });
  }

  void Flush() {
    if (db_->Flush({}).ok()) writes_.AllSynced();
  }

  void Reopen() {
    // Only a power cut loses the writes that it reports.
    db_->Close().IgnoreError();
    Open(false);
  }

  void PlanFailure() {
    const char* const path =
        rng_.Pick({"", "", "copy", "copy", ".tmp", "MANIFEST", "/db/it"});
    if (rng_.OneIn(6)) {
      faulty_.SetPathFilter(path);
      faulty_.FailAfter(0, Status::NotSupported("no links"), kLinkOperation,
                        FailureOptions{.once = false});
      return;
    }
    ManyFaultsSession::PlanFailure(
        {.path = path,
         .within_calls = rng_.Pick({2u, 8u, 40u}),
         .operations = rng_.Pick(
             {kChangingOperations, uint32_t{kSyncDirectoryOperation},
              kSyncDirectoryOperation | kRenameOperation,
              uint32_t{kRemoveOperation}, uint32_t{kReadingOperations},
              uint32_t{kAllOperations}})});
  }

  bool IsThere(const Copy& copy) { return memory_->FileExists(copy.path).ok(); }

  Status MakeCopy() {
    if (copies_.empty() || copies_.back().done || rng_.OneIn(10)) {
      copies_.emplace_back();
      copies_.back().path = "/db/copy" + std::to_string(copies_.size());
    }
    Copy& copy = copies_.back();
    const bool was_there = IsThere(copy);
    Status status = db_->CreateCheckpoint(copy.path);
    if (status.ok()) {
      ++totals_->made;
      EXPECT_FALSE(was_there) << copy.path;
      copy.made = copy.done = true;
      // Others may have been refused before.
      copy.may_hold = {writes_.Contents()};
      ExpectHolds(copy, true);
    } else {
      ++totals_->refused;
      copy.may_hold.push_back(writes_.Contents());
      // Putting it away failed, too.
      if (IsThere(copy)) {
        ++totals_->there_though_refused;
        ExpectHolds(copy, true);
      }
      if (status.IsInvalidArgument()) {
        EXPECT_TRUE(was_there) << status.ToString();
      }
    }
    std::string held;
    EXPECT_TRUE(db_->GetProperty("varve.is-file-deletions-enabled", &held));
    EXPECT_EQ(held, "1");
    return status;
  }

  void ExpectRepeatedUntilMade() {
    faulty_.ClearFailure();
    // A compaction may have failed and not reported it yet.
    db_->WaitForCompact().IgnoreError();
    ASSERT_TRUE(Ok(db_->Resume()));
    const Status status = MakeCopy();
    if (status.IsInvalidArgument()) {
      // It was there. Another one.
      copies_.back().done = true;
      ASSERT_TRUE(Ok(MakeCopy()));
    } else {
      ASSERT_TRUE(Ok(status));
    }
  }

  // Expects that it can be opened, with the contents at one of the requests.
  void ExpectHolds(const Copy& copy, bool read_only) {
    Options options = options_;
    options.env = memory_.get();
    options.create_if_missing = false;
    std::unique_ptr<DB> db;
    ASSERT_TRUE(Ok(read_only ? DB::OpenForReadOnly(options, copy.path, &db)
                             : DB::Open(options, copy.path, &db)))
        << copy.path;
    EntryList entries;
    ASSERT_TRUE(Ok(ScanForward(db.get(), {}, &entries)));
    ASSERT_TRUE(Ok(db->VerifyChecksum()));
    ::testing::AssertionResult same = ::testing::AssertionFailure();
    for (const EntryList& may : copy.may_hold) {
      same = SameEntries(may, entries);
      if (same) break;
    }
    ASSERT_TRUE(same) << copy.path;
  }

  void CutPower() {
    ManyFaultsSession::CutPower([this] { db_.reset(); });
    if (::testing::Test::HasFailure()) return;
    ++totals_->cuts;
    for (const Copy& copy : copies_) {
      if (!IsThere(copy)) {
        ASSERT_FALSE(copy.made) << copy.path;
        continue;
      }
      ++totals_->surviving;
      ExpectHolds(copy, rng_.OneIn(2));
      ASSERT_TRUE(Ok(DestroyDB(copy.path, MemoryOptions())));
    }
    if (!::testing::Test::HasFailure()) {
      copies_.clear();
      Open(true);
    }
  }
  Options MemoryOptions() const {
    Options options = options_;
    options.env = memory_.get();
    return options;
  }

  void Open(bool power_cut) {
    db_.reset();
    ASSERT_TRUE(
        Ok(TryTwice([this] { return DB::Open(options_, "/db/it", &db_); })));
    const EntryList entries = Read(db_.get());
    ASSERT_TRUE(writes_.MayBe(entries, power_cut));
    writes_.Settle(entries);
  }

  Totals* const totals_;
  Options options_;
  std::unique_ptr<DB> db_;
  NumberedWrites writes_;
  std::vector<Copy> copies_;  // Since the last power cut.
};

TEST(CheckpointManyFaultsTest, IsOfOneMomentOrNotThereWhateverFails) {
  Totals all;
  const int seeds = ForFaultSeeds(
      20, [&all](uint64_t seed) { Session(seed, &all).Run(300); });
  printf("many faults: %d seeds: %" PRIu64 " operations, %" PRIu64
         " failures, %" PRIu64 " checkpoints made, %" PRIu64
         " refused and %" PRIu64 " of these there, %" PRIu64
         " power cuts, %" PRIu64 " checkpoints after them\n",
         seeds, all.operations, all.failures, all.made, all.refused,
         all.there_though_refused, all.cuts, all.surviving);
}

}  // namespace
}  // namespace varve::test
