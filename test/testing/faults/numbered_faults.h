// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// For tests in which many calls of the operating system fail, with writes of
// one thread that each have a number: the newest number that is there says
// which of them the database must have.

#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "test/testing/db_helpers.h"
#include "test/testing/faults/many_faults.h"
#include "varve/db.h"
#include "varve/merge_operator.h"
#include "varve/options.h"

namespace varve::test {

struct NumberedTotals {
  uint64_t writes = 0;
  uint64_t refused = 0;
  uint64_t resumes = 0;
  uint64_t failed_resumes = 0;
  uint64_t cuts = 0;
  uint64_t lost = 0;  // Acknowledged, not synced.
};

// A base for one run of random steps on one database. `Write` is what the test
// knows of a write. It has a member `bool acknowledged`.
template <typename Write>
class NumberedFaultsSession : protected ManyFaultsSession {
 public:
  virtual ~NumberedFaultsSession() = default;

  void Run(int steps) {
    Open();
    RunSteps(steps, [this] { Step(); });
    faulty_.ClearFailure();
    if (!::testing::Test::HasFailure()) Reopen(rng_.OneIn(2));
  }

 protected:
  static constexpr char kNumberKey[] = "number";

  NumberedFaultsSession(uint64_t seed, NumberedTotals* totals)
      : ManyFaultsSession(seed), options_(TinyOptions()), counts_(totals) {
    EXPECT_TRUE(Ok(memory_->CreateDirIfMissing("/db")));
    options_.env = &faulty_;
    options_.write_buffer_size = 16 << 10;
    options_.target_file_size_base = 16 << 10;
    options_.max_bytes_for_level_base = 32 << 10;
    options_.level0_file_num_compaction_trigger = rng_.Between(2, 4);
    options_.merge_operator = NewStringAppendOperator();
    options_.max_successive_merges = rng_.Pick<size_t>({0, 0, 3});
  }
  virtual void Step() = 0;
  // Opens the database in /db/it, and checks its contents.
  virtual void Open() = 0;
  // Called before the database is closed.
  virtual void ReleaseHandles() {}

  // ---- What happens ----

  void PlanAnyFailure() {
    PlanFailure(
        {.path = rng_.Pick({"", "", ".log", ".sst", "MANIFEST", "/db/it"}),
         .within_calls = rng_.Pick({2u, 10u, 60u}),
         .operations = rng_.Pick(
             {kChangingOperations, uint32_t{kSyncDirectoryOperation},
              uint32_t{kSyncOperation}, uint32_t{kWriteOperation},
              uint32_t{kReadingOperations}, uint32_t{kAllOperations}}),
         .status = rng_.OneIn(5) ? Status::FromErrno("injected", ENOSPC)
                                 : FaultInjectionEnv::InjectedError()});
  }

  void Resume() {
    if (rng_.OneIn(2)) faulty_.ClearFailure();
    if (db_->Resume().ok()) {
      ++counts_->resumes;
    } else {
      ++counts_->failed_resumes;
    }
  }

  // Adds the number to the batch, and writes it.
  void WriteNumbered(Write write, WriteBatch* batch, uint64_t sync_one_in) {
    batch->Put(kNumberKey, std::to_string(writes_.size() + 1));
    WriteOptions options;
    options.sync = rng_.OneIn(sync_one_in);
    write.acknowledged = db_->Write(options, batch).ok();
    ++counts_->writes;
    if (!write.acknowledged) ++counts_->refused;
    const bool synced = write.acknowledged && options.sync;
    writes_.push_back(std::move(write));
    if (synced) synced_ = writes_.size();
  }

  void Reopen(bool power_cut) {
    if (power_cut) {
      CutPower([this] {
        ReleaseHandles();
        db_.reset();
      });
      if (::testing::Test::HasFailure()) return;
      ++counts_->cuts;
    } else {
      ReleaseHandles();
      // The kernel has the writes, or Close returned an error.
      if (db_->Close().ok() || !options_.manual_wal_flush) {
        closed_ = writes_.size();
      }
      db_.reset();
    }
    Open();
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

  // After an opening, with NumberThere. Of writes that returned an error the
  // last one may be there, if nothing was acknowledged since.
  void ForgetLost(size_t there) {
    size_t must = 0;
    for (size_t i = 0; i < std::max(synced_, closed_); ++i) {
      if (writes_[i].acknowledged) must = i + 1;
    }
    ASSERT_GE(there, must) << "of " << writes_.size();
    ASSERT_LE(there, writes_.size());
    for (size_t i = there; i < writes_.size(); ++i) {
      counts_->lost += writes_[i].acknowledged ? 1 : 0;
    }
    writes_.resize(there);
    if (there > 0) writes_[there - 1].acknowledged = true;
    // Data that an open has shown is no longer lost.
    synced_ = closed_ = there;
  }

  Options options_;
  std::unique_ptr<DB> db_;
  std::vector<Write> writes_;  // That may be there; number n is writes_[n - 1].
  size_t synced_ = 0;          // Acknowledged ones up to here must be.
  size_t closed_ = 0;          // The same, unless power is cut.

 private:
  NumberedTotals* const counts_;
};

}  // namespace varve::test
