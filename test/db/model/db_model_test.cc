// Varve: a key-value storage engine. MIT licence, see LICENSE.
// Tags: threads variants
//
// Goal: whatever is done to a DB with 1 to 8 column families, in whatever order
// and with whatever options, each family answers as a std::map does; after a
// power cut all answer as the maps did at one moment not before the last synced
// write. One more family may have a compaction filter, which depends on the
// time, and ages at which tables are compacted. It answers as a map of which
// the filter saw all, some or nothing. Method: random operations on both under
// random options, a new seed each run. VARVE_MODEL_SEEDS sets the number of
// seeds, VARVE_MODEL_OPS the operations of each.

#include "test/testing/db/families_fixture.h"
#include "test/testing/db/filtered_family.h"
#include "test/testing/db/random_options.h"
#include "test/testing/db/table_calls.h"
#include "test/testing/sanitizers.h"
#include "test/testing/seed.h"
#include "test/testing/test_headers.h"
#include "varve/external_files.h"
#include "varve/sst_file_writer.h"
#include "varve/testing/fault_injection_env.h"

namespace varve::test {
namespace {

// The sum over all seeds.
struct Totals {
  uint64_t operations = 0;
  uint64_t power_cuts = 0;
  uint64_t lost = 0;  // Unsynced writes that a power cut took.
  uint64_t opens = 0;
  uint64_t on_disk = 0;  // Seeds.
  uint64_t families_created = 0;
  uint64_t families_dropped = 0;
  uint64_t ingestions = 0;
  uint64_t filtered = 0;  // Parts that a filter was seen to remove or change.
};

// One seed: a DB, its model, and the snapshots that are out.
class ModelRun {
 public:
  ModelRun(uint64_t seed, Totals* totals)
      : totals_(totals),
        rng_(seed),
        memory_(rng_.OneIn(10) ? nullptr : NewMemoryEnv(Env::Default())),
        clock_(1700000000, memory_ == nullptr ? Env::Default() : memory_.get()),
        faulty_(&clock_),
        path_(memory_ == nullptr ? dir_.Sub("it") : "/db/it"),
        most_families_(rng_.OneIn(4) ? 1 : rng_.Between(2, 8)),
        key_count_(rng_.Pick({50, 500, 5000})),
        range_deletion_percent_(rng_.Pick<uint64_t>({0, 1, 3, 20})),
        merge_percent_(rng_.Pick<uint64_t>({0, 10, 60})),
        has_filter_(rng_.OneIn(2)),
        filtered_(&rng_, &clock_.now_s, &model_) {
    if (memory_ == nullptr) {
      ++totals_->on_disk;
    } else {
      EXPECT_TRUE(Ok(memory_->CreateDirIfMissing("/db")));
    }
  }
  ~ModelRun() { ReleaseAll(); }

  void Do(int operation_count) {
    Open();
    if (has_filter_ && !Failed()) CreateFiltered();
    while (!Failed() && static_cast<int>(ids_.size()) < most_families_) {
      CreateFamily();
    }
    for (int i = 0; i < operation_count && !Failed(); i++) {
      SCOPED_TRACE("operation " + std::to_string(i));
      Step();
      ++totals_->operations;
    }
    totals_->filtered += filtered_.seen();
    if (Failed()) return;
    EXPECT_TRUE(Matches(model_));
    if (has_filter_) filtered_.CompactAll(db_.get(), !snapshots_.empty());
    EXPECT_TRUE(Ok(db_->VerifyChecksum()));
    Reopen();
  }

 private:
  struct HeldSnapshot {
    const Snapshot* snapshot;
    ModelFamilies model;
    // What the family with the filter must have for ever, if that is known.
    std::optional<EntryList> filtered;
  };
  // A family that was dropped, and its contents then.
  struct DroppedFamily {
    ColumnFamilyHandle* handle;
    EntryList entries;
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
    if (has_filter_ && rng_.OneIn(30)) return StepFiltered();
    if (rng_.OneIn(300)) return Ingest();
    const uint64_t kind = rng_.Below(1000);
    if (kind < 350) return Write();
    if (kind < 500) return WriteMany();
    if (kind < 750) return Get();
    if (kind < 800) return MultiGet();
    if (kind < 952) return Iterate();
    if (kind < 955) return IterateSeveral();
    if (kind < 957) return CreateFamily();
    if (kind < 959) return DropFamily();
    if (kind < 960) return CheckDropped();
    if (kind < 970) return TakeSnapshot();
    if (kind < 980) return CheckSnapshot();
    if (kind < 985) return Flush();
    if (kind < 988) return CompactSomeRange();
    if (kind < 989) return CompactSomeTables();
    if (kind < 990) return RemoveTables();
    if (kind < 992) return SyncWal();
    if (kind < 995) return Reopen();
    if (kind < 999) return CutPower();
    EXPECT_TRUE(Matches(model_));
  }

  // ---- Families ----

  const std::string& RandomFamily() {
    auto family = ids_.begin();
    std::advance(family, static_cast<long>(rng_.Below(ids_.size())));
    return family->first;
  }
  ColumnFamilyHandle* HandleOf(const std::string& name) {
    // The default family can also be meant without a handle.
    if (name == kDefaultColumnFamilyName && rng_.OneIn(2)) {
      return rng_.OneIn(2) ? nullptr : db_->DefaultColumnFamily();
    }
    return handles_.at(name);
  }
  const Entries& EntriesOf(const std::string& name) const {
    return model_.At(ids_.at(name));
  }
  std::vector<ColumnFamilyHandle*> AllHandles() const {
    std::vector<ColumnFamilyHandle*> all;
    for (const auto& [name, handle] : handles_) all.push_back(handle);
    return all;
  }

  void CreateFamily() {
    if (static_cast<int>(ids_.size()) >= most_families_) return;
    std::string name = "family0";
    while (ids_.count(name) != 0) ++name.back();
    ColumnFamilyHandle* handle = nullptr;
    ASSERT_TRUE(
        Ok(db_->CreateColumnFamily(RandomFamilyOptions(), name, &handle)));
    // A number is never used again.
    ASSERT_GT(handle->GetID(), last_id_);
    last_id_ = handle->GetID();
    ids_[name] = last_id_;
    handles_[name] = handle;
    ++totals_->families_created;
  }

  void DropFamily() {
    const std::string name = RandomFamily();
    if (name == kDefaultColumnFamilyName) return;
    ColumnFamilyHandle* const handle = handles_.at(name);
    ASSERT_TRUE(Ok(db_->DropColumnFamily(handle)));
    WriteBatch late;
    late.Put(handles_.at(kDefaultColumnFamilyName), "late", "value");
    late.Put(handle, "late", "value");
    ASSERT_TRUE(db_->Write({}, &late).IsInvalidArgument());
    ASSERT_TRUE(db_->DropColumnFamily(handle).IsInvalidArgument());
    dropped_.push_back({handle, ToList(EntriesOf(name))});
    model_.Drop(ids_.at(name));
    ids_.erase(name);
    handles_.erase(name);
    ++totals_->families_dropped;
    if (dropped_.size() > 3) CheckDropped();
  }

  // The handle of a dropped family reads on.
  void CheckDropped() {
    if (dropped_.empty()) return;
    const DroppedFamily& oldest = dropped_.front();
    EXPECT_TRUE(FamilyHasEntries(db_.get(), oldest.handle, oldest.entries));
    if (rng_.OneIn(2)) {
      ASSERT_TRUE(Ok(db_->DestroyColumnFamilyHandle(oldest.handle)));
      dropped_.pop_front();
    }
  }

  // ---- The family with a filter ----

  ColumnFamilyOptions FilteredOptions() {
    return filtered_.AddFilter(RandomFamilyOptions());
  }
  void CreateFiltered() {
    ColumnFamilyHandle* handle = nullptr;
    ASSERT_TRUE(Ok(db_->CreateColumnFamily(FilteredOptions(),
                                           FilteredFamily::kName, &handle)));
    filtered_.SetHandle(handle);
    last_id_ = handle->GetID();
  }
  void StepFiltered() {
    if (rng_.OneIn(8)) {
      clock_.now_s += rng_.Below(rng_.OneIn(4) ? 200 : 10);
    } else {
      filtered_.Step(db_.get(), key_count_, !snapshots_.empty());
    }
  }

  // ---- Reads of everything ----

  // Returns whether all families read as in the model, by iterators of one
  // moment and, with `gets`, by Get and MultiGet.
  ::testing::AssertionResult Matches(const ModelFamilies& model,
                                     const ReadOptions& options = {},
                                     bool gets = true) {
    std::vector<std::unique_ptr<Iterator>> iterators;
    const Status s = db_->NewIterators(options, AllHandles(), &iterators);
    if (!s.ok()) return Ok(s) << ", NewIterators";
    size_t i = 0;
    for (const auto& [name, handle] : handles_) {
      Iterator* const it = iterators[i++].get();
      const EntryList expected = ToList(model.At(ids_.at(name)));
      EntryList found;
      for (it->SeekToFirst(); it->Valid(); it->Next()) {
        found.emplace_back(it->key().ToString(), it->value().ToString());
      }
      if (!it->status().ok()) return Ok(it->status()) << ", " << name;
      auto same = SameEntries(expected, found);
      if (!same) return same << ", scanning " << name;
      found.clear();
      for (it->SeekToLast(); it->Valid(); it->Prev()) {
        found.emplace_back(it->key().ToString(), it->value().ToString());
      }
      std::reverse(found.begin(), found.end());
      same = SameEntries(expected, found);
      if (!same) return same << ", scanning backward " << name;
      if (!gets) continue;
      same = FamilyHasEntries(db_.get(), handle, expected, options);
      if (!same) return same << ", " << name;
    }
    return ::testing::AssertionSuccess();
  }

  // ---- Updates ----

  WriteOptions RandomWriteOptions() {
    WriteOptions options{.sync = rng_.OneIn(30)};
    return options;
  }
  void MarkSynced() { synced_changes_ = changes_.size(); }

  // Most runs have some range deletions, some many, and some none.
  void AddRandomUpdate(WriteBatch* batch) {
    if (has_filter_ && rng_.OneIn(4)) {
      filtered_.AddUpdate(batch, key_count_, range_deletion_percent_,
                          merge_percent_);
      return;
    }
    ColumnFamilyHandle* const family = HandleOf(RandomFamily());
    if (range_deletion_percent_ > rng_.Below(100)) {
      const auto count = static_cast<uint64_t>(key_count_);
      const auto begin = static_cast<int>(rng_.Below(count));
      const auto size = static_cast<int>(rng_.Below(rng_.OneIn(9) ? count : 9));
      batch->DeleteRange(family, Key(begin), Key(begin + size));
    } else if (rng_.OneIn(3)) {
      batch->Delete(family, RandomKey());
    } else if (merge_percent_ > rng_.Below(100)) {
      batch->Merge(family, RandomKey(), rng_.Bytes(rng_.Below(30)));
    } else {
      batch->Put(family, RandomKey(), RandomValue());
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

  // Writes a table of random updates, and adds what it does to the batch.
  void WriteTable(ColumnFamilyHandle* family, const std::string& file,
                  WriteBatch* batch) {
    Options options = options_;
    static_cast<ColumnFamilyOptions&>(options) = RandomFamilyOptions();
    SstFileWriter writer(options, rng_.OneIn(2) ? family : nullptr);
    ASSERT_TRUE(Ok(writer.Open(file)));
    const auto count = static_cast<uint64_t>(key_count_);
    if (range_deletion_percent_ > rng_.Below(100)) {
      const auto begin = static_cast<int>(rng_.Below(count));
      const auto size = 1 + static_cast<int>(rng_.Below(count));
      ASSERT_TRUE(Ok(writer.DeleteRange(Key(begin), Key(begin + size))));
      // It hides nothing of its own table.
      batch->DeleteRange(family, Key(begin), Key(begin + size));
    }
    // Dense or not, so that the range may be around other entries.
    const uint64_t most = 1 + rng_.Below(rng_.OneIn(2) ? 4 : count);
    for (uint64_t key = rng_.Below(count), i = 0; i == 0 || key < count;
         key += 1 + rng_.Below(most), ++i) {
      const std::string name = Key(static_cast<int>(key));
      if (rng_.OneIn(4)) {
        ASSERT_TRUE(Ok(writer.Delete(name)));
        batch->Delete(family, name);
      } else if (merge_percent_ > rng_.Below(100)) {
        const std::string operand = rng_.Bytes(rng_.Below(30));
        ASSERT_TRUE(Ok(writer.Merge(name, operand)));
        batch->Merge(family, name, operand);
      } else {
        const std::string value = RandomValue();
        ASSERT_TRUE(Ok(writer.Put(name, value)));
        batch->Put(family, name, value);
      }
    }
    ASSERT_TRUE(Ok(writer.Finish()));
  }

  // Ingests tables into one or more families. They are durable at once, and so
  // is all that was written before.
  void Ingest() {
    std::set<std::string> names;
    for (uint64_t i = rng_.Below(3) + 1; i > 0; --i) {
      names.insert(RandomFamily());
    }
    std::vector<IngestExternalFileArg> arguments;
    WriteBatch batch;
    int number = 0;
    for (const std::string& name : names) {
      IngestExternalFileArg argument{handles_.at(name), {}, {}};
      argument.options.move_files = rng_.OneIn(2);
      argument.options.link_files =
          !argument.options.move_files && rng_.OneIn(2);
      argument.options.verify_checksums_before_ingest = rng_.OneIn(2);
      for (uint64_t i = rng_.Below(3) + 1; i > 0; --i) {
        const std::string file = path_ + ".table" + std::to_string(++number);
        WriteTable(argument.column_family, file, &batch);
        argument.external_files.push_back(file);
      }
      arguments.push_back(argument);
    }
    if (Failed()) return;
    ASSERT_TRUE(Ok(db_->IngestExternalFiles(arguments)));
    ASSERT_TRUE(Ok(model_.Write(batch)));
    changes_.push_back(batch);
    MarkSynced();
    ++totals_->ingestions;
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
    const std::string family = RandomFamily();
    const std::string key = RandomKey();
    PinnableSlice value;
    Status s = db_->Get({}, HandleOf(family), key, &value);
    ExpectFound(key, EntriesOf(family), s, value);
    bool in_memory = false;
    std::string found;
    const bool may_exist =
        db_->KeyMayExist({}, HandleOf(family), key, &found, &in_memory);
    EXPECT_TRUE(may_exist || s.IsNotFound()) << key;
    EXPECT_TRUE(!in_memory || value == Slice(found)) << key;
  }

  // In one family or in several, now or at a snapshot.
  void MultiGet() {
    ReadOptions options;
    const ModelFamilies* model = &model_;
    if (!snapshots_.empty() && rng_.OneIn(3)) {
      options.snapshot = snapshots_.front().snapshot;
      model = &snapshots_.front().model;
    }
    const std::string only = rng_.OneIn(2) ? RandomFamily() : "";
    std::vector<std::string> names(rng_.Below(40));
    std::vector<Slice> keys;
    std::vector<std::string> families;
    std::vector<ColumnFamilyHandle*> handles;
    for (std::string& name : names) {
      keys.push_back(name = RandomKey());
      families.push_back(only.empty() ? RandomFamily() : only);
      handles.push_back(HandleOf(families.back()));
    }
    std::vector<PinnableSlice> values(keys.size());
    std::vector<Status> statuses(keys.size());
    if (only.empty()) {
      db_->MultiGet(options, keys.size(), handles.data(), keys.data(),
                    values.data(), statuses.data());
    } else {
      db_->MultiGet(options, HandleOf(only), keys.size(), keys.data(),
                    values.data(), statuses.data());
    }
    for (size_t i = 0; i < keys.size(); i++) {
      SCOPED_TRACE(families[i]);
      ExpectFound(names[i], model->At(ids_.at(families[i])), statuses[i],
                  values[i]);
    }
  }

  // A short walk within random bounds, back and forth.
  void Iterate() {
    const std::string low = RandomKey(), high = RandomKey();
    const Slice lower(low), upper(high);
    ReadOptions options{.fill_cache = rng_.OneIn(2)};
    // Both show all keys.
    options.auto_prefix_mode = rng_.OneIn(2);
    options.total_order_seek = !options.auto_prefix_mode;
    options.tailing = rng_.OneIn(8);
    if (rng_.OneIn(8)) options.max_skippable_internal_keys = 1000000;
    const std::string family = RandomFamily();
    const Entries& entries = EntriesOf(family);
    auto begin = entries.begin(), end = entries.end();
    if (rng_.OneIn(3)) {
      options.iterate_lower_bound = &lower;
      begin = entries.lower_bound(low);
    }
    if (rng_.OneIn(3)) {
      options.iterate_upper_bound = &upper;
      end = entries.lower_bound(high);
      if (options.iterate_lower_bound != nullptr && high <= low) begin = end;
    }
    auto it = db_->NewIterator(options, HandleOf(family));
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

  // Iterators of one moment, which a later write does not change until they are
  // refreshed.
  void IterateSeveral() {
    std::vector<std::string> families(1 + rng_.Below(4));
    std::vector<ColumnFamilyHandle*> handles;
    for (std::string& family : families) {
      family = RandomFamily();
      handles.push_back(HandleOf(family));
    }
    std::vector<std::unique_ptr<Iterator>> iterators;
    ASSERT_TRUE(
        Ok(db_->NewIterators({.total_order_seek = true}, handles, &iterators)));
    ASSERT_EQ(iterators.size(), families.size());
    ModelFamilies then = model_;
    WriteMany();
    if (rng_.OneIn(3)) {
      if (rng_.OneIn(3)) Flush();
      for (const auto& iterator : iterators) {
        ASSERT_TRUE(Ok(iterator->Refresh()));
      }
      then = model_;
    }
    for (size_t i = 0; i < families.size(); i++) {
      const Entries& entries = then.At(ids_.at(families[i]));
      Iterator* const it = iterators[i].get();
      const std::string target = RandomKey();
      auto at = entries.lower_bound(target);
      it->Seek(target);
      for (int steps = 0; steps < 50; steps++) {
        ASSERT_TRUE(Ok(it->status()));
        ASSERT_EQ(it->Valid(), at != entries.end()) << families[i];
        if (at == entries.end()) break;
        ASSERT_EQ(it->key().ToString(), at->first) << families[i];
        ASSERT_TRUE(it->value() == Slice(at->second)) << at->first;
        it->Next();
        ++at;
      }
    }
  }

  // ---- Snapshots ----

  void TakeSnapshot() {
    if (snapshots_.size() >= 5) Release(snapshots_.begin());
    // A job that began before the snapshot may still filter what it sees.
    const bool is_idle = has_filter_ && rng_.OneIn(2);
    if (is_idle) {
      ASSERT_TRUE(Ok(db_->WaitForCompact()));
    }
    snapshots_.push_back({db_->GetSnapshot(), model_, std::nullopt});
    if (is_idle) {
      HeldSnapshot& held = snapshots_.back();
      ASSERT_TRUE(Ok(ScanFamily(db_.get(), {.snapshot = held.snapshot},
                                filtered_.handle(), &held.filtered.emplace())));
    }
  }

  void CheckSnapshot() {
    if (snapshots_.empty()) return;
    auto held = std::next(snapshots_.begin(),
                          static_cast<long>(rng_.Below(snapshots_.size())));
    ReadOptions options{.snapshot = held->snapshot};
    EXPECT_TRUE(Matches(held->model, options, false));
    if (held->filtered) {
      EXPECT_TRUE(FamilyHasEntries(db_.get(), filtered_.handle(),
                                   *held->filtered, options));
    } else if (has_filter_) {
      EntryList found;
      ASSERT_TRUE(
          Ok(ScanFamily(db_.get(), options, filtered_.handle(), &found)));
      EXPECT_TRUE(
          filtered_.MayBeAllFiltered(held->model.At(filtered_.id()), found));
    }
    const std::string family = RandomFamily();
    const std::string key = RandomKey();
    std::string value;
    Status s = db_->Get(options, HandleOf(family), key, &value);
    ExpectFound(key, held->model.At(ids_.at(family)), s, value);
    if (rng_.OneIn(2)) Release(held);
  }

  void Release(std::list<HeldSnapshot>::iterator held) {
    db_->ReleaseSnapshot(held->snapshot);
    snapshots_.erase(held);
  }
  void ReleaseAll() {
    while (!snapshots_.empty()) Release(snapshots_.begin());
    for (const auto& [name, handle] : handles_) delete handle;
    handles_.clear();
    filtered_.Release();
    for (const DroppedFamily& family : dropped_) delete family.handle;
    dropped_.clear();
  }

  // ---- Maintenance ----

  // Data in tables is as durable as data in a synced log. The other families'
  // data may still be lost, but not older data than the flushed one's.
  void Flush() {
    if (rng_.OneIn(2)) {
      ASSERT_TRUE(Ok(db_->Flush({}, HandleOf(RandomFamily()))));
      if (ids_.size() == 1 && !has_filter_) MarkSynced();
      return;
    }
    std::vector<ColumnFamilyHandle*> all = AllHandles();
    if (has_filter_) all.push_back(filtered_.handle());
    ASSERT_TRUE(Ok(db_->Flush({}, all)));
    MarkSynced();
  }

  void SyncWal() {
    ASSERT_TRUE(Ok(db_->SyncWAL()));
    MarkSynced();
  }

  void CompactSomeRange() {
    const std::string low = RandomKey(), high = RandomKey();
    const Slice begin(low), end(high);
    ASSERT_TRUE(Ok(db_->CompactRange(
        {.rewrite_bottommost_level = rng_.OneIn(2)}, HandleOf(RandomFamily()),
        rng_.OneIn(3) ? nullptr : &begin, rng_.OneIn(3) ? nullptr : &end)));
  }

  void CompactSomeTables() {
    ASSERT_TRUE(Ok(WorkOnTables(db_.get(), HandleOf(RandomFamily()), &rng_)));
  }

  // Removes the tables in a range of keys, all of which are in one level, so
  // that no older value appears. Snapshots would lose keys.
  void RemoveTables() {
    if (!snapshots_.empty()) return;
    const std::string name = RandomFamily();
    ColumnFamilyHandle* const family = HandleOf(name);
    std::vector<ColumnFamilyHandle*> all = AllHandles();
    if (has_filter_) all.push_back(filtered_.handle());
    ASSERT_TRUE(Ok(db_->Flush({}, all)));
    ASSERT_TRUE(Ok(db_->CompactRange({.rewrite_bottommost_level = true}, family,
                                     nullptr, nullptr)));
    ASSERT_TRUE(Ok(db_->WaitForCompact()));
    ColumnFamilyMetaData metadata;
    db_->GetColumnFamilyMetaData(family, &metadata);
    const std::string low = RandomKey(), high = RandomKey();
    const Slice begin(low), end(high);
    const RangePtr range{&begin, &end};
    const Entries& entries = model_.At(ids_.at(name));
    WriteBatch removed;
    for (const LevelMetaData& level : metadata.levels) {
      for (const SstFileMetaData& table : level.files) {
        if (table.smallestkey < low || table.largestkey > high) continue;
        for (auto at = entries.lower_bound(table.smallestkey);
             at != entries.end() && at->first <= table.largestkey; ++at) {
          removed.Delete(family, at->first);
        }
      }
    }
    ASSERT_TRUE(Ok(db_->DeleteFilesInRanges(family, &range, 1)));
    ASSERT_TRUE(Ok(model_.Write(removed)));
    changes_.push_back(removed);
    MarkSynced();
    ASSERT_TRUE(Matches(model_, {}, false));
  }

  ColumnFamilyOptions RandomFamilyOptions() {
    ColumnFamilyOptions options = RandomOptions(&rng_);
    least_levels_ = std::max(options.num_levels, least_levels_);
    options.num_levels = least_levels_;
    return options;
  }

  void Open() {
    options_ = RandomOptions(&rng_);
    options_.env = &faulty_;
    ++totals_->opens;
    std::vector<ColumnFamilyDescriptor> families;
    for (const auto& [name, id] : ids_) {
      families.emplace_back(name, RandomFamilyOptions());
    }
    const bool has_filtered = filtered_.exists();
    if (has_filtered) {
      families.emplace_back(FilteredFamily::kName, FilteredOptions());
    }
    std::vector<ColumnFamilyHandle*> handles;
    ASSERT_TRUE(Ok(DB::Open(options_, path_, families, &handles, &db_)));
    if (has_filtered) {
      filtered_.SetHandle(handles.back());
      families.pop_back();
    }
    for (size_t i = 0; i < families.size(); i++) {
      ASSERT_EQ(handles[i]->GetID(), ids_.at(families[i].name));
      handles_[families[i].name] = handles[i];
    }
  }

  void Reopen() {
    ReleaseAll();
    ASSERT_TRUE(Ok(db_->Close()));
    MarkSynced();
    db_.reset();
    Open();
    if (Failed()) return;
    ASSERT_TRUE(Matches(model_, {}, rng_.OneIn(5)));
    if (has_filter_) filtered_.Scan(db_.get());
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
    ModelFamilies then = base_;
    size_t applied = 0;
    const auto apply_to = [&](size_t count) {
      for (; applied < count; applied++) {
        then.Write(changes_[applied]).IgnoreError();  // Was applied before.
      }
    };
    // Creations and drops of families are durable at once.
    std::map<std::string, EntryList> found;
    for (const auto& [name, handle] : handles_) {
      ASSERT_TRUE(Ok(ScanFamily(db_.get(), {}, handle, &found[name])));
    }
    EntryList filtered;
    if (has_filter_) {
      ASSERT_TRUE(Ok(ScanFamily(db_.get(), {}, filtered_.handle(), &filtered)));
    }
    const auto compare = [&] {
      for (const auto& [name, id] : ids_) {
        const auto same = SameEntries(ToList(then.At(id)), found.at(name));
        if (!same) return ::testing::AssertionResult(same) << ", " << name;
      }
      if (has_filter_) {
        return filtered_.MayBeAllFiltered(then.At(filtered_.id()), filtered);
      }
      return ::testing::AssertionSuccess();
    };
    apply_to(synced_changes_);
    auto same = compare();
    while (!same && applied < changes_.size()) {
      apply_to(applied + 1);
      same = compare();
    }
    ASSERT_TRUE(same) << "no state at or after synced write " << synced_changes_
                      << " of " << changes_.size();
    ++totals_->power_cuts;
    totals_->lost += changes_.size() - applied;
    // The recovered writes may be lost again unless recovery synced them. They
    // are the new start.
    ASSERT_TRUE(Ok(db_->SyncWAL()));
    model_ = then;
    base_ = then;
    changes_.clear();
    synced_changes_ = 0;
  }

  Totals* const totals_;
  Rng rng_;
  TempDir dir_;
  std::unique_ptr<Env> memory_;  // Null: the machine's.
  DateEnv clock_;
  FaultInjectionEnv faulty_;
  const std::string path_;
  const int most_families_;
  const int key_count_;
  const uint64_t range_deletion_percent_;
  const uint64_t merge_percent_;
  const bool has_filter_;
  FilteredFamily filtered_;  // None of those below. The DB uses its filter.
  Options options_;
  int least_levels_ = 0;  // Levels may have tables now.
  std::unique_ptr<DB> db_;
  // The families that exist, by name. No id is used for two families.
  std::map<std::string, uint32_t> ids_ = {{kDefaultColumnFamilyName, 0}};
  std::map<std::string, ColumnFamilyHandle*> handles_;
  uint32_t last_id_ = 0;
  std::list<DroppedFamily> dropped_;
  ModelFamilies model_;
  std::list<HeldSnapshot> snapshots_;
  // base_ with changes_ applied is the model; the first synced_changes_ of
  // them survive a power cut.
  ModelFamilies base_;
  std::vector<WriteBatch> changes_;
  size_t synced_changes_ = 0;
};

// The thread sanitizer, which makes it many times as slow, gets fewer seeds: it
// looks for what jobs and one caller do to each other in each of them.
#ifdef VARVE_TEST_THREAD_SANITIZED
constexpr int kSeeds = 4;
#else
constexpr int kSeeds = 12;
#endif

TEST(DbModelTest, RandomOperationsMatchTheModel) {
  const int seeds = EnvironmentInt("VARVE_MODEL_SEEDS", kSeeds);
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
      "%llu power cuts, %llu unsynced writes lost, %llu families created, "
      "%llu dropped, %llu ingestions, %llu values seen filtered\n",
      seeds, static_cast<unsigned long long>(totals.on_disk),
      static_cast<unsigned long long>(totals.operations),
      static_cast<unsigned long long>(totals.opens),
      static_cast<unsigned long long>(totals.power_cuts),
      static_cast<unsigned long long>(totals.lost),
      static_cast<unsigned long long>(totals.families_created),
      static_cast<unsigned long long>(totals.families_dropped),
      static_cast<unsigned long long>(totals.ingestions),
      static_cast<unsigned long long>(totals.filtered));
}

}  // namespace
}  // namespace varve::test
