// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: however many calls of the operating system fail one after the other,
// and whenever the database is resumed, closed or loses power in between, all
// column families are as they were after one and the same batch, which is no
// older than the last one that was synced. Method: random batches over families
// that are created and dropped; random plans of failures. The default family
// has the number of each batch. db_many_faults_test does so with one family.

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
#include "varve/column_family.h"

namespace varve::test {
namespace {

constexpr const char* kNumberKey = "number";
constexpr int kKeys = 30;
constexpr size_t kMaxFamilies = 6;

// A family of a name that was created again is another one.
using FamilyName = std::pair<std::string, int>;
const FamilyName kDefault = {kDefaultColumnFamilyName, 0};

struct Update {
  FamilyName family;
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
  uint64_t cuts = 0;
  uint64_t created = 0;
  uint64_t dropped = 0;
  uint64_t doubtful = 0;  // Creations and drops that returned an error.
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
    options_.manual_wal_flush = rng_.OneIn(4);
    options_.atomic_flush = rng_.OneIn(2);
    if (rng_.OneIn(2)) options_.max_total_wal_size = 100 << 10;
    live_[kDefaultColumnFamilyName] = kDefault;
  }
  ~Session() { Release(); }

  void Run(int steps) {
    Open();
    RunSteps(steps, [this] { Step(); });
    faulty_.ClearFailure();
    if (!::testing::Test::HasFailure()) Reopen(rng_.OneIn(2));
  }

 private:
  // ---- What happens ----

  void Step() {
    switch (rng_.Below(30)) {
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
        if (rng_.OneIn(2)) faulty_.ClearFailure();
        if (db_->Resume().ok()) ++totals_->resumes;
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
        batch.Put(handle, Key(update.begin), update.value);
      } else if (rng_.OneIn(3)) {
        update.end += rng_.Between(0, 10);
        batch.DeleteRange(handle, Key(update.begin), Key(update.end));
      } else {
        batch.Delete(handle, Key(update.begin));
      }
      write.updates.push_back(std::move(update));
    }
    batch.Put(kNumberKey, std::to_string(writes_.size() + 1));
    WriteOptions options;
    options.sync = rng_.OneIn(4);
    write.acknowledged = db_->Write(options, &batch).ok();
    ++totals_->writes;
    if (!write.acknowledged) ++totals_->refused;
    const bool synced = write.acknowledged && options.sync;
    writes_.push_back(std::move(write));
    if (synced) synced_ = writes_.size();
  }

  void Release() {
    for (const auto& [name, handle] : handles_) delete handle;
    handles_.clear();
    db_.reset();
  }

  void Reopen(bool power_cut) {
    if (power_cut) {
      CutPower([this] { Release(); });
      if (::testing::Test::HasFailure()) return;
      ++totals_->cuts;
    } else {
      for (const auto& [name, handle] : handles_) delete handle;
      handles_.clear();
      // The kernel has the writes, or Close returned an error.
      if (db_->Close().ok() || !options_.manual_wal_flush) {
        closed_ = writes_.size();
      }
      db_.reset();
    }
    Open();
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

  void Open() {
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
    CheckFamilies(NewestAcknowledged());
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
    writes_.resize(there);
    if (there > 0) writes_[there - 1].acknowledged = true;
    CheckFamilies(there);
    // Data that an open has shown is no longer lost.
    synced_ = closed_ = there;
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
      } else {
        (*entries)[Key(update.begin)] = update.value;
      }
    }
  }

  Totals* const totals_;
  Options options_;
  std::unique_ptr<DB> db_;
  std::map<std::string, ColumnFamilyHandle*> handles_;
  std::map<std::string, FamilyName> live_;
  // Those that may exist: a creation or drop returned an error.
  std::map<std::string, FamilyName> doubtful_;
  int generations_ = 0;
  std::vector<Write> writes_;  // That may be there; number n is writes_[n - 1].
  size_t synced_ = 0;          // Acknowledged ones up to here must be.
  size_t closed_ = 0;          // The same, unless power is cut.
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
