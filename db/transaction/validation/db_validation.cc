// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Writes under the condition that nobody else has changed what their
// transactions read or write.

#include <algorithm>

#include "db/engine/db_impl.h"
#include "db/family/common_errors.h"
#include "db/transaction/validation/check_protocol.h"
#include "db/transaction/validation/commit_check.h"
#include "db/version/newer_updates.h"
#include "db/write/write_batch_internal.h"
#include "util/bytes/hash.h"

namespace varve {

namespace {

using Key = CommitCheck::Key;
using Range = CommitCheck::Range;

// Keys that are looked up together, in one read-side critical section.
constexpr size_t kKeysTogether = 32;

// A leader compares at most this many pairs of a key or range to check and an
// update of its group.
constexpr size_t kMostComparisons = 4096;

Status ChangedError() {
  return Status::Busy("another write changed what the transaction used");
}

UserKeyRange Bounds(const Range& range) {
  return {range.has_begin ? &range.begin : nullptr,
          range.has_end ? &range.end : nullptr, !range.end_is_inclusive};
}

// Return whether a memtable has an update after `since`. REQUIRES: the caller
// is inside a read-side critical section.
bool IsNewer(const SuperVersion& super_version, const Key& key,
             SequenceNumber since) {
  const auto has = [&](const MemTable& memtable) {
    return memtable.NewestSequence(key.key, key.hash) > since;
  };
  return has(*super_version.memtable) ||
         std::any_of(super_version.immutable.begin(),
                     super_version.immutable.end(), [&](const MemTable* older) {
                       return older->largest_sequence() > since && has(*older);
                     });
}
bool IsNewer(const SuperVersion& super_version, const Range& range,
             SequenceNumber since) {
  const UserKeyRange bounds = Bounds(range);
  const auto has = [&](const MemTable& memtable) {
    return memtable.Overlaps(bounds.begin, bounds.end, bounds.end_is_exclusive,
                             since + 1);
  };
  return has(*super_version.memtable) ||
         std::any_of(super_version.immutable.begin(),
                     super_version.immutable.end(), [&](const MemTable* older) {
                       return older->largest_sequence() > since && has(*older);
                     });
}

// Set *found to whether a table has an update after `since`. REQUIRES: as
// above.
Status FindInTables(const SuperVersion& super_version, const Key& key,
                    SequenceNumber since, bool* found) {
  TableLookup lookup;
  lookup.user_key = key.key;
  lookup.hash = key.hash;
  return FindNewer(*super_version.version, lookup, since, found);
}
Status FindInTables(const SuperVersion& super_version, const Range& range,
                    SequenceNumber since, bool* found) {
  return FindNewerIn(*super_version.version, Bounds(range), since, found);
}

// Returns Busy if there is an update after `since`.
template <typename Item>
Status SearchAll(const SuperVersion& super_version, const Item& item,
                 SequenceNumber since) {
  bool found = IsNewer(super_version, item, since);
  Status status;
  if (!found) status = FindInTables(super_version, item, since, &found);
  return status.ok() && found ? ChangedError() : status;
}

// Returns whether an update of a batch changes the key or range.
bool Affects(const InternalKeyComparator& comparator, const BatchRecord& update,
             const Key& key) {
  const int r = comparator.CompareUser(update.key, key.key);
  if (update.type != ValueType::kRangeDeletion) return r == 0;
  return r <= 0 && comparator.CompareUser(key.key, update.value) < 0;
}
bool Affects(const InternalKeyComparator& comparator, const BatchRecord& update,
             const Range& range) {
  if (range.has_end) {
    const int r = comparator.CompareUser(update.key, range.end);
    if (r > 0 || (r == 0 && !range.end_is_inclusive)) return false;
  }
  if (!range.has_begin) return true;
  return update.type == ValueType::kRangeDeletion
             ? comparator.CompareUser(update.value, range.begin) > 0
             : comparator.CompareUser(update.key, range.begin) >= 0;
}

// Returns false if the batch changes something of the check, or if *comparisons
// get too many. For a leader.
bool IsApart(const FamilySet& families, const WriteBatch& batch,
             const CommitCheck& check, size_t* comparisons) {
  BatchReader reader;
  BatchRecord update;
  bool done = false;
  const CommitCheck::Family* family = nullptr;
  const ColumnFamily* found = nullptr;
  const auto affects = [&](const auto& item) {
    return Affects(found->comparator(), update, item);
  };
  if (!reader.Init(batch.Data()).ok()) return false;
  for (;;) {
    if (!reader.NextOfOurs(&update, &done).ok()) return false;
    if (done) return true;
    if (update.is_log_data) continue;
    if (family == nullptr || family->id != update.family) {
      family = check.Find(update.family);
      if (family == nullptr) continue;
      found = families.Find(update.family);
      if (found == nullptr) return false;
    }
    *comparisons += family->keys.size() + family->ranges.size();
    if (*comparisons > kMostComparisons ||
        std::any_of(family->keys.begin(), family->keys.end(), affects) ||
        std::any_of(family->ranges.begin(), family->ranges.end(), affects)) {
      return false;
    }
  }
}

// Returns Busy if an item has an update that was not examined.
Status SearchItems(ColumnFamily* family, const CommitCheck::Family& items,
                   SequenceNumber examined) {
  SuperVersionCache& super_versions = family->super_versions();
  Status status;
  for (size_t begin = 0; begin < items.keys.size() && status.ok();
       begin += kKeysTogether) {
    const std::span<const Key> keys =
        std::span(items.keys)
            .subspan(begin, std::min(kKeysTogether, items.keys.size() - begin));
    const SuperVersionCache::Read read = super_versions.Begin();
    for (const Key& key : keys) read.super_version->Prefetch(key.hash);
    for (const Key& key : keys) {
      status =
          SearchAll(*read.super_version, key, std::max(key.since, examined));
      if (!status.ok()) break;
    }
    if (!super_versions.End(read)) return ClosedError();
  }
  for (const Range& range : items.ranges) {
    if (!status.ok()) break;
    // It may take long, so that it is outside of the critical section.
    const SuperVersionCache::Read read = super_versions.Begin();
    SuperVersion* const super_version = read.super_version;
    const uint32_t stripe = read.record->stripe;
    super_version->refs.Ref(stripe);
    if (super_versions.End(read)) {
      status =
          SearchAll(*super_version, range, std::max(range.since, examined));
    } else {
      status = ClosedError();
    }
    super_versions.Release(super_version, stripe);
  }
  return status;
}

// A check on its way through the write queue, and the view of its protocol.
class PendingCheck final : public WriteQueue::Condition {
 public:
  // Both must outlive this object.
  PendingCheck(DbCore& core, const CommitCheck& check)
      : core_(core), check_(check) {}

  Status Examine() override { return protocol_.Examine(); }
  bool Holds(const WriteQueue::Group* before) override {
    return protocol_.Holds(before);
  }

 private:
  friend class CheckProtocol<PendingCheck>;

  SequenceNumber LastSequence() const { return core_.versions->LastSequence(); }
  Status Search(SequenceNumber examined);
  Status SearchFamily(const CommitCheck::Family& items,
                      SequenceNumber examined);
  bool IsApart(const WriteQueue::Group& group) const;
  bool SearchAsLeader(SequenceNumber examined, bool reads_tables);

  DbCore& core_;
  const CommitCheck& check_;
  CheckProtocol<PendingCheck> protocol_{this};
};

Status PendingCheck::Search(SequenceNumber examined) {
  for (const CommitCheck::Family& items : check_.families()) {
    Status status = SearchFamily(items, examined);
    if (!status.ok()) return status;
  }
  return Status();
}

Status PendingCheck::SearchFamily(const CommitCheck::Family& items,
                                  SequenceNumber examined) {
  if (items.id == 0) return SearchItems(&core_.default_family, items, examined);
  ColumnFamily* family = nullptr;
  {
    MutexLock lock(core_.mutex());
    family = core_.families.Find(items.id);
    if (family == nullptr) return DroppedFamilyError();
    family->Ref();
  }
  Status status = SearchItems(family, items, examined);
  if (family->Unref()) {
    MutexLock lock(core_.mutex());
    core_.families.BuryLocked(family);
    core_.jobs.PurgeLaterLocked();
  }
  return status;
}

bool PendingCheck::IsApart(const WriteQueue::Group& group) const {
  size_t comparisons = 0;
  bool is_apart = true;
  group.ForEach([&](const WriteQueue::Writer* writer) {
    is_apart = is_apart && varve::IsApart(core_.families, *writer->batch,
                                          check_, &comparisons);
  });
  return is_apart;
}

bool PendingCheck::SearchAsLeader(SequenceNumber examined, bool reads_tables) {
  for (const CommitCheck::Family& items : check_.families()) {
    ColumnFamily* const family = core_.families.Find(items.id);
    if (family == nullptr) return false;
    const SuperVersionCache::Read read = family->super_versions().Begin();
    const SuperVersion& super_version = *read.super_version;
    const auto is_unchanged = [&](const auto& item) {
      const SequenceNumber since = std::max(item.since, examined);
      return super_version.version->LargestSequence() <= since
                 ? !IsNewer(super_version, item, since)
                 : reads_tables && SearchAll(super_version, item, since).ok();
    };
    for (const Key& key : items.keys) super_version.Prefetch(key.hash);
    const bool all_are =
        std::all_of(items.keys.begin(), items.keys.end(), is_unchanged) &&
        std::all_of(items.ranges.begin(), items.ranges.end(), is_unchanged);
    if (!family->super_versions().End(read) || !all_are) return false;
  }
  return true;
}

}  // namespace

Status DBImpl::WriteChecked(const WriteOptions& options, WriteBatch* batch,
                            const CommitCheck& check) {
  PendingCheck pending(core_, check);
  if (batch != nullptr &&
      batch->ApproximateSize() <= BatchReader::kHeaderSize) {
    // It takes effect where it was examined.
    return pending.Examine();
  }
  return WriteIf(options, batch, &pending);
}

Status DBImpl::CheckUnchanged(ColumnFamilyHandle* handle, const Slice& key,
                              SequenceNumber since) {
  ColumnFamily* const family = FamilyHandle::FamilyOf(core_.families, handle);
  if (family == nullptr) return ForeignHandleError();
  const Key item{key, PreviewXxh3(key), since};
  const SuperVersionCache::Read read = family->super_versions().Begin();
  Status status = SearchAll(*read.super_version, item, since);
  return family->super_versions().End(read) ? status : ClosedError();
}

}  // namespace varve
