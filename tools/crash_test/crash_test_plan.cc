// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "tools/crash_test/crash_test_plan.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <sstream>
#include <utility>
#include <vector>

#include "experimental/ablation.h"
#include "util/base/append_format.h"
#include "util/base/random.h"
#include "util/bytes/hash.h"
#include "varve/cache.h"
#include "varve/compaction_filter.h"
#include "varve/filter_policy.h"
#include "varve/merge_operator.h"
#include "varve/slice_transform.h"
#include "varve/sst_file_manager.h"

namespace varve::crash_test {

namespace {

uint64_t SumOf(const std::string& key, const std::string& value) {
  return PreviewXxh3(key + '=' + value);
}

bool Parse(const std::string& text, Counts* counts) {
  std::istringstream in(text);
  for (uint64_t& count : *counts) in >> count;
  return !in.fail();
}

// ---- The filter ----

constexpr char kKeep[] = "keep";
constexpr char kRemove[] = "remove";
constexpr char kChange[] = "change";
constexpr char kChanged[] = "Change";
constexpr uint64_t kFilteredKeys = 30;

std::string FilteredKey(int thread, uint64_t index) {
  return "t" + std::to_string(thread) + "/filtered" + std::to_string(index);
}
bool IsFilteredKey(const Slice& key) {
  return key.size() > 3 && key[0] == 't' &&
         Slice(key.data() + 2, key.size() - 2).starts_with("/filtered");
}

class TestFilter final : public CompactionFilter {
 public:
  bool Filter(int /*level*/, const Slice& key, const Slice& existing_value,
              std::string* new_value, bool* value_changed) const override {
    if (!IsFilteredKey(key)) return false;
    if (existing_value.starts_with(kChange)) {
      *new_value = existing_value.ToString();
      (*new_value)[0] = kChanged[0];
      *value_changed = true;
    }
    return existing_value.starts_with(kRemove);
  }
  const char* Name() const override { return "TestFilter"; }
};

// Filters all jobs.
class TestFilterFactory final : public CompactionFilterFactory {
 public:
  bool ShouldFilterTableFileCreation(
      TableFileCreationReason /*reason*/) const override {
    return true;
  }
  std::unique_ptr<CompactionFilter> CreateCompactionFilter(
      const CompactionFilter::Context& /*context*/) override {
    return std::make_unique<TestFilter>();
  }
  const char* Name() const override { return "TestFilterFactory"; }
};

// Returns whether the filter leaves `found` of what was written.
bool IsResult(const std::string& written, const std::string& found) {
  if (written == found) return true;
  return written.starts_with(kChange) && found.starts_with(kChanged) &&
         written.compare(1, std::string::npos, found, 1) == 0;
}

}  // namespace

bool MayBeFiltered(const Entries& written, const Entries& found) {
  for (const auto& [key, value] : found) {
    const auto original = written.find(key);
    if (original == written.end() || !IsResult(original->second, value)) {
      return false;
    }
  }
  for (const auto& [key, value] : written) {
    if (found.count(key) == 0 && !value.starts_with(kRemove)) return false;
  }
  return true;
}

// ---- The oracle -------------------------------------------------------------

Counts Progress::Acknowledged() const {
  Counts counts;
  for (int t = 0; t < kThreads; ++t) counts[t] = threads[t].acknowledged.load();
  return counts;
}

void Progress::RaiseSafe(const Counts& counts) {
  for (int t = 0; t < kThreads; ++t) {
    uint64_t now = threads[t].safe.load();
    while (now < counts[t] &&
           !threads[t].safe.compare_exchange_weak(now, counts[t])) {
    }
  }
}

Progress* MapProgress(const std::string& path) {
  const int descriptor = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  void* memory = MAP_FAILED;
  if (descriptor >= 0 && ftruncate(descriptor, sizeof(Progress)) == 0) {
    memory = mmap(nullptr, sizeof(Progress), PROT_READ | PROT_WRITE, MAP_SHARED,
                  descriptor, 0);
  }
  if (memory == MAP_FAILED) {
    perror(path.c_str());
    exit(2);
  }
  close(descriptor);
  return static_cast<Progress*>(memory);
}

std::string CheckpointPath(const std::string& directory, int which) {
  return directory + "/checkpoint" + std::to_string(which);
}

// ---- What is written --------------------------------------------------------

bool HasMerges(uint64_t seed) { return Random(seed + 1).OneIn(2); }
bool HasFilter(uint64_t seed) { return Random(seed + 2).OneIn(2); }

std::string KeyOf(int thread, uint64_t index) {
  std::string key;
  AppendFormat(&key, "t%d/%05" PRIu64, thread, index * 331 % 99991);
  return key;
}
// These sort after all digits, so no range of keys reaches them.
std::string SealKey(int thread) {
  return "t" + std::to_string(thread) + "/seal";
}
std::string ClockKey(int thread) {
  return "t" + std::to_string(thread) + "/clock";
}

std::string MakeClock(const Counts& counts) {
  std::string text;
  for (const uint64_t count : counts) text += std::to_string(count) + ' ';
  return text;
}

std::string ThreadModel::Seal() const {
  std::string seal;
  AppendFormat(&seal, "%" PRIu64 " %zu %016" PRIx64, last_, entries_.size(),
               sum_);
  return seal;
}

void ThreadModel::Restore(uint64_t last, const Entries& entries) {
  last_ = last;
  entries_ = entries;
  sum_ = 0;
  for (const auto& [key, value] : entries_) sum_ += SumOf(key, value);
}

void ThreadModel::Put(const std::string& key, const std::string& value) {
  Delete(key);
  entries_[key] = value;
  sum_ += SumOf(key, value);
}

void ThreadModel::Merge(const std::string& key, const std::string& operand) {
  const auto found = entries_.find(key);
  Put(key, found == entries_.end() ? operand : found->second + "," + operand);
}

void ThreadModel::UpdateFiltered(uint64_t choice, WriteBatch* batch) {
  const std::string key = FilteredKey(thread_, choice / 4 % kFilteredKeys);
  if (choice % 4 == 0) {
    if (batch != nullptr) batch->Delete(key);
    filtered_.erase(key);
    return;
  }
  constexpr const char* kKinds[] = {kKeep, kRemove, kChange};
  std::string value = kKinds[choice % 4 - 1];
  value += "/" + std::to_string(last_);
  if (batch != nullptr) batch->Put(key, value);
  filtered_[key] = value;
}

void ThreadModel::Delete(const std::string& key) {
  const auto found = entries_.find(key);
  if (found == entries_.end()) return;
  sum_ -= SumOf(found->first, found->second);
  entries_.erase(found);
}

void ThreadModel::DeleteRange(const std::string& begin,
                              const std::string& end) {
  const auto stop = entries_.lower_bound(end);
  for (auto at = entries_.lower_bound(begin); at != stop;) {
    sum_ -= SumOf(at->first, at->second);
    at = entries_.erase(at);
  }
}

void ThreadModel::Apply(uint64_t cycle, WriteBatch* batch) {
  ++last_;
  Random random(seed_ + cycle * 0x9E3779B97F4A7C15 +
                last_ * 0xC2B2AE3D27D4EB4F + static_cast<uint64_t>(thread_));
  const auto key = [&] {
    return KeyOf(thread_, random.Uniform(kKeysPerThread));
  };
  const bool is_sealed = thread_ < kSealedThreads;
  const uint64_t updates =
      is_sealed ? 1 + random.Uniform(random.OneIn(10) ? 40 : 4) : 1;
  for (uint64_t i = 0; i < updates; ++i) {
    if (random.OneIn(60)) {
      std::string begin = key();
      std::string end = key();
      if (end < begin) begin.swap(end);
      if (batch != nullptr) batch->DeleteRange(begin, end);
      DeleteRange(begin, end);
    } else if (random.OneIn(5)) {
      const std::string gone = key();
      if (batch != nullptr) batch->Delete(gone);
      Delete(gone);
    } else {
      const std::string put = key();
      std::string value = std::to_string(last_) + "/" + std::to_string(i) + "/";
      value.append(random.Uniform(random.OneIn(20) ? 5000 : 200),
                   static_cast<char>('a' + last_ % 26));
      if (has_merges_ && random.OneIn(2)) {
        if (batch != nullptr) batch->Merge(put, value);
        Merge(put, value);
      } else {
        if (batch != nullptr) batch->Put(put, value);
        Put(put, value);
      }
    }
  }
  if (has_filter_ && random.OneIn(2)) UpdateFiltered(random.Next() / 8, batch);
}

// ---- What is there ----------------------------------------------------------

uint64_t Moment::LeastOfUnsealed() const {
  uint64_t least = 0;
  for (const Counts& clock : clocks) least = std::max(least, clock.back());
  return least;
}

bool Moment::Follows(const Moment& earlier) const {
  for (int t = 0; t < kThreads; ++t) {
    if (entries[t] != earlier.entries[t] ||
        !MayBeFiltered(earlier.filtered[t], filtered[t])) {
      return false;
    }
  }
  return std::equal(seals, seals + kSealedThreads, earlier.seals) &&
         std::equal(clocks, clocks + kSealedThreads, earlier.clocks);
}

namespace {

size_t PlaceOf(const Slice& key, size_t families) {
  return PreviewXxh3(key) % families;
}

std::string NameOf(int family) { return "family" + std::to_string(family); }

std::string AddToMoment(Iterator* iterator, bool backwards, size_t place,
                        size_t families, Moment* moment) {
  if (backwards) {
    iterator->SeekToLast();
  } else {
    iterator->SeekToFirst();
  }
  while (iterator->Valid()) {
    const std::string key = iterator->key().ToString();
    const std::string value = iterator->value().ToString();
    const int t = key.size() > 3 && key[0] == 't' && key[2] == '/'
                      ? key[1] - '0'
                      : kThreads;
    if (t < 0 || t >= kThreads) return "nobody wrote " + key;
    if (PlaceOf(key, families) != place) {
      return key + " is in family " + std::to_string(place);
    }
    if (t < kSealedThreads && key == SealKey(t)) {
      moment->seals[t] = value;
      moment->last[t] = strtoull(value.c_str(), nullptr, 10);
    } else if (t < kSealedThreads && key == ClockKey(t)) {
      if (!Parse(value, &moment->clocks[t])) return key + " is " + value;
    } else if (Entries* const entries =
                   IsFilteredKey(key) ? moment->filtered : moment->entries;
               !entries[t].emplace(key, value).second) {
      return "the iterator gives " + key + " twice";
    }
    if (backwards) {
      iterator->Prev();
    } else {
      iterator->Next();
    }
  }
  return iterator->status().ok() ? "" : iterator->status().ToString();
}

}  // namespace

OpenedDb::~OpenedDb() {
  for (ColumnFamilyHandle* const handle : families) delete handle;
  for (ColumnFamilyHandle* const handle : passing) delete handle;
}

Status OpenDatabase(const CyclePlan& plan, const std::string& path,
                    bool read_only, OpenedDb* opened) {
  const auto count = static_cast<size_t>(plan.families);
  std::vector<std::string> names = {kDefaultColumnFamilyName};
  for (int i = 1; i < plan.families; ++i) names.push_back(NameOf(i));
  std::vector<std::string> found;
  // Without a database there are none.
  DB::ListColumnFamilies(plan.options, path, &found).IgnoreError();
  for (const std::string& name : found) {
    if (std::find(names.begin(), names.begin() + plan.families, name) ==
        names.begin() + plan.families) {
      names.push_back(name);
    }
  }
  std::vector<ColumnFamilyDescriptor> families;
  for (const std::string& name : names) {
    families.emplace_back(name, plan.options);
  }
  std::vector<ColumnFamilyHandle*> handles;
  Status status =
      read_only ? DB::OpenForReadOnly(plan.options, path, families, &handles,
                                      &opened->db)
                : DB::Open(plan.options, path, families, &handles, &opened->db);
  if (!status.ok()) return status;
  const auto end_of_fixed = handles.begin() + static_cast<ptrdiff_t>(count);
  opened->families.assign(handles.begin(), end_of_fixed);
  opened->passing.assign(end_of_fixed, handles.end());
  return status;
}

void Spread(const WriteBatch& batch,
            const std::vector<ColumnFamilyHandle*>& families,
            WriteBatch* spread) {
  class Spreader final : public WriteBatch::Handler {
   public:
    Spreader(const std::vector<ColumnFamilyHandle*>& families, WriteBatch* out)
        : families_(families), out_(out) {}
    void Put(const Slice& key, const Slice& value) override {
      out_->Put(families_[PlaceOf(key, families_.size())], key, value);
    }
    void Merge(const Slice& key, const Slice& operand) override {
      out_->Merge(families_[PlaceOf(key, families_.size())], key, operand);
    }
    void Delete(const Slice& key) override {
      out_->Delete(families_[PlaceOf(key, families_.size())], key);
    }
    void DeleteRange(const Slice& begin, const Slice& end) override {
      for (ColumnFamilyHandle* const family : families_) {
        out_->DeleteRange(family, begin, end);
      }
    }

   private:
    const std::vector<ColumnFamilyHandle*>& families_;
    WriteBatch* const out_;
  };
  Spreader spreader(families, spread);
  batch.Iterate(&spreader).IgnoreError();  // It was made here.
}

std::string MakeIterators(const OpenedDb& opened, const ReadOptions& options,
                          Iterators* iterators) {
  const Status status =
      opened.db->NewIterators(options, opened.families, iterators);
  return status.ok() ? "" : status.ToString();
}

std::string ReadMoment(const Iterators& iterators, bool backwards,
                       Moment* moment) {
  *moment = {};
  std::string problem;
  for (size_t i = 0; i < iterators.size() && problem.empty(); ++i) {
    problem =
        AddToMoment(iterators[i].get(), backwards, i, iterators.size(), moment);
  }
  return problem;
}

std::string ReadMoment(const OpenedDb& opened, const ReadOptions& options,
                       bool backwards, Moment* moment) {
  Iterators iterators;
  std::string problem = MakeIterators(opened, options, &iterators);
  return problem.empty() ? ReadMoment(iterators, backwards, moment) : problem;
}

std::string CheckMoment(const Moment& moment, const Counts& least) {
  for (int t = 0; t < kSealedThreads; ++t) {
    const std::string name = "thread " + std::to_string(t);
    const std::string at = name + " is at " + std::to_string(moment.last[t]);
    ThreadModel model(0, t);
    model.Restore(moment.last[t], moment.entries[t]);
    const std::string seal = moment.last[t] == 0 ? "" : moment.seals[t];
    if (moment.last[t] == 0 ? !moment.entries[t].empty()
                            : seal != model.Seal()) {
      return name + " sealed '" + seal + "', there is '" + model.Seal() + "'";
    }
    if (moment.last[t] < least[t]) {
      return at + ", but returned from " + std::to_string(least[t]);
    }
    for (const Counts& clock : moment.clocks) {
      if (moment.last[t] >= clock[t]) continue;
      return at + ", but a later write is there that knew of " +
             std::to_string(clock[t]);
    }
  }
  return "";
}

std::string CheckLookups(const OpenedDb& opened, const ReadOptions& options,
                         const Moment& expected) {
  for (int t = 0; t < kThreads; ++t) {
    std::vector<std::string> names;
    for (uint64_t i = 0; i < kKeysPerThread; ++i) names.push_back(KeyOf(t, i));
    const std::vector<Slice> keys(names.begin(), names.end());
    std::vector<std::string> values(keys.size());
    std::vector<Status> statuses(keys.size());
    std::vector<ColumnFamilyHandle*> families;
    for (const Slice& key : keys) {
      families.push_back(opened.families[PlaceOf(key, opened.families.size())]);
    }
    opened.db->MultiGet(options, keys.size(), families.data(), keys.data(),
                        values.data(), statuses.data());
    for (size_t i = 0; i < keys.size(); ++i) {
      // Some by themselves.
      if (i % 8 == 0) {
        statuses[i] = opened.db->Get(options, families[i], keys[i], &values[i]);
      }
      const auto wanted = expected.entries[t].find(names[i]);
      const bool is_there = wanted != expected.entries[t].end();
      if (is_there ? !statuses[i].ok() || values[i] != wanted->second
                   : !statuses[i].IsNotFound()) {
        return names[i] + " is " + statuses[i].ToString() + " " + values[i];
      }
    }
  }
  return "";
}

// ---- How a cycle goes -------------------------------------------------------

namespace {

// Optimizations that a cycle may do without.
constexpr const char* kAblations[] = {
    "superversion=mutex",  "block_index=binary_search",
    "block_cache=hash",    "memtable=skiplist",
    "table_open=uncached", "snapshots=mutex",
    "arena=fresh",         "waste=always"};

AblationOptions DrawAblations(Random* random, CyclePlan* plan) {
  AblationOptions ablation;
  if (random->OneIn(2)) return ablation;
  for (const char* each : kAblations) {
    // The names are of AblationOptions' own.
    if (random->OneIn(6)) ablation.Parse(each).IgnoreError();
  }
  plan->names += " ablation=" + ablation.ToString();
  return ablation;
}

}  // namespace

CyclePlan PlanCycle(uint64_t seed, uint64_t cycle) {
  Random random(seed * 31 + cycle);
  CyclePlan plan;
  Options& options = plan.options;
  options.create_if_missing = true;
  const auto say = [&plan](const char* name, uint64_t value) {
    AppendFormat(&plan.names, " %s=%" PRIu64, name, value);
  };
  options.write_buffer_size = size_t{64 << 10} << random.Uniform(5);
  say("write_buffer_size", options.write_buffer_size);
  options.max_write_buffer_number = 2 + static_cast<int>(random.Uniform(4));
  options.target_file_size_base = uint64_t{64 << 10} << random.Uniform(4);
  options.max_bytes_for_level_base = 128 << 10;
  options.max_bytes_for_level_multiplier = 4;
  options.level_compaction_dynamic_level_bytes = random.OneIn(2);
  options.block_size = size_t{512} << random.Uniform(5);
  say("block_size", options.block_size);
  if (random.OneIn(2)) {
    options.max_open_files = 10;
    say("max_open_files", 10);
  }
  const AblationOptions ablation = DrawAblations(&random, &plan);
  options.experiment = NewExperiment(ablation);
  if (random.OneIn(2)) {
    options.block_cache = NewBlockCache(
        ablation.block_cache,
        {.capacity_bytes = random.OneIn(2) ? size_t{0} : 64 << 10});
  }
  options.cache_index_and_filter_blocks = random.OneIn(4);
  if (random.OneIn(2)) options.filter_policy = NewBloomFilterPolicy(10);
  // Of each thread's own keys. Moments are read from the first or the last key,
  // which asks no filter.
  if (random.OneIn(2)) options.prefix_extractor = NewFixedPrefixTransform(4);
  options.whole_key_filtering = random.OneIn(2);
  options.memtable_prefix_bloom_size_ratio = random.OneIn(2) ? 0.1 : 0;
  options.compression =
      random.OneIn(2) ? CompressionType::kNone : CompressionType::kLZ4;
  options.wal_write = static_cast<WriteMethod>(random.Uniform(3));
  say("wal_write", static_cast<int>(options.wal_write));
  options.manual_wal_flush = random.OneIn(4);
  say("manual_wal_flush", options.manual_wal_flush ? 1 : 0);
  plan.disable_wal = random.OneIn(6);
  say("disable_wal", plan.disable_wal ? 1 : 0);
  options.use_direct_reads = random.OneIn(4);
  options.allow_mmap_reads = !options.use_direct_reads && random.OneIn(4);
  if (random.OneIn(3)) options.index_type = IndexType::kTwoLevelIndexSearch;
  options.partition_filters = random.OneIn(2);
  options.metadata_block_size = random.OneIn(2) ? 200 : 4096;
  say("index_type", static_cast<int>(options.index_type));
  // Obsolete tables wait, and a kill leaves some.
  const bool waits = random.OneIn(4);
  if (waits) {
    options.sst_file_manager =
        NewSstFileManager(Env::Default(), 1 << 20, /*max_trash_db_ratio=*/1);
  }
  say("trash", waits ? 1 : 0);
  options.paranoid_checks = !random.OneIn(4);
  options.max_background_jobs = 1 + static_cast<int>(random.Uniform(4));
  options.max_subcompactions = 1 + static_cast<int>(random.Uniform(2));
  options.level0_file_num_compaction_trigger =
      1 + static_cast<int>(random.Uniform(4));
  Random of_seed(seed);
  plan.families = 1 + static_cast<int>(of_seed.Uniform(8));
  say("families", plan.families);
  options.create_missing_column_families = true;
  options.atomic_flush =
      random.OneIn(4) || (plan.disable_wal && plan.families > 1);
  say("atomic_flush", options.atomic_flush ? 1 : 0);
  if (random.OneIn(3)) options.max_total_wal_size = 256 << 10;
  options.merge_operator = NewStringAppendOperator();
  if (random.OneIn(3)) options.max_successive_merges = 1 + random.Uniform(5);
  say("merges", HasMerges(seed) ? 1 : 0);
  if (HasFilter(seed)) {
    static const TestFilter filter;
    const bool has_factory = random.OneIn(2);
    if (has_factory) {
      options.compaction_filter_factory = std::make_shared<TestFilterFactory>();
    } else {
      options.compaction_filter = &filter;
    }
    say("filter_factory", has_factory ? 1 : 0);
  }
  // Tables of earlier cycles reach these ages.
  if (random.OneIn(4)) options.ttl = 1;
  say("ttl", options.ttl);
  if (random.OneIn(4)) options.periodic_compaction_seconds = 1;
  say("periodic_compaction_seconds", options.periodic_compaction_seconds);
  return plan;
}

}  // namespace varve::crash_test
