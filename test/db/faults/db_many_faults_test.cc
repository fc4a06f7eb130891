// Varve: a key-value storage engine. MIT licence, see LICENSE.
// Tags: optimized variants
//
// Goal: however many calls of the operating system fail one after the other,
// and whenever the database is resumed, closed or loses power in between,
// nothing that was acknowledged and synced is lost, and there are no holes.
// Method: random batches of one thread, each with its number; random plans of
// failures; after each opening the newest number that is there says what all of
// the contents must be. db_fault_test has each single failure.

#include <cinttypes>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "test/testing/db_helpers.h"
#include "test/testing/faults/fault_seeds.h"
#include "test/testing/faults/numbered_faults.h"

namespace varve::test {
namespace {

constexpr int kKeys = 40;

struct Update {
  bool deletes = false;
  bool merges = false;
  int begin = 0;
  int end = 0;  // The end of a deletion; begin + 1 is one key.
  std::string value;
};

struct Write {
  std::vector<Update> updates;
  bool acknowledged = false;
};

class Session final : public NumberedFaultsSession<Write> {
 public:
  Session(uint64_t seed, NumberedTotals* totals)
      : NumberedFaultsSession(seed, totals) {
    options_.max_subcompactions = rng_.Between(1, 3);
    options_.manual_wal_flush = rng_.OneIn(4);
  }

 private:
  // ---- What happens ----

  void Step() override {
    switch (rng_.Below(24)) {
      case 0:
        Reopen(rng_.OneIn(2));
        return;
      case 1:
      case 2:
        PlanAnyFailure();
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
        update.merges = rng_.OneIn(3);
        if (update.merges) {
          batch.Merge(Key(update.begin), update.value);
        } else {
          batch.Put(Key(update.begin), update.value);
        }
      } else if (rng_.OneIn(3)) {
        update.end += rng_.Between(0, 10);
        batch.DeleteRange(Key(update.begin), Key(update.end));
      } else {
        batch.Delete(Key(update.begin));
      }
      write.updates.push_back(std::move(update));
    }
    WriteNumbered(std::move(write), &batch, 3);
  }

  void Open() override {
    ASSERT_TRUE(
        Ok(TryTwice([this] { return DB::Open(options_, "/db/it", &db_); })));
    if (rng_.OneIn(2)) faulty_.ClearFailure();
    CheckContents();
  }

  // ---- What must be there ----

  void ExpectAllAcknowledged() {
    ASSERT_EQ(NumberThere(), NewestAcknowledged());
  }

  // After an opening.
  void CheckContents() {
    const size_t there = NumberThere();
    ASSERT_NO_FATAL_FAILURE(ForgetLost(there));
    EntryMap expected;
    for (size_t i = 0; i < there; ++i) {
      if (writes_[i].acknowledged) Apply(i, &expected);
    }
    const EntryList entries(expected.begin(), expected.end());
    ASSERT_TRUE(SameEntries(entries, Read(db_.get()))) << "number " << there;
  }

  using EntryMap = std::map<std::string, std::string>;
  void Apply(size_t i, EntryMap* entries) const {
    for (const Update& update : writes_[i].updates) {
      if (update.deletes) {
        entries->erase(entries->lower_bound(Key(update.begin)),
                       entries->lower_bound(Key(update.end)));
      } else if (update.merges) {
        Append(Key(update.begin), update.value, entries);
      } else {
        (*entries)[Key(update.begin)] = update.value;
      }
    }
    (*entries)[kNumberKey] = std::to_string(i + 1);
  }
};

TEST(DbManyFaultsTest, NothingSyncedIsLostWhateverFails) {
  NumberedTotals all;
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
