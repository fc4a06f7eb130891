// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: however many calls of the operating system fail one after the other,
// and whenever the database is resumed, closed or loses power in between,
// nothing that was acknowledged and synced is lost, and there are no holes.
// Method: random batches of one thread, each with its number; random plans of
// failures; after each opening the newest number that is there says what all of
// the contents must be. db_fault_test has each single failure.

#include <algorithm>
#include <cerrno>
#include <cinttypes>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "test/testing/db_helpers.h"
#include "test/testing/fault_seeds.h"
#include "test/testing/many_faults.h"

namespace varve::test {
namespace {

constexpr const char* kNumberKey = "number";
constexpr int kKeys = 40;

struct Update {
  bool deletes = false;
  int begin = 0;
  int end = 0;  // The end of a deletion; begin + 1 is one key.
  std::string value;
};

struct Write {
  std::vector<Update> updates;
  bool acknowledged = false;
};

struct Totals {
  uint64_t writes = 0;
  uint64_t refused = 0;
  uint64_t resumes = 0;
  uint64_t failed_resumes = 0;
  uint64_t cuts = 0;
  uint64_t lost = 0;  // Acknowledged, not synced.
};

class Session : private ManyFaultsSession {
 public:
  Session(uint64_t seed, Totals* totals)
      : ManyFaultsSession(seed), totals_(totals), options_(TinyOptions()) {
    EXPECT_TRUE(Ok(memory_->CreateDirIfMissing("/db")));
    options_.env = &faulty_;
    options_.write_buffer_size = 16 << 10;
    options_.target_file_size_base = 16 << 10;
    options_.max_bytes_for_level_base = 32 << 10;
    options_.level0_file_num_compaction_trigger = rng_.Between(2, 4);
    options_.max_subcompactions = rng_.Between(1, 3);
    options_.manual_wal_flush = rng_.OneIn(4);
  }
  ~Session() { db_.reset(); }

  void Run(int steps) {
    Open();
    RunSteps(steps, [this] { Step(); });
    faulty_.ClearFailure();
    if (!::testing::Test::HasFailure()) Reopen(rng_.OneIn(2));
  }

 private:
  // ---- What happens ----

  void Step() {
    switch (rng_.Below(24)) {
      case 0:
        Reopen(rng_.OneIn(2));
        return;
      case 1:
      case 2:
        PlanFailure(
            {.path = rng_.Pick({"", "", ".log", ".sst", "MANIFEST", "/db/it"}),
             .within_calls = rng_.Pick({2u, 10u, 60u}),
             .operations = rng_.Pick(
                 {kChangingOperations, uint32_t{kSyncDirectoryOperation},
                  uint32_t{kSyncOperation}, uint32_t{kWriteOperation},
                  uint32_t{kReadingOperations}, uint32_t{kAllOperations}}),
             .status = rng_.OneIn(5) ? Status::FromErrno("injected", ENOSPC)
                                     : FaultInjectionEnv::InjectedError()});
        return;
      case 3:
        faulty_.ClearFailure();
        return;
      case 4:
      case 5:
        Resume();
        return;
      case 6:
        db_->Flush({}).IgnoreError();  // The contents are what is checked.
        return;
      case 7:
        db_->CompactRange({}, nullptr, nullptr)
            .IgnoreError();  // The result is not needed.
        return;
      case 8:
        if (db_->SyncWAL().ok()) synced_ = writes_.size();
        return;
      case 9:
        ExpectAllAcknowledged();
        return;
      default:
        WriteOne();
    }
  }

  void Resume() {
    if (rng_.OneIn(2)) faulty_.ClearFailure();
    if (db_->Resume().ok()) {
      ++totals_->resumes;
    } else {
      ++totals_->failed_resumes;
    }
  }

  void WriteOne() {
    Write write;
    WriteBatch batch;
    for (int i = rng_.Between(1, 6); i > 0; --i) {
      Update update;
      update.begin = rng_.Between(0, kKeys - 1);
      update.end = update.begin + 1;
      update.deletes = rng_.OneIn(4);
      if (!update.deletes) {
        update.value = rng_.Bytes(rng_.OneIn(8) ? 2000 : 30);
        batch.Put(Key(update.begin), update.value);
      } else if (rng_.OneIn(3)) {
        update.end += rng_.Between(0, 10);
        batch.DeleteRange(Key(update.begin), Key(update.end));
      } else {
        batch.Delete(Key(update.begin));
      }
      write.updates.push_back(std::move(update));
    }
    batch.Put(kNumberKey, std::to_string(writes_.size() + 1));
    WriteOptions options;
    options.sync = rng_.OneIn(3);
    write.acknowledged = db_->Write(options, &batch).ok();
    ++totals_->writes;
    if (!write.acknowledged) ++totals_->refused;
    const bool synced = write.acknowledged && options.sync;
    writes_.push_back(std::move(write));
    if (synced) synced_ = writes_.size();
  }

  void Reopen(bool power_cut) {
    if (power_cut) {
      CutPower([this] { db_.reset(); });
      if (::testing::Test::HasFailure()) return;
      ++totals_->cuts;
    } else {
      // The kernel has the writes, or Close returned an error.
      if (db_->Close().ok() || !options_.manual_wal_flush) {
        closed_ = writes_.size();
      }
      db_.reset();
    }
    Open();
  }

  void Open() {
    ASSERT_TRUE(
        Ok(TryTwice([this] { return DB::Open(options_, "/db/it", &db_); })));
    if (rng_.OneIn(2)) faulty_.ClearFailure();
    CheckContents();
  }

  // ---- What must be there ----

  size_t NumberThere() {
    std::string value;
    bool absent = false;
    EXPECT_TRUE(Ok(TryTwice([&] {
      const Status status = db_->Get({}, kNumberKey, &value);
      absent = status.IsNotFound();
      return absent ? Status() : status;
    })));
    return absent ? 0 : static_cast<size_t>(std::stoull(value));
  }
  size_t NewestAcknowledged() const {
    size_t number = writes_.size();
    while (number > 0 && !writes_[number - 1].acknowledged) --number;
    return number;
  }

  void ExpectAllAcknowledged() {
    ASSERT_EQ(NumberThere(), NewestAcknowledged());
  }

  // After an opening. Of writes that returned an error the last one may be
  // there, if nothing was acknowledged since.
  void CheckContents() {
    const size_t there = NumberThere();
    size_t must = 0;
    for (size_t i = 0; i < std::max(synced_, closed_); ++i) {
      if (writes_[i].acknowledged) must = i + 1;
    }
    ASSERT_GE(there, must) << "of " << writes_.size();
    ASSERT_LE(there, writes_.size());
    for (size_t i = there; i < writes_.size(); ++i) {
      totals_->lost += writes_[i].acknowledged ? 1 : 0;
    }
    writes_.resize(there);
    if (there > 0) writes_[there - 1].acknowledged = true;
    EntryMap expected;
    for (size_t i = 0; i < there; ++i) {
      if (writes_[i].acknowledged) Apply(i, &expected);
    }
    const EntryList entries(expected.begin(), expected.end());
    ASSERT_TRUE(SameEntries(entries, Read(db_.get()))) << "number " << there;
    // Data that an open has shown is no longer lost.
    synced_ = closed_ = there;
  }

  using EntryMap = std::map<std::string, std::string>;
  void Apply(size_t i, EntryMap* entries) const {
    for (const Update& update : writes_[i].updates) {
      if (update.deletes) {
        entries->erase(entries->lower_bound(Key(update.begin)),
                       entries->lower_bound(Key(update.end)));
      } else {
        (*entries)[Key(update.begin)] = update.value;
      }
    }
    (*entries)[kNumberKey] = std::to_string(i + 1);
  }

  Totals* const totals_;
  Options options_;
  std::unique_ptr<DB> db_;
  std::vector<Write> writes_;  // That may be there; number n is writes_[n - 1].
  size_t synced_ = 0;          // Acknowledged ones up to here must be.
  size_t closed_ = 0;          // The same, unless power is cut.
};

TEST(DbManyFaultsTest, NothingSyncedIsLostWhateverFails) {
  Totals all;
  const int seeds = ForFaultSeeds(
      20, [&all](uint64_t seed) { Session(seed, &all).Run(400); });
  printf("many faults: %d seeds: %" PRIu64 " writes, %" PRIu64
         " of them refused, %" PRIu64 " resumes and %" PRIu64
         " that failed, %" PRIu64 " power cuts, %" PRIu64
         " unsynced writes lost\n",
         seeds, all.writes, all.refused, all.resumes, all.failed_resumes,
         all.cuts, all.lost);
}

}  // namespace
}  // namespace varve::test
