// Varve: a key-value storage engine. MIT licence, see LICENSE.
// Tags: optimized variants
//
// Goal: however many calls of the operating system fail one after the other,
// and whenever the database is resumed, closed or loses power in between,
// nothing that was acknowledged and synced is lost, and there are no holes: all
// column families are as they were after one and the same batch, which is no
// older than the last one that was synced. Method: random batches of one
// thread, each with its number in the default family; with one family, and over
// families that are created and dropped; random plans of failures; after each
// opening the newest number that is there says what all of the contents must
// be. db_fault_test has each single failure.

#include "test/testing/db/families_fixture.h"
#include "test/testing/faults/fault_seeds.h"
#include "test/testing/faults/many_faults.h"
#include "test/testing/test_headers.h"
#include "varve/merge_operator.h"

namespace varve::test {
namespace {

constexpr int kKeys = 40;
constexpr size_t kMaxFamilies = 6;
constexpr char kNumberKey[] = "number";

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

struct NumberedWrite {
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
  uint64_t created = 0;
  uint64_t dropped = 0;
  uint64_t doubtful = 0;  // Creations and drops that returned an error.
};

// Random steps on one database, with the default family only or with many.
class Session final : private ManyFaultsSession {
 public:
  Session(uint64_t seed, bool many_families, Totals* totals)
      : ManyFaultsSession(seed),
        many_families_(many_families),
        options_(TinyOptions()),
        totals_(totals) {
    EXPECT_TRUE(Ok(memory_->CreateDirIfMissing("/db")));
    options_.env = &faulty_;
    options_.write_buffer_size = 16 << 10;
    options_.target_file_size_base = 16 << 10;
    options_.max_bytes_for_level_base = 32 << 10;
    options_.level0_file_num_compaction_trigger = rng_.Between(2, 4);
    options_.merge_operator = NewStringAppendOperator();
    options_.max_successive_merges = rng_.Pick<size_t>({0, 0, 3});
    options_.manual_wal_flush = rng_.OneIn(4);
    options_.max_subcompactions = rng_.Between(1, 3);
    if (many_families_) {
      options_.atomic_flush = rng_.OneIn(2);
      if (rng_.OneIn(2)) options_.max_total_wal_size = 100 << 10;
    }
    live_[kDefaultColumnFamilyName] = kDefault;
  }
  ~Session() { ReleaseHandles(); }

  void Run(int steps) {
    Open();
    RunSteps(steps, [this] { Step(); });
    faulty_.ClearFailure();
    if (!::testing::Test::HasFailure()) Reopen(rng_.OneIn(2));
  }

 private:
  // ---- What happens ----

  // The contents are checked, not what flushes and compactions return.
  void Step() {
    DoOneOf({
        {2, [this] { Reopen(rng_.OneIn(2)); }},
        {4, [this] { PlanAnyFailure(); }},
        {2, [this] { faulty_.ClearFailure(); }},
        {4, [this] { Resume(); }},
        {3, [this] { db_->Flush({}, AnyHandle()).IgnoreError(); }},
        {2, [this] { CompactOne().IgnoreError(); }},
        {2, [this] { SyncLog(); }},
        {2, [this] { ExpectAllAcknowledged(); }},
        {many_families_ ? 4u : 0u, [this] { CreateOne(); }},
        {many_families_ ? 2u : 0u, [this] { DropOne(); }},
        {30, [this] { WriteOne(); }},
    });
  }

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
    ++(db_->Resume().ok() ? totals_->resumes : totals_->failed_resumes);
  }
  Status CompactOne() {
    return db_->CompactRange({}, AnyHandle(), nullptr, nullptr);
  }
  void SyncLog() {
    if (db_->SyncWAL().ok()) synced_ = writes_.size();
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
    NumberedWrite write;
    WriteBatch batch;
    for (int i = rng_.Between(1, 6); i > 0; --i) {
      ColumnFamilyHandle* const handle = AnyHandle();
      Update update;
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
    batch.Put(kNumberKey, std::to_string(writes_.size() + 1));
    const WriteOptions options{.sync = rng_.OneIn(3)};
    write.acknowledged = db_->Write(options, &batch).ok();
    ++totals_->writes;
    if (!write.acknowledged) ++totals_->refused;
    const bool synced = write.acknowledged && options.sync;
    writes_.push_back(std::move(write));
    if (synced) synced_ = writes_.size();
  }

  void ReleaseHandles() {
    for (const auto& [name, handle] : handles_) {
      if (many_families_) delete handle;
    }
    handles_.clear();
  }

  void Reopen(bool power_cut) {
    if (power_cut) {
      CutPower([this] {
        ReleaseHandles();
        db_.reset();
      });
      if (::testing::Test::HasFailure()) return;
      ++totals_->cuts;
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

  Status TryOpen() {
    if (!many_families_) {
      const Status s = DB::Open(options_, "/db/it", &db_);
      if (s.ok()) handles_[kDefault.first] = db_->DefaultColumnFamily();
      return s;
    }
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
    const size_t there = NumberThere();
    ASSERT_NO_FATAL_FAILURE(ForgetLost(there));
    CheckFamilies(there);
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
      totals_->lost += writes_[i].acknowledged ? 1 : 0;
    }
    writes_.resize(there);
    if (there > 0) writes_[there - 1].acknowledged = true;
    // Data that an open has shown is no longer lost.
    synced_ = closed_ = there;
  }

  void ExpectAllAcknowledged() {
    ASSERT_EQ(NumberThere(), NewestAcknowledged());
    if (many_families_) CheckFamilies(NewestAcknowledged());
  }

  void CheckFamilies(size_t there) {
    for (const auto& [name, handle] : handles_) {
      Entries expected;
      for (size_t i = 0; i < there; ++i) {
        if (writes_[i].acknowledged) {
          Apply(writes_[i], live_.at(name), &expected);
        }
      }
      if (name == kDefaultColumnFamilyName && there > 0) {
        expected[kNumberKey] = std::to_string(there);
      }
      EntryList entries;
      ASSERT_TRUE(Ok(TryTwice([&, family = handle] {
        return ScanFamily(db_.get(), {}, family, &entries);
      })));
      ASSERT_TRUE(SameEntries(ToList(expected), entries))
          << "family " << name << ", number " << there;
    }
  }

  static void Apply(const NumberedWrite& write, const FamilyName& family,
                    Entries* entries) {
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

  const bool many_families_;
  Options options_;
  std::unique_ptr<DB> db_;
  Totals* const totals_;
  // Writes that may be there; number n is writes_[n - 1].
  std::vector<NumberedWrite> writes_;
  size_t synced_ = 0;  // Acknowledged ones up to here must be.
  size_t closed_ = 0;  // The same, unless power is cut.
  std::map<std::string, ColumnFamilyHandle*> handles_;
  std::map<std::string, FamilyName> live_;
  // Those that may exist: a creation or drop returned an error.
  std::map<std::string, FamilyName> doubtful_;
  int generations_ = 0;
};

TEST(DbManyFaultsTest, NothingSyncedIsLostWhateverFails) {
  Totals all;
  const int seeds = ForFaultSeeds(
      20, [&all](uint64_t seed) { Session(seed, false, &all).Run(400); });
  printf("many faults: %d seeds: %" PRIu64 " writes, %" PRIu64
         " of them refused, %" PRIu64 " resumes and %" PRIu64
         " that failed, %" PRIu64 " power cuts, %" PRIu64
         " unsynced writes lost\n",
         seeds, all.writes, all.refused, all.resumes, all.failed_resumes,
         all.cuts, all.lost);
}

TEST(DbFamiliesManyFaultsTest, NothingSyncedIsLostWhateverFails) {
  Totals all;
  const int seeds = ForFaultSeeds(
      20, [&all](uint64_t seed) { Session(seed, true, &all).Run(400); });
  printf("many faults: %d seeds: %" PRIu64 " writes, %" PRIu64
         " of them refused, %" PRIu64 " resumes, %" PRIu64
         " power cuts, %" PRIu64 " families created and %" PRIu64
         " dropped, %" PRIu64 " calls in doubt\n",
         seeds, all.writes, all.refused, all.resumes, all.cuts, all.created,
         all.dropped, all.doubtful);
}

}  // namespace
}  // namespace varve::test
