// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Reads: of a key, of several, and iterators; and how they are counted.

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "db/engine/db_impl.h"
#include "db/engine/db_iterator.h"
#include "db/family/common_errors.h"
#include "db/merge/merge_all.h"
#include "db/prefix/prefix_iterator.h"
#include "db/prefix/prefix_sources.h"
#include "db/reads/skip_limit.h"
#include "db/reads/tailing_iterator.h"
#include "monitoring/measured_operation.h"
#include "monitoring/read_counts.h"
#include "monitoring/span.h"
#include "table/block/merging_iterator.h"
#include "util/base/experiment.h"
#include "util/bytes/hash.h"
#include "util/threads/path_counter.h"

namespace varve {

namespace {

// Lookups that MultiGet does together. More would be evicted from the
// processor's caches.
constexpr size_t kMultiGetBatch = 32;

// The ticker of level 0 is followed by the tickers of level 1 and of all deeper
// levels.
CounterGroup GroupOfLevel(CounterGroup of_level0, int level) {
  return static_cast<CounterGroup>(static_cast<int>(of_level0) + level);
}

// Returns the SuperVersion of another family at the moment of the default
// family's. Only a follower's snapshot has one, and not of a family that was
// dropped before.
[[gnu::noinline]] SuperVersion* FindInMoment(const SuperVersion& pin,
                                             const ColumnFamily& family) {
  return pin.moment != nullptr ? pin.moment->Find(&family.super_versions())
                               : nullptr;
}

// Returns the key of a tree for the newest sequence number that was read
// before.
IteratorTreeKey TreeKey(const SuperVersion& super_version,
                        const VersionRangeTombstones* tombstones,
                        uint64_t db_number, const ReadOptions& options,
                        bool asks_prefixes) {
  IteratorTreeKey key;
  key.db = db_number;
  key.super_version = super_version.number;
  key.has_memtable = !super_version.memtable->empty();
  key.has_tombstones =
      tombstones != nullptr || !super_version.memtable->tombstones().empty();
  for (const MemTable* memtable : super_version.immutable) {
    if (!memtable->tombstones().empty()) key.has_tombstones = true;
  }
  key.has_prefix_sources = asks_prefixes;
  key.verify_checksums = options.verify_checksums;
  key.fill_cache = options.fill_cache;
  key.readahead_size = options.readahead_size;
  key.read_tier = options.read_tier;
  key.deadline = options.deadline;
  return key;
}

// The scratch memory of a MultiGet's group of lookups.
struct MultiGetScratch {
  MultiGetScratch(size_t count, ThreadArena* memory)
      : targets(memory), lookups(memory), pending(count, memory) {
    targets.reserve(count);
    lookups.reserve(count);
  }

  ArenaVector<ReadTarget> targets;
  ArenaVector<Version::MultiLookup> lookups;
  ArenaVector<Version::MultiLookup*> pending;
  std::vector<MergedLookup> merges;  // Of all groups.
};

// Looks up as many keys as the scratch has targets. Returns the bytes found.
uint64_t MultiGetSome(const ReadOptions& options, StatisticsImpl* stats,
                      const SuperVersion& super_version,
                      SequenceNumber sequence, const Slice* keys,
                      MultiGetScratch* scratch, Status* statuses) {
  const size_t count = scratch->targets.size();
  auto& lookups = scratch->lookups;
  auto& pending = scratch->pending;
  lookups.clear();
  lookups.resize(count);
  const Slice* key = keys;
  ReadTarget* target = scratch->targets.data();
  for (Version::MultiLookup& l : lookups) {
    TableLookup& lookup = l.probe.lookup;
    lookup.user_key = *key;
    lookup.hash = PreviewXxh3(*key);
    lookup.sequence = sequence;
    l.probe.options = &options;
    l.probe.result = &l.result;
    l.result.target = target;
    super_version.Prefetch(lookup.hash);
    ++key;
    ++target;
  }
  LocalSpan step("memtable", TraceSteps());
  size_t pending_count = 0;
  for (Version::MultiLookup& l : lookups) {
    l.result.state = super_version.Find(l.probe.lookup, l.result.target);
    if (l.result.state == LookupState::kNotFound) {
      pending[pending_count++] = &l;
    } else if (options.read_tier == ReadTier::kPersistedTier) {
      l.result.state = LookupState::kMerge;  // As in LookUp.
    }
  }
  step.Next("tables");
  super_version.version->MultiGet(pending.data(), pending_count);
  size_t found = 0;
  uint64_t bytes = 0;
  ReadTotals totals;
  ReadCounts sum;
  static_assert(kMultiGetBatch <= 32);  // See kHighBits.
  Status* next_status = statuses;
  for (Version::MultiLookup& l : lookups) {
    Status& status = *next_status++;
    if ((l.result.counts.packed & ReadCounts::kHighBits) == 0) [[likely]] {
      sum.packed += l.result.counts.packed;
    } else {
      totals.Add(l.result.counts);
    }
    status = std::move(l.probe.status);
    if (l.result.state == LookupState::kFound && status.ok()) {
      ++found;
      bytes += l.result.target->size();
      continue;
    }
    l.result.target->Clear();
    if (!status.ok()) continue;
    if (l.result.state == LookupState::kMerge) {
      scratch->merges.push_back(
          {l.probe.lookup.user_key, *l.result.target, &status, {}});
      status = super_version.ReadVersions(options, l.probe.lookup,
                                          &scratch->merges.back().operands);
    } else {
      status = Status::NotFound();
    }
  }
  totals.Add(sum);
  if (stats != nullptr && stats->counts()) {
    const std::pair<Ticker, uint64_t> ticks[] = {
        {Ticker::kNumberMultiGetKeysRead, count},
        {Ticker::kNumberMultiGetKeysFound, found},
        {Ticker::kNumberMultiGetBytesRead, bytes},
        {Ticker::kMemtableHit, count - pending_count},
        {Ticker::kMemtableMiss, pending_count}};
    for (const auto& [ticker, n] : ticks) {
      if (n != 0) stats->TickCounted(ticker, n);
    }
    totals.Tick(stats);
  }
  if (PerfCounts()) [[unlikely]]
    totals.AddTo(GetPerfContext());
  return bytes;
}

// Builds the tree of an iterator. REQUIRES: a reference to the SuperVersion.
void BuildIterator(const InternalKeyComparator* comparator,
                   const ReadOptions& options,
                   const SuperVersion& super_version, SequenceNumber sequence,
                   const VersionRangeTombstones* tombstones,
                   IteratorState* state) {
  ThreadArena* const memory = state->memory();
  const Version& version = *super_version.version;
  ArenaVector<std::unique_ptr<InternalIterator>> children(memory);
  children.reserve(1 + super_version.immutable.size() +
                   version.files(0).size() + version.levels().size());
  RangeTombstoneFilters filters(comparator, sequence, memory);
  PrefixSources* const prefixes = state->prefix_sources();
  const auto add = [&](const MemTable& memtable) {
    RangeTombstoneFilters::SetList sets(memory);
    memtable.tombstones().CopySets(&sets);
    std::unique_ptr<InternalIterator> source = memtable.NewIterator(memory);
    if (prefixes != nullptr) {
      source = prefixes->Wrap(std::move(source), &memtable);
    }
    children.push_back(filters.Wrap(std::move(source), sets));
  };
  // Nothing that is added to an empty memtable from now on can be seen.
  if (!super_version.memtable->empty()) add(*super_version.memtable);
  for (const MemTable* memtable : super_version.immutable) add(*memtable);
  // The tree may outlive the objects that these point to.
  ReadOptions tree_options = options;
  tree_options.snapshot = nullptr;
  tree_options.iterate_lower_bound = nullptr;
  tree_options.iterate_upper_bound = nullptr;
  version.AddIterators(tree_options, tombstones, &filters, prefixes, &children);
  state->SetTree(NewMergingIterator(comparator, children, memory));
}

}  // namespace

std::vector<Status> DB::MultiGet(const ReadOptions& options,
                                 const std::vector<Slice>& keys,
                                 std::vector<std::string>* values) {
  std::vector<Status> statuses(keys.size());
  values->resize(keys.size());
  MultiGet(options, keys.size(), keys.data(), values->data(), statuses.data());
  return statuses;
}

DbReader::DbReader(DbCore& core)
    : core_(core),
      stats_(core.stats),
      versions_(core.versions.get()),
      family_(core.default_family),
      renews_arenas_(ExperimentFlagsOf(core.options).renews_arenas),
      // What is dead now may live again by the updates of another process.
      ignores_waste_(core.is_read_only ||
                     ExperimentFlagsOf(core.options).ignores_waste) {}

void DbReader::NoteWaste() {
  ignores_waste_ = ExperimentFlagsOf(core_.options).ignores_waste;
}

SequenceNumber DbReader::ReadSequence(const ReadOptions& options) const {
  return options.snapshot != nullptr ? options.snapshot->GetSequenceNumber()
                                     : versions_->LastSequence();
}

[[gnu::always_inline]] inline SuperVersionCache::Read DbReader::BeginRead(
    ColumnFamily* family, const ReadOptions& options) {
  // A read transaction pins the SuperVersion of the default family.
  if (options.snapshot != nullptr) {
    const auto* const snapshot =
        static_cast<const SnapshotImpl*>(options.snapshot);
    SuperVersion* const pin = snapshot->pin();
    if (pin != nullptr) {
      if (family == &family_) return SuperVersionCache::BeginPinned(pin);
      SuperVersion* const other = FindInMoment(*pin, *family);
      if (other != nullptr) return SuperVersionCache::BeginPinned(other);
    }
  }
  return family->super_versions().Begin();
}

const Snapshot* DBImpl::GetSnapshot() {
  return core_.default_family.snapshots()->Take(core_.follows);
}

PinnedSnapshot* DBImpl::BeginReadTransaction() {
  return core_.default_family.snapshots()->Take(true);
}

void DBImpl::ReleaseSnapshot(const Snapshot* snapshot) {
  if (snapshot == nullptr) return;
  core_.default_family.snapshots()->Release(
      const_cast<SnapshotImpl*>(static_cast<const SnapshotImpl*>(snapshot)));
}

// Inlined, for a call less in each Get.
[[gnu::always_inline]] inline Status DbReader::GetInto(
    ColumnFamily* family, const ReadOptions& options, const Slice& key,
    ReadTarget* target) {
  if (TraceWanted()) [[unlikely]]
    return TracedGet(family, options, key, target);
  if (IsOperationMeasured(stats_)) [[unlikely]] {
    return MeasuredGet(family, options, key, target);
  }
  return LookUp<false>(family, options, key, target);
}

Status DBImpl::Get(const ReadOptions& options, const Slice& key,
                   PinnableSlice* value) {
  ReadTarget target(value);
  return reader_.GetInto(&core_.default_family, options, key, &target);
}

Status DBImpl::Get(const ReadOptions& options, const Slice& key,
                   std::string* value) {
  ReadTarget target(value);
  return reader_.GetInto(&core_.default_family, options, key, &target);
}

Status DBImpl::Get(const ReadOptions& options, ColumnFamilyHandle* handle,
                   const Slice& key, PinnableSlice* value) {
  ReadTarget target(value);
  ColumnFamily* const family = FamilyHandle::FamilyOf(core_.families, handle);
  if (family == nullptr) [[unlikely]] {
    target.Clear();
    return ForeignHandleError();
  }
  return reader_.GetInto(family, options, key, &target);
}

Status DBImpl::Get(const ReadOptions& options, ColumnFamilyHandle* handle,
                   const Slice& key, std::string* value) {
  ReadTarget target(value);
  ColumnFamily* const family = FamilyHandle::FamilyOf(core_.families, handle);
  if (family == nullptr) [[unlikely]] {
    target.Clear();
    return ForeignHandleError();
  }
  return reader_.GetInto(family, options, key, &target);
}

Status DbReader::TracedGet(ColumnFamily* family, const ReadOptions& options,
                           const Slice& key, ReadTarget* target) {
  const RequestSpan span("DB::Get");
  if (IsOperationMeasured(stats_)) {
    return MeasuredGet(family, options, key, target);
  }
  return TraceSteps() ? LookUp<true>(family, options, key, target)
                      : LookUp<false>(family, options, key, target);
}

Status DbReader::MeasuredGet(ColumnFamily* family, const ReadOptions& options,
                             const Slice& key, ReadTarget* target) {
  MeasuredOperation operation(stats_, HistogramType::kDbGet, core_.env);
  Status status = LookUp<true>(family, options, key, target);
  if (status.ok()) {
    operation.Record(HistogramType::kBytesPerRead, target->size());
    if (PerfCounts()) GetPerfContext()->get_read_bytes += target->size();
  }
  return status;
}

// REQUIRES: the statistics count.
[[gnu::always_inline]] inline void DbReader::CountGet(
    const LookupResult& result, bool in_memtable, bool found) {
  if (found) stats_->TickCounted(Ticker::kBytesRead, result.target->size());
  if (in_memtable) [[unlikely]] {  // No table has counted anything.
    stats_->TickGroup(found ? CounterGroup::kGetFromMemtable
                            : CounterGroup::kGetDeletedInMemtable);
    return;
  }
  const ReadCounts& counts = result.counts;
  if (found) [[likely]] {
    const int level = counts.level;
    if (counts.packed == ReadCounts::kUsual) [[likely]] {
      stats_->TickGroup(GroupOfLevel(CounterGroup::kGetL0Usual, level));
      return;
    }
    stats_->TickGroup(GroupOfLevel(CounterGroup::kGetL0, level));
  } else {
    stats_->TickGroup(CounterGroup::kGetNowhere);
  }
  if (counts.packed != 0) ReadTotals(counts).Tick(stats_);
}

// kMeasured: adds to the thread's PerfContext, and records the steps in its
// trace.
template <bool kMeasured>
Status DbReader::LookUp(ColumnFamily* family, const ReadOptions& options,
                        const Slice& key, ReadTarget* target) {
  LookupResult result;
  result.target = target;
  TableLookup lookup;
  lookup.user_key = key;
  lookup.hash = PreviewXxh3(key);
  const SuperVersionCache::Read read = BeginRead(family, options);
  const SuperVersion& super_version = *read.super_version;
  // After the SuperVersion is held: a flush and a compaction in between could
  // drop the version of the key that an earlier number needs.
  lookup.sequence = ReadSequence(options);
  Status status;
  LocalSpan step("memtable", kMeasured && TraceSteps());
  {
    const MaybePerfTimer<kMeasured> timer(core_.env,
                                          &PerfContext::get_from_memtable_time);
    result.state = super_version.Find(lookup, target);
  }
  const bool in_memtable = result.state != LookupState::kNotFound;
  if (!in_memtable) {
    const MaybePerfTimer<kMeasured> timer(
        core_.env, &PerfContext::get_from_output_files_time);
    step.Next("tables");
    status = super_version.version->Get<kMeasured>(options, lookup, &result);
  } else if (options.read_tier == ReadTier::kPersistedTier) [[unlikely]] {
    // As a merge is: looked up again, and not in all memtables.
    result.state = LookupState::kMerge;
  }
  if (!family->super_versions().End(read)) [[unlikely]] {
    target->Clear();
    return ClosedError();
  }
  const bool found = status.ok() && result.state == LookupState::kFound;
  if constexpr (kMeasured) {
    if (PerfCounts()) {
      ReadTotals(result.counts).AddTo(GetPerfContext());
      ++GetPerfContext()->get_from_memtable_count;
    }
  }
  if (stats_ != nullptr && stats_->counts()) {
    CountGet(result, in_memtable, found);
  }
  if (found) [[likely]]
    return status;
  target->Clear();
  if (!status.ok()) return status;
  if (result.state == LookupState::kMerge) {
    return GetMerged(family, options, key, target);
  }
  return Status::NotFound();
}

void DBImpl::MultiGet(const ReadOptions& options, ColumnFamilyHandle* family,
                      size_t count, const Slice* keys, PinnableSlice* values,
                      Status* statuses) {
  reader_.MultiGetInto(FamilyHandle::FamilyOf(core_.families, family), options,
                       count, keys, values, statuses);
}

void DBImpl::MultiGet(const ReadOptions& options, ColumnFamilyHandle* family,
                      size_t count, const Slice* keys, std::string* values,
                      Status* statuses) {
  reader_.MultiGetInto(FamilyHandle::FamilyOf(core_.families, family), options,
                       count, keys, values, statuses);
}

void DBImpl::MultiGet(const ReadOptions& options, size_t count,
                      ColumnFamilyHandle* const* families, const Slice* keys,
                      PinnableSlice* values, Status* statuses) {
  reader_.MultiGetFamilies(options, count, families, keys, values, statuses);
}

void DBImpl::MultiGet(const ReadOptions& options, size_t count,
                      ColumnFamilyHandle* const* families, const Slice* keys,
                      std::string* values, Status* statuses) {
  reader_.MultiGetFamilies(options, count, families, keys, values, statuses);
}

// Takes a snapshot, unless the caller has one, and reads family after family.
// One family alone needs neither that nor copies of the arrays.
template <typename Value>
void DbReader::MultiGetFamilies(const ReadOptions& options, size_t count,
                                ColumnFamilyHandle* const* families,
                                const Slice* keys, Value* values,
                                Status* statuses) {
  if (count == 0) return;
  ColumnFamily* const first =
      FamilyHandle::FamilyOf(core_.families, families[0]);
  if (std::all_of(families, families + count,
                  [this, first](ColumnFamilyHandle* family) {
                    return FamilyHandle::FamilyOf(core_.families, family) ==
                           first;
                  })) {
    MultiGetInto(first, options, count, keys, values, statuses);
    return;
  }
  std::vector<size_t> order(count);
  for (size_t i = 0; i < count; ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return std::less<>()(FamilyHandle::FamilyOf(core_.families, families[a]),
                         FamilyHandle::FamilyOf(core_.families, families[b]));
  });
  ReadOptions at_one_moment = options;
  SnapshotImpl* snapshot = nullptr;
  if (options.snapshot == nullptr) {
    snapshot = family_.snapshots()->Take(core_.follows);
    at_one_moment.snapshot = snapshot;
  }
  std::vector<Slice> some_keys;
  for (size_t begin = 0, end = 0; begin < count; begin = end) {
    ColumnFamily* const family =
        FamilyHandle::FamilyOf(core_.families, families[order[begin]]);
    some_keys.clear();
    for (; end < count && FamilyHandle::FamilyOf(
                              core_.families, families[order[end]]) == family;
         ++end) {
      some_keys.push_back(keys[order[end]]);
    }
    const auto some_values = std::make_unique<Value[]>(end - begin);
    std::vector<Status> some_statuses(end - begin);
    MultiGetInto(family, at_one_moment, end - begin, some_keys.data(),
                 some_values.get(), some_statuses.data());
    for (size_t i = begin; i < end; ++i) {
      values[order[i]] = std::move(some_values[i - begin]);
      statuses[order[i]] = std::move(some_statuses[i - begin]);
    }
  }
  if (snapshot != nullptr) family_.snapshots()->Release(snapshot);
}

template <typename Value>
void DbReader::MultiGetInto(ColumnFamily* family, const ReadOptions& options,
                            size_t count, const Slice* keys, Value* values,
                            Status* statuses) {
  const RequestSpan span("DB::MultiGet");
  if (family == nullptr) [[unlikely]] {
    for (size_t i = 0; i < count; ++i) {
      ReadTarget(&values[i]).Clear();
      statuses[i] = ForeignHandleError();
    }
    return;
  }
  std::optional<MeasuredOperation> operation;
  if (IsOperationMeasured(stats_)) [[unlikely]] {
    operation.emplace(stats_, HistogramType::kDbMultiGet, core_.env);
  }
  uint64_t bytes = 0;
  const ScopedArena arena(ArenaKind::kMultiGet, renews_arenas_);
  if (arena.memory() == nullptr) CountPath(PathCounter::kFreshArena);
  MultiGetScratch scratch(std::min(count, kMultiGetBatch), arena.memory());
  SuperVersionCache::Read read = BeginRead(family, options);
  const SequenceNumber sequence = ReadSequence(options);
  // One epoch per batch: blocks evicted during it stay until its end.
  SuperVersion* const counted =
      count > kMultiGetBatch ? read.super_version : nullptr;
  const uint32_t stripe = read.record->stripe;
  if (counted != nullptr) counted->refs.Ref(stripe);
  bool open = true;
  for (size_t done = 0; done < count; done += kMultiGetBatch) {
    const size_t batch = std::min(count - done, kMultiGetBatch);
    if (done > 0) {
      open &= family->super_versions().End(read);
      read = SuperVersionCache::BeginPinned(counted);
    }
    scratch.targets.clear();
    for (size_t i = 0; i < batch; ++i) {
      scratch.targets.emplace_back(&values[done + i]);
    }
    bytes += MultiGetSome(options, stats_, *read.super_version, sequence,
                          keys + done, &scratch, statuses + done);
  }
  open &= family->super_versions().End(read);
  if (counted != nullptr) family->super_versions().Release(counted, stripe);
  if (!scratch.merges.empty()) [[unlikely]]
    bytes += FinishMerges(family, &scratch.merges);
  for (size_t i = 0; i < count && !open; ++i) {
    ReadTarget(&values[i]).Clear();
    statuses[i] = ClosedError();
  }
  RecordTick(stats_, Ticker::kNumberMultiGetCalls);
  if (operation) operation->Record(HistogramType::kBytesPerMultiGet, bytes);
  if (PerfCounts()) [[unlikely]]
    GetPerfContext()->multiget_read_bytes += bytes;
}

std::unique_ptr<Iterator> DBImpl::NewIterator(const ReadOptions& options,
                                              ColumnFamilyHandle* family) {
  const RequestSpan span("DB::NewIterator");
  return reader_.NewIteratorFor<false>(
      FamilyHandle::FamilyOf(core_.families, family), options);
}

// The snapshot is taken before any SuperVersion. Otherwise a memtable could be
// switched in between, and the iterators of two families would see different
// moments.
Status DBImpl::NewIterators(const ReadOptions& options,
                            const std::vector<ColumnFamilyHandle*>& families,
                            std::vector<std::unique_ptr<Iterator>>* iterators) {
  iterators->clear();
  if (IsClosed()) return ClosedError();
  ReadOptions at_one_moment = options;
  const Snapshot* snapshot = nullptr;
  if (options.snapshot == nullptr) {
    snapshot = GetSnapshot();
    at_one_moment.snapshot = snapshot;
  }
  Status status;
  for (ColumnFamilyHandle* const family : families) {
    iterators->push_back(NewIterator(at_one_moment, family));
    if (status.ok()) status = iterators->back()->status();
  }
  if (snapshot != nullptr) ReleaseSnapshot(snapshot);
  if (!status.ok()) iterators->clear();
  return status;
}

// An iterator for the database's own jobs: Close does not wait for it, and its
// walks are remembered, but not reported.
std::unique_ptr<Iterator> DbReader::NewOwnIterator(ColumnFamily* family) {
  return NewIteratorFor<true>(family, ReadOptions());
}

// For a reader that holds the SuperVersion and has then loaded its sequence
// number. Returns whether the SuperVersion has all writes up to that number. It
// has not if the memtable was switched between the two, and then written to.
// The reader sees the moment of the switch in that case.
bool DbReader::SeesAllUpTo(const ColumnFamily& family,
                           const ReadOptions& options,
                           const SuperVersion& super_version) {
  // A snapshot's number is older than the SuperVersion, or belongs to it.
  return options.snapshot != nullptr ||
         family.super_versions().IsCurrent(super_version.number);
}

template <bool kOwn>
std::unique_ptr<Iterator> DbReader::NewIteratorFor(ColumnFamily* family,
                                                   const ReadOptions& options) {
  if (family == nullptr) [[unlikely]]
    return NewErrorIterator(ForeignHandleError());
  if (options.tailing || options.max_skippable_internal_keys != 0 ||
      options.read_tier == ReadTier::kPersistedTier) [[unlikely]] {
    return NewSpecialIterator(family, options);
  }
  return NewPlainIterator<kOwn>(family, options, nullptr);
}

std::unique_ptr<Iterator> DbReader::NewSpecialIterator(
    ColumnFamily* family, const ReadOptions& options) {
  if (options.read_tier == ReadTier::kPersistedTier) {
    return NewErrorIterator(
        Status::NotSupported("kPersistedTier is not for iterators"));
  }
  // Before the iterator is created, which may see more.
  const SequenceNumber seen = ReadSequence(options);
  std::shared_ptr<SkipLimit> limit;
  if (options.max_skippable_internal_keys != 0) {
    limit = NewSkipLimit(options.max_skippable_internal_keys);
  }
  std::unique_ptr<Iterator> iterator =
      NewPlainIterator<false>(family, options, limit.get());
  if (!iterator->status().ok()) return iterator;
  if (limit != nullptr) {
    iterator = NewSkipLimitedIterator(std::move(limit), std::move(iterator));
  }
  return options.tailing
             ? NewTailingIterator(std::move(iterator), versions_, seen)
             : std::move(iterator);
}

template <bool kOwn>
std::unique_ptr<Iterator> DbReader::NewPlainIterator(ColumnFamily* family,
                                                     const ReadOptions& options,
                                                     SkipLimit* skip_limit) {
  DbIteratorParts parts;
  parts.is_own = kOwn;
  Status status = BeginIterator(family, options, nullptr, &parts);
  if (!status.ok()) return NewErrorIterator(std::move(status));
  parts.comparator = &family->comparator();
  parts.statistics = stats_;
  parts.merge_operator = family->options().merge_operator.get();
  parts.skip_limit = skip_limit;
  parts.env = core_.env;
  RecordTick(stats_, Ticker::kIteratorsCreated);
  if (!kOwn) family->CountIterator(parts.stripe, 1);
  parts.owner = this;
  parts.family = family;
  std::unique_ptr<BoundedIterator> iterator = NewDbIterator(parts, options);
  if (!parts.prefixes.any()) [[likely]]
    return iterator;
  return NewPrefixIterator(std::move(iterator), parts.prefixes,
                           parts.super_version->prefix_extractor,
                           parts.comparator, options);
}

// For an iterator without the extractor of the SuperVersion: a new one takes
// it, and a refreshed one goes on with its own, which tells nothing of sources.
void DbReader::UsePrefixes(const ColumnFamily& family,
                           const ReadOptions& options,
                           const SuperVersion& super_version,
                           DbIteratorParts* parts) {
  if (parts->super_version != nullptr) {
    parts->prefixes.asks_filters = false;
  } else if (!parts->is_own) {  // The database's own iterators see all keys.
    parts->prefixes = PrefixUse(*super_version.prefix_extractor,
                                family.options(), family.comparator(), options);
  }
}

Status DbReader::BeginIterator(ColumnFamily* family, const ReadOptions& options,
                               IteratorState* reused, DbIteratorParts* parts) {
  const SuperVersionCache::Read read = BeginRead(family, options);
  SuperVersion* const super_version = read.super_version;
  const uint32_t stripe = read.record->stripe;
  super_version->refs.Ref(stripe);
  RecordTick(stats_, Ticker::kSuperVersionAcquires);
  // After the SuperVersion is held, as in Get.
  const SequenceNumber sequence = ReadSequence(options);
  std::shared_ptr<const VersionRangeTombstones> tombstones;
  Status status;
  if (family->super_versions().End(read)) [[likely]] {
    status = super_version->version->FindRangeTombstones(options, &tombstones);
  } else {
    status = ClosedError();
  }
  if (!status.ok()) {
    family->super_versions().Release(super_version, stripe);
    RecordTick(stats_, Ticker::kSuperVersionReleases);
    return status;
  }
  if (super_version->prefix_extractor.get() != parts->prefixes.extractor)
      [[unlikely]] {
    UsePrefixes(*family, options, *super_version, parts);
  }
  // An error must be seen, whatever the filters of the table say.
  if (tombstones != nullptr && tombstones->unread != nullptr) [[unlikely]]
    parts->prefixes.asks_filters = false;
  const PrefixUse& prefixes = parts->prefixes;
  const IteratorTreeKey key =
      TreeKey(*super_version, tombstones.get(), core_.families.db_number(),
              options, prefixes.asks_filters);
  // Filters of range deletions are for one sequence number.
  if (reused != nullptr && reused->key() == key && !key.has_tombstones) {
    parts->state = reused;
  } else {
    // Range deletions that a table failed to yield may be readable the next
    // time.
    const bool fresh = renews_arenas_ ||
                       (tombstones != nullptr && tombstones->unread != nullptr);
    parts->state = IteratorState::Take(fresh, key);
    if (parts->state->tree() == nullptr) {
      if (prefixes.asks_filters) [[unlikely]] {
        parts->state->SetPrefixSources(std::unique_ptr<PrefixSources>(
            new (parts->state->memory()) PrefixSources(
                &family->comparator(), family->table_cache(),
                prefixes.extractor, stats_, parts->state->memory())));
      }
      BuildIterator(&family->comparator(), options, *super_version, sequence,
                    tombstones.get(), parts->state);
    }
  }
  parts->sequence = sequence;
  parts->super_version = super_version;
  parts->stripe = stripe;
  parts->dead_walks = nullptr;
  if (!ignores_waste_ && prefixes.MayNoteWalks()) {
    if (SeesAllUpTo(*family, options, *super_version)) [[likely]]
      parts->dead_walks = family->dead_walks();
    if (!super_version->memtable->tombstones().empty()) [[unlikely]]
      family->dead_walks()->NoteRangeDeletions();
  }
  return status;
}

void DbReader::ReleaseSuperVersion(const DbIteratorParts& parts) {
  parts.family->super_versions().Release(parts.super_version, parts.stripe);
  RecordTick(stats_, Ticker::kSuperVersionReleases);
}

void DbReader::EndIterator(const DbIteratorParts& parts) {
  ReleaseSuperVersion(parts);
  RecordTick(stats_, Ticker::kIteratorsDeleted);
  if (parts.is_own) return;
  if (parts.family == &family_) [[likely]] {
    family_.CountIterator(parts.stripe, -1);
    return;
  }
  const uint32_t id = parts.family->id();
  parts.family->CountIterator(parts.stripe, -1);
  // It may be freed from here on.
  if (core_.families.MayWait(id)) [[unlikely]]
    BuryFamilies();
}

void DbReader::BuryFamilies() {
  MutexLock lock(core_.mutex());
  core_.families.BuryWaitingLocked();
  if (core_.families.HasDeadLocked()) core_.jobs.PurgeLaterLocked();
}

// ---- Keys with merge operands -----------------------------------------------

// For a Get that has found a merge operand: collects the operands, ends the
// read, and calls the merge operator. It is a read of its own, so that others
// execute no instruction for it, and may see a later state of the database.
Status DbReader::GetMerged(ColumnFamily* family, const ReadOptions& options,
                           const Slice& key, ReadTarget* target) {
  MergeOperands operands;
  Status status = ReadVersions(family, options, key, &operands);
  if (status.ok()) status = ApplyMerge(family, key, operands, target);
  if (status.ok()) {
    RecordTick(stats_, Ticker::kNumberKeysFound);
    RecordTick(stats_, Ticker::kBytesRead, target->size());
  }
  return status;
}

Status DbReader::ReadVersions(ColumnFamily* family, const ReadOptions& options,
                              const Slice& key, MergeOperands* versions) {
  TableLookup lookup;
  lookup.user_key = key;
  lookup.hash = PreviewXxh3(key);
  const SuperVersionCache::Read read = BeginRead(family, options);
  lookup.sequence = ReadSequence(options);
  Status status = read.super_version->ReadVersions(options, lookup, versions);
  return family->super_versions().End(read) ? std::move(status) : ClosedError();
}

// Sets the target to the value that the operands result in.
Status DbReader::ApplyMerge(ColumnFamily* family, const Slice& key,
                            const MergeOperands& operands, ReadTarget* target) {
  const LocalSpan span("merge");
  if (operands.empty()) {
    if (!operands.has_base()) return Status::NotFound();
    target->SetCopy(operands.base());
    return Status::OK();
  }
  std::string value;
  Status status = MergeAll(family->options().merge_operator.get(), key,
                           operands, stats_, &value);
  if (status.ok()) target->SetCopy(value);
  return status;
}

// Calls the merge operator for the keys that need it. Returns the bytes found.
uint64_t DbReader::FinishMerges(ColumnFamily* family,
                                std::vector<MergedLookup>* lookups) {
  uint64_t bytes = 0;
  size_t found = 0;
  for (MergedLookup& merge : *lookups) {
    if (!merge.status->ok()) continue;
    *merge.status =
        ApplyMerge(family, merge.key, merge.operands, &merge.target);
    if (!merge.status->ok()) continue;
    ++found;
    bytes += merge.target.size();
  }
  RecordTick(stats_, Ticker::kNumberMultiGetKeysFound, found);
  RecordTick(stats_, Ticker::kNumberMultiGetBytesRead, bytes);
  return bytes;
}

}  // namespace varve
