// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: whatever is done to a DB, in whatever order and with whatever options,
// it answers as a std::map does; after a power cut it answers as the map did at
// some moment not before the last synced write. Method: random operations on
// both under random options, a new seed each run. VARVE_MODEL_SEEDS sets the
// number of seeds, VARVE_MODEL_OPS the operations of each.

#include <cstdlib>
#include <iterator>
#include <list>
#include <string>
#include <vector>

#include "test/testing/db_helpers.h"
#include "test/testing/seed.h"
#include "varve/testing/fault_injection_env.h"

namespace varve::test {
namespace {

// Each that a program may choose by itself; the others are of the process.
constexpr const char* kAblations[] = {
    "superversion=mutex",  "block_index=binary_search",
    "block_cache=hash",    "memtable=skiplist",
    "table_open=uncached", "snapshots=mutex",
    "arena=fresh",         "statistics=global",
    "statistics=thread",   "memory_accounting=atomic"};

// Those that the run is for, or some.
AblationOptions RandomAblation(Rng* rng) {
  AblationOptions ablation = TestAblation();
  if (getenv("VARVE_TEST_ABLATION") != nullptr || rng->OneIn(2)) {
    return ablation;
  }
  for (const char* each : kAblations) {
    if (rng->OneIn(5)) {
      EXPECT_TRUE(Ok(ablation.Parse(each)));
    }
  }
  return ablation;
}

Options RandomOptions(Rng* rng) {
  Options options = TinyOptions();
  const AblationOptions ablation = RandomAblation(rng);
  options.experiment = NewExperiment(ablation);
  options.paranoid_checks = rng->OneIn(2);
  options.write_buffer_size = rng->Pick<size_t>({64 << 10, 64 << 10, 1 << 20});
  options.max_write_buffer_number = rng->Between(2, 4);
  if (!rng->OneIn(3)) {
    options.block_cache =
        NewBlockCache(ablation.block_cache,
                      {.capacity_bytes = rng->Pick<size_t>({0, 8 << 10})});
  }
  options.use_direct_reads = rng->OneIn(4);
  options.wal_write = rng->Pick<WriteMethod>(
      {WriteMethod::kCall, WriteMethod::kMap, WriteMethod::kAuto});
  options.level_compaction_dynamic_level_bytes = rng->OneIn(2);
  options.max_subcompactions = rng->Between(1, 3);
  options.manual_wal_flush = rng->OneIn(4);
  options.max_open_files = rng->Pick({-1, 10});
  options.cache_index_and_filter_blocks = rng->OneIn(4);
  options.block_size = rng->Pick<size_t>({256, 1 << 10, 4 << 10, 64 << 10});
  options.block_restart_interval = rng->Pick({1, 2, 16, 128});
  options.compression =
      AllCompressions()[rng->Below(AllCompressions().size())].second;
  if (rng->OneIn(2)) {
    options.filter_policy = NewBloomFilterPolicy(rng->Between(1, 20));
  }
  options.max_background_jobs = rng->Between(1, 4);
  options.level0_file_num_compaction_trigger = rng->Between(1, 6);
  options.num_levels = rng->Pick({2, 3, 4, 7, 7, 7});
  options.target_file_size_base = rng->Pick<uint64_t>({64 << 10, 256 << 10});
  options.max_bytes_for_level_multiplier = rng->Between(2, 10);
  options.disable_auto_compactions = rng->OneIn(5);
  if (options.disable_auto_compactions) {
    options.level0_slowdown_writes_trigger = 1 << 20;
    options.level0_stop_writes_trigger = 1 << 21;
  }
  return options;
}

// The sum over all seeds.
struct Totals {
  uint64_t operations = 0;
  uint64_t power_cuts = 0;
  uint64_t lost = 0;  // Unsynced writes that a power cut took.
  uint64_t opens = 0;
  uint64_t on_disk = 0;  // Seeds.
};

// One seed: a DB, its model, and the snapshots that are out.
class ModelRun {
 public:
  ModelRun(uint64_t seed, Totals* totals)
      : totals_(totals),
        rng_(seed),
        memory_(rng_.OneIn(10) ? nullptr : NewMemoryEnv(Env::Default())),
        faulty_(memory_ == nullptr ? Env::Default() : memory_.get()),
        path_(memory_ == nullptr ? dir_.Sub("it") : "/db/it"),
        key_count_(rng_.Pick({50, 500, 5000})),
        range_deletion_percent_(rng_.Pick<uint64_t>({0, 1, 3, 20})) {
    if (memory_ == nullptr) {
      ++totals_->on_disk;
    } else {
      EXPECT_TRUE(Ok(memory_->CreateDirIfMissing("/db")));
    }
  }
  ~ModelRun() { ReleaseAll(); }

  void Do(int operation_count) {
    Open();
    for (int i = 0; i < operation_count && !Failed(); i++) {
      SCOPED_TRACE("operation " + std::to_string(i));
      Step();
      ++totals_->operations;
    }
    if (Failed()) return;
    EXPECT_TRUE(HasEntries(db_.get(), ToList(model_.entries())));
    EXPECT_TRUE(Ok(db_->VerifyChecksum()));
    Reopen();
  }

 private:
  struct HeldSnapshot {
    const Snapshot* snapshot;
    Entries entries;
  };

  static bool Failed() { return ::testing::Test::HasFailure(); }

  std::string RandomKey() {
    return Key(static_cast<int>(rng_.Below(static_cast<uint64_t>(key_count_))));
  }
  std::string RandomValue() {
    if (rng_.OneIn(300)) return rng_.Bytes(rng_.Below(200 << 10));
    return rng_.Bytes(rng_.Below(rng_.OneIn(10) ? 2000 : 100));
  }

  void Step() {
    const uint64_t kind = rng_.Below(1000);
    if (kind < 350) return Write();
    if (kind < 500) return WriteMany();
    if (kind < 750) return Get();
    if (kind < 800) return MultiGet();
    if (kind < 960) return Iterate();
    if (kind < 970) return TakeSnapshot();
    if (kind < 980) return CheckSnapshot();
    if (kind < 985) return Flush();
    if (kind < 990) return CompactSomeRange();
    if (kind < 992) return SyncWal();
    if (kind < 995) return Reopen();
    if (kind < 999) return CutPower();
    EXPECT_TRUE(HasEntries(db_.get(), ToList(model_.entries())));
  }

  WriteOptions RandomWriteOptions() {
    WriteOptions options;
    options.sync = rng_.OneIn(30);
    return options;
  }
  void MarkSynced() { synced_changes_ = changes_.size(); }

  // Most runs have some range deletions, some many, and some none.
  void AddRandomUpdate(WriteBatch* batch) {
    if (range_deletion_percent_ > rng_.Below(100)) {
      const auto count = static_cast<uint64_t>(key_count_);
      const auto begin = static_cast<int>(rng_.Below(count));
      const auto size = static_cast<int>(rng_.Below(rng_.OneIn(9) ? count : 9));
      batch->DeleteRange(Key(begin), Key(begin + size));
    } else if (rng_.OneIn(3)) {
      batch->Delete(RandomKey());
    } else {
      batch->Put(RandomKey(), RandomValue());
    }
  }

  void Write() {
    WriteBatch batch;
    AddRandomUpdate(&batch);
    Apply(batch);
  }

  void WriteMany() {
    WriteBatch batch;
    for (uint64_t i = rng_.Below(rng_.OneIn(10) ? 200 : 8); i > 0; i--) {
      AddRandomUpdate(&batch);
      if (rng_.OneIn(20)) batch.PutLogData("note");
    }
    Apply(batch);
  }

  void Apply(const WriteBatch& batch) {
    const WriteOptions options = RandomWriteOptions();
    WriteBatch copy(batch);
    ASSERT_TRUE(Ok(db_->Write(options, &copy)));
    ASSERT_TRUE(Ok(model_.Write(batch)));
    changes_.push_back(batch);
    if (options.sync) MarkSynced();
  }

  void ExpectFound(const std::string& key, const Entries& entries,
                   const Status& s, const Slice& value) {
    const auto found = entries.find(key);
    if (found == entries.end()) {
      EXPECT_TRUE(s.IsNotFound()) << key << ": " << s.ToString();
    } else {
      ASSERT_TRUE(Ok(s)) << key;
      EXPECT_TRUE(value == Slice(found->second)) << key;
    }
  }

  void Get() {
    const std::string key = RandomKey();
    PinnableSlice value;
    Status s = db_->Get({}, key, &value);
    ExpectFound(key, model_.entries(), s, value);
  }

  void MultiGet() {
    std::vector<std::string> names(rng_.Below(40));
    std::vector<Slice> keys;
    for (std::string& name : names) keys.push_back(name = RandomKey());
    std::vector<PinnableSlice> values(keys.size());
    std::vector<Status> statuses(keys.size());
    db_->MultiGet({}, keys.size(), keys.data(), values.data(), statuses.data());
    for (size_t i = 0; i < keys.size(); i++) {
      ExpectFound(names[i], model_.entries(), statuses[i], values[i]);
    }
  }

  // A short walk within random bounds, back and forth.
  void Iterate() {
    const std::string low = RandomKey(), high = RandomKey();
    const Slice lower(low), upper(high);
    ReadOptions options;
    options.fill_cache = rng_.OneIn(2);
    auto begin = model_.entries().begin(), end = model_.entries().end();
    if (rng_.OneIn(3)) {
      options.iterate_lower_bound = &lower;
      begin = model_.entries().lower_bound(low);
    }
    if (rng_.OneIn(3)) {
      options.iterate_upper_bound = &upper;
      end = model_.entries().lower_bound(high);
      if (options.iterate_lower_bound != nullptr && high <= low) begin = end;
    }
    auto it = db_->NewIterator(options);
    auto at = end;
    Seek(it.get(), begin, end, &at);
    for (uint64_t steps = rng_.Below(30); steps > 0; steps--) {
      ASSERT_TRUE(Ok(it->status()));
      ASSERT_EQ(it->Valid(), at != end);
      if (at == end) return;
      ASSERT_EQ(it->key().ToString(), at->first);
      ASSERT_TRUE(it->value() == Slice(at->second)) << at->first;
      if (rng_.OneIn(2)) {
        it->Next();
        ++at;
      } else {
        it->Prev();
        at = at == begin ? end : std::prev(at);
      }
    }
  }

  void Seek(Iterator* it, Entries::const_iterator begin,
            Entries::const_iterator end, Entries::const_iterator* at) {
    const std::string target = RandomKey();
    const bool is_empty = begin == end;
    switch (rng_.Below(4)) {
      case 0:
        it->SeekToFirst();
        *at = begin;
        return;
      case 1:
        it->SeekToLast();
        *at = is_empty ? end : std::prev(end);
        return;
      case 2:
        it->Seek(target);
        for (*at = begin; *at != end && (*at)->first < target;) ++*at;
        return;
      default:
        it->SeekForPrev(target);
        *at = end;
        for (auto i = begin; i != end && i->first <= target; ++i) *at = i;
    }
  }

  void TakeSnapshot() {
    if (snapshots_.size() >= 5) Release(snapshots_.begin());
    snapshots_.push_back({db_->GetSnapshot(), model_.entries()});
  }

  void CheckSnapshot() {
    if (snapshots_.empty()) return;
    auto held = std::next(snapshots_.begin(),
                          static_cast<long>(rng_.Below(snapshots_.size())));
    ReadOptions options;
    options.snapshot = held->snapshot;
    EXPECT_TRUE(HasEntries(db_.get(), ToList(held->entries), options, false));
    const std::string key = RandomKey();
    std::string value;
    Status s = db_->Get(options, key, &value);
    ExpectFound(key, held->entries, s, value);
    if (rng_.OneIn(2)) Release(held);
  }

  void Release(std::list<HeldSnapshot>::iterator held) {
    db_->ReleaseSnapshot(held->snapshot);
    snapshots_.erase(held);
  }
  void ReleaseAll() {
    while (!snapshots_.empty()) Release(snapshots_.begin());
  }

  // Data in tables is as durable as data in a synced log.
  void Flush() {
    ASSERT_TRUE(Ok(db_->Flush({})));
    MarkSynced();
  }

  void SyncWal() {
    ASSERT_TRUE(Ok(db_->SyncWAL()));
    MarkSynced();
  }

  void CompactSomeRange() {
    const std::string low = RandomKey(), high = RandomKey();
    const Slice begin(low), end(high);
    CompactRangeOptions options;
    options.rewrite_bottommost_level = rng_.OneIn(2);
    ASSERT_TRUE(Ok(db_->CompactRange(options, rng_.OneIn(3) ? nullptr : &begin,
                                     rng_.OneIn(3) ? nullptr : &end)));
  }

  void Open() {
    options_ = RandomOptions(&rng_);
    least_levels_ = std::max(options_.num_levels, least_levels_);
    options_.num_levels = least_levels_;
    options_.env = &faulty_;
    ++totals_->opens;
    ASSERT_TRUE(Ok(DB::Open(options_, path_, &db_)));
  }

  void Reopen() {
    ReleaseAll();
    ASSERT_TRUE(Ok(db_->Close()));
    MarkSynced();
    db_.reset();
    Open();
    if (Failed()) return;
    ASSERT_TRUE(
        HasEntries(db_.get(), ToList(model_.entries()), {}, rng_.OneIn(5)));
  }

  // Cuts the power. The DB must come back in its state after the last synced
  // write or a later one.
  void CutPower() {
    ReleaseAll();
    faulty_.SetFilesystemActive(false);
    db_.reset();
    CrashOptions crash;
    crash.seed = rng_.Next();
    crash.lose_everything_unsynced = rng_.OneIn(4);
    ASSERT_TRUE(Ok(faulty_.CrashAndReset(crash)));
    Open();
    if (Failed()) return;
    EntryList found;
    ASSERT_TRUE(Ok(ScanForward(db_.get(), {}, &found)));
    ModelDb then;
    *then.mutable_entries() = base_;
    size_t applied = 0;
    const auto apply_to = [&](size_t count) {
      for (; applied < count; applied++) {
        then.Write(changes_[applied]).IgnoreError();  // Was applied before.
      }
    };
    apply_to(synced_changes_);
    auto same = SameEntries(ToList(then.entries()), found);
    while (!same && applied < changes_.size()) {
      apply_to(applied + 1);
      same = SameEntries(ToList(then.entries()), found);
    }
    ASSERT_TRUE(same) << "no state at or behind synced write "
                      << synced_changes_ << " of " << changes_.size();
    ++totals_->power_cuts;
    totals_->lost += changes_.size() - applied;
    // The recovered writes may be lost again unless recovery synced them. They
    // are the new start.
    ASSERT_TRUE(Ok(db_->SyncWAL()));
    model_ = then;
    base_ = then.entries();
    changes_.clear();
    synced_changes_ = 0;
  }

  Totals* const totals_;
  Rng rng_;
  TempDir dir_;
  std::unique_ptr<Env> memory_;  // Null: the machine's.
  FaultInjectionEnv faulty_;
  const std::string path_;
  const int key_count_;
  const uint64_t range_deletion_percent_;
  Options options_;
  int least_levels_ = 0;  // Levels may have tables now.
  std::unique_ptr<DB> db_;
  ModelDb model_;
  std::list<HeldSnapshot> snapshots_;
  // base_ with changes_ applied is the model; the first synced_changes_ of
  // them survive a power cut.
  Entries base_;
  std::vector<WriteBatch> changes_;
  size_t synced_changes_ = 0;
};

TEST(DbModelTest, RandomOperationsMatchTheModel) {
  const int seeds = EnvironmentInt("VARVE_MODEL_SEEDS", 12);
  const int operations = EnvironmentInt("VARVE_MODEL_OPS", 3000);
  const uint64_t first = TestSeed();
  Totals totals;
  for (int i = 0; i < seeds && !::testing::Test::HasFailure(); i++) {
    const uint64_t seed = first + static_cast<uint64_t>(i);
    SCOPED_TRACE("TEST_SEED=" + std::to_string(seed));
    ModelRun(seed, &totals).Do(operations);
  }
  printf(
      "model: %d seeds, %llu of them on disk: %llu operations, %llu opens, "
      "%llu power cuts, %llu unsynced writes lost\n",
      seeds, static_cast<unsigned long long>(totals.on_disk),
      static_cast<unsigned long long>(totals.operations),
      static_cast<unsigned long long>(totals.opens),
      static_cast<unsigned long long>(totals.power_cuts),
      static_cast<unsigned long long>(totals.lost));
}

}  // namespace
}  // namespace varve::test
