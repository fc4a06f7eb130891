// Varve: a key-value storage engine. MIT licence, see LICENSE.
// Tags: optimized variants
//
// Goal: however many calls of the operating system fail one after the other,
// and whenever the database is resumed, closed or loses power in between, all
// column families are as they were after one and the same batch, which is no
// older than the last one that was synced. Method: random batches over families
// that are created and dropped; random plans of failures. The default family
// has the number of each batch. db_many_faults_test does so with one family.

#include <cinttypes>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "test/testing/db_helpers.h"
#include "test/testing/faults/fault_seeds.h"
#include "test/testing/faults/numbered_faults.h"
#include "varve/column_family.h"

namespace varve::test {
namespace {

constexpr int kKeys = 30;
constexpr size_t kMaxFamilies = 6;

// A family of a name that was created again is another one.
using FamilyName = std::pair<std::string, int>;
const FamilyName kDefault = {kDefaultColumnFamilyName, 0};

struct Update {
  FamilyName family;
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

struct Totals : NumberedTotals {
  uint64_t created = 0;
  uint64_t dropped = 0;
  uint64_t doubtful = 0;  // Creations and drops that returned an error.
};

class Session final : public NumberedFaultsSession<Write> {
 public:
  Session(uint64_t seed, Totals* totals)
      : NumberedFaultsSession(seed, totals), totals_(totals) {
    options_.manual_wal_flush = rng_.OneIn(4);
    options_.atomic_flush = rng_.OneIn(2);
    if (rng_.OneIn(2)) options_.max_total_wal_size = 100 << 10;
    live_[kDefaultColumnFamilyName] = kDefault;
  }
  ~Session() override { ReleaseHandles(); }

 private:
  // ---- What happens ----

  void Step() override {
    switch (rng_.Below(30)) {
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
      case 7:
        // The contents are what is checked, here and below.
        db_->Flush({}, AnyHandle()).IgnoreError();
        return;
      case 8:
        db_->CompactRange({}, AnyHandle(), nullptr, nullptr).IgnoreError();
        return;
      case 9:
        if (db_->SyncWAL().ok()) synced_ = writes_.size();
        return;
      case 10:
        ExpectAllAcknowledged();
        return;
      case 11:
      case 12:
        CreateOne();
        return;
      case 13:
        DropOne();
        return;
      default:
        WriteOne();
    }
  }

  ColumnFamilyHandle* AnyHandle() {
    auto place = handles_.begin();
    std::advance(place, rng_.Below(handles_.size()));
    return place->second;
  }

  void CreateOne() {
    const std::string name = rng_.Pick({"a", "b", "c", "d", "e", "f", "g"});
    // The outcome of an earlier call may be unknown.
    if (live_.count(name) + doubtful_.count(name) > 0 ||
        handles_.size() == kMaxFamilies) {
      return;
    }
    ColumnFamilyHandle* handle = nullptr;
    const FamilyName family = {name, ++generations_};
    if (db_->CreateColumnFamily(options_, name, &handle).ok()) {
      ++totals_->created;
      live_[name] = family;
      handles_[name] = handle;
    } else {
      ++totals_->doubtful;
      doubtful_[name] = family;
    }
  }

  void DropOne() {
    ColumnFamilyHandle* const handle = AnyHandle();
    const std::string name = handle->GetName();
    if (name == kDefaultColumnFamilyName) return;
    if (db_->DropColumnFamily(handle).ok()) {
      ++totals_->dropped;
    } else {
      ++totals_->doubtful;
      doubtful_[name] = live_[name];
    }
    live_.erase(name);
    handles_.erase(name);
    delete handle;
  }

  void WriteOne() {
    Write write;
    WriteBatch batch;
    for (int i = rng_.Between(1, 6); i > 0; --i) {
      Update update;
      ColumnFamilyHandle* const handle = AnyHandle();
      update.family = live_.at(handle->GetName());
      update.begin = rng_.Between(0, kKeys - 1);
      update.end = update.begin + 1;
      update.deletes = rng_.OneIn(4);
      if (!update.deletes) {
        update.value = rng_.Bytes(rng_.OneIn(8) ? 2000 : 30);
        update.merges = rng_.OneIn(3);
        if (update.merges) {
          batch.Merge(handle, Key(update.begin), update.value);
        } else {
          batch.Put(handle, Key(update.begin), update.value);
        }
      } else if (rng_.OneIn(3)) {
        update.end += rng_.Between(0, 10);
        batch.DeleteRange(handle, Key(update.begin), Key(update.end));
      } else {
        batch.Delete(handle, Key(update.begin));
      }
      write.updates.push_back(std::move(update));
    }
    WriteNumbered(std::move(write), &batch, 4);
  }

  void ReleaseHandles() override {
    for (const auto& [name, handle] : handles_) delete handle;
    handles_.clear();
  }

  Status TryOpen() {
    std::vector<std::string> names;
    Status s = DB::ListColumnFamilies(options_, "/db/it", &names);
    if (!s.ok()) {
      if (live_.size() > 1 || !writes_.empty()) return s;
      names = {kDefaultColumnFamilyName};
    }
    std::vector<ColumnFamilyDescriptor> families;
    for (const std::string& name : names) families.emplace_back(name, options_);
    std::vector<ColumnFamilyHandle*> handles;
    s = DB::Open(options_, "/db/it", families, &handles, &db_);
    for (ColumnFamilyHandle* handle : handles) {
      handles_[handle->GetName()] = handle;
    }
    return s;
  }

  void Open() override {
    ASSERT_TRUE(Ok(TryTwice([this] { return TryOpen(); })));
    if (rng_.OneIn(2)) faulty_.ClearFailure();
    for (const auto& [name, family] : live_) {
      ASSERT_EQ(handles_.count(name), 1u) << name;
    }
    for (const auto& [name, handle] : handles_) {
      if (live_.count(name) != 0) continue;
      ASSERT_EQ(doubtful_.count(name), 1u) << name;
      live_[name] = doubtful_[name];
    }
    doubtful_.clear();
    CheckContents();
  }

  // ---- What must be there ----

  void ExpectAllAcknowledged() {
    ASSERT_EQ(NumberThere(), NewestAcknowledged());
    CheckFamilies(NewestAcknowledged());
  }

  // After an opening.
  void CheckContents() {
    const size_t there = NumberThere();
    ASSERT_NO_FATAL_FAILURE(ForgetLost(there));
    CheckFamilies(there);
  }

  void CheckFamilies(size_t there) {
    for (const auto& [name, handle] : handles_) {
      std::map<std::string, std::string> expected;
      for (size_t i = 0; i < there; ++i) {
        if (writes_[i].acknowledged)
          Apply(writes_[i], live_.at(name), &expected);
      }
      if (name == kDefaultColumnFamilyName && there > 0) {
        expected[kNumberKey] = std::to_string(there);
      }
      EntryList entries;
      ColumnFamilyHandle* const family = handle;
      ASSERT_TRUE(Ok(TryTwice([&] {
        entries.clear();
        const auto it = db_->NewIterator({}, family);
        for (it->SeekToFirst(); it->Valid(); it->Next()) {
          entries.emplace_back(it->key().ToString(), it->value().ToString());
        }
        return it->status();
      })));
      ASSERT_TRUE(
          SameEntries(EntryList(expected.begin(), expected.end()), entries))
          << "family " << name << ", number " << there;
    }
  }

  static void Apply(const Write& write, const FamilyName& family,
                    std::map<std::string, std::string>* entries) {
    for (const Update& update : write.updates) {
      if (update.family != family) continue;
      if (update.deletes) {
        entries->erase(entries->lower_bound(Key(update.begin)),
                       entries->lower_bound(Key(update.end)));
      } else if (update.merges) {
        Append(Key(update.begin), update.value, entries);
      } else {
        (*entries)[Key(update.begin)] = update.value;
      }
    }
  }

  Totals* const totals_;
  std::map<std::string, ColumnFamilyHandle*> handles_;
  std::map<std::string, FamilyName> live_;
  // Those that may exist: a creation or drop returned an error.
  std::map<std::string, FamilyName> doubtful_;
  int generations_ = 0;
};

TEST(DbFamiliesManyFaultsTest, NothingSyncedIsLostWhateverFails) {
  Totals all;
  const int seeds = ForFaultSeeds(
      20, [&all](uint64_t seed) { Session(seed, &all).Run(400); });
  printf("many faults: %d seeds: %" PRIu64 " writes, %" PRIu64
         " of them refused, %" PRIu64 " resumes, %" PRIu64
         " power cuts, %" PRIu64 " families created and %" PRIu64
         " dropped, %" PRIu64 " calls in doubt\n",
         seeds, all.writes, all.refused, all.resumes, all.cuts, all.created,
         all.dropped, all.doubtful);
}

}  // namespace
}  // namespace varve::test
