// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "db/indexed_batch/batch_index.h"

#include <cstring>
#include <limits>
#include <new>
#include <string>
#include <type_traits>

#include "db/engine/family_handle.h"
#include "db/folding/key_case.h"
#include "util/base/check.h"
#include "util/bytes/coding.h"
#include "varve/column_family.h"

namespace varve {

namespace {

Status TooLarge(const char* limit) {
  return Status::Aborted("the indexed batch would be larger than", limit);
}

bool IsSameOrder(const Comparator* a, const Comparator* b) {
  return a == b || strcmp(a->Name(), b->Name()) == 0;
}

}  // namespace

Status BatchIndex::StoredKey::Set(const Slice& key, KeyFolding folding) {
  slice_ = key;
  if (folding == KeyFolding::kNone) [[likely]]
    return Status::OK();
  folded_.emplace(key, folding);
  if (!folded_->ok()) return UnfoldableKey(key);
  slice_ = folded_->slice();
  return Status::OK();
}

Status BatchIndex::FindExisting(uint32_t id, const Comparator* comparator,
                                KeyFolding folding, FamilyIndex** index) {
  *index = nullptr;
  uint32_t place = last_family_;
  if (place >= families_.size() || families_[place]->id() != id) [[unlikely]] {
    place = 0;
    while (place < families_.size() && families_[place]->id() != id) ++place;
    last_family_ = place;
    if (place == families_.size()) return Status::OK();
  }
  FamilyIndex* const found = families_[place];
  if (comparator == nullptr || (found->comparator() == comparator &&
                                found->folding() == folding)) [[likely]] {
    *index = found;
    return Status::OK();
  }
  if (found->empty()) return Status::OK();
  if (!IsSameOrder(found->comparator(), comparator) ||
      found->folding() != folding) {
    return Status::InvalidArgument(
        "the batch's updates of a column family were added with another "
        "comparator or key_case; use its handle from the first update on");
  }
  *index = found;
  return Status::OK();
}

Status BatchIndex::FindExisting(const ColumnFamilyHandle* handle,
                                FamilyIndex** index) {
  if (handle == nullptr) {
    return FindExisting(0, nullptr, KeyFolding::kNone, index);
  }
  return FindExisting(handle->GetID(), handle->GetComparator(),
                      FamilyHandle::FoldingOf(*handle), index);
}

Status BatchIndex::FindFamily(const ColumnFamilyHandle* handle,
                              FamilyIndex** index) {
  if (handle == nullptr) {
    return FindFamily(0, nullptr, KeyFolding::kNone, index);
  }
  return FindFamily(handle->GetID(), handle->GetComparator(),
                    FamilyHandle::FoldingOf(*handle), index);
}

Status BatchIndex::FindFamily(uint32_t id, const Comparator* comparator,
                              KeyFolding folding, FamilyIndex** index) {
  Status status = FindExisting(id, comparator, folding, index);
  if (!status.ok() || *index != nullptr) [[likely]]
    return status;
  const uint32_t place = last_family_;
  if (place == families_.size()) {
    if (place == BatchEntries::kMaxFamilies) return TooLarge("2^24 families");
    families_.Append(entries_.arena(), nullptr);
  } else {
    // Iterators must look for the new index.
    ++removals_;
  }
  static_assert(std::is_trivially_destructible_v<FamilyIndex>);
  void* const memory = entries_.arena()->Allocate(sizeof(FamilyIndex));
  *index = new (memory)
      FamilyIndex(&entries_, place, id,
                  comparator == nullptr ? comparator_ : comparator, folding);
  families_[place] = *index;
  return status;
}

void BatchIndex::Append(const Update& update, const Slice& key,
                        const Slice& value) {
  switch (update.type) {
    case ValueType::kValue:
      batch_.Put(update.family, key, value);
      break;
    case ValueType::kMerge:
      batch_.Merge(update.family, key, value);
      break;
    case ValueType::kRangeDeletion:
      batch_.DeleteRange(update.family, key, value);
      break;
    case ValueType::kSingleDeletion:
      batch_.SingleDelete(update.family, key);
      break;
    default:
      batch_.Delete(update.family, key);
  }
}

Status BatchIndex::Add(const Update& update, size_t max_bytes) {
  FamilyIndex* family = nullptr;
  Status status = FindFamily(update.family, &family);
  if (!status.ok()) [[unlikely]]
    return status;
  const bool is_range = update.type == ValueType::kRangeDeletion;
  StoredKey key;
  StoredKey end;
  status = key.Set(update.key, family->folding());
  if (status.ok() && is_range) {
    status = end.Set(update.value, family->folding());
  }
  if (!status.ok()) [[unlikely]]
    return status;
  const Slice& value = is_range ? end.slice() : update.value;
  if (!EntryFits(key.slice().size(), value.size())) [[unlikely]] {
    return Status::InvalidArgument("an update of more than 3 GiB");
  }
  // Decided before the append, because the slices may be the batch's own.
  const int order = is_range ? family->Compare(key.slice(), value) : 0;
  if (order > 0) {
    return Status::InvalidArgument("the end of a range is before its begin");
  }
  const size_t before = batch_.ApproximateSize();
  const uint32_t id = family->id();
  // After a tag and the family's id.
  const size_t offset = before + 1 + (id != 0 ? VarintLength(id) : 0);
  const size_t after = offset + VarintLength(key.slice().size()) +
                       key.slice().size() +
                       (BatchEntries::HasValue(update.type)
                            ? VarintLength(value.size()) + value.size()
                            : 0);
  if (after > BatchEntries::kMaxBatchBytes) return TooLarge("4 GiB");
  if (max_bytes != 0 && after > max_bytes) return TooLarge("its max_bytes");
  Append(update, key.slice(), value);
  VARVE_DCHECK(batch_.ApproximateSize() == after);
  const EntryId entry = entries_.Add(offset, family->place(), update.type);
  if (!is_range) {
    family->Add(entry);
  } else if (order < 0) {
    family->AddRange(entry);
  }
  return Status::OK();
}

Status BatchIndex::PutLogData(const Slice& blob, size_t max_bytes) {
  if (blob.size() > std::numeric_limits<uint32_t>::max()) {
    return Status::InvalidArgument("log data of 4 GiB or more");
  }
  const size_t after =
      batch_.ApproximateSize() + 1 + VarintLength(blob.size()) + blob.size();
  if (after > BatchEntries::kMaxBatchBytes) return TooLarge("4 GiB");
  if (max_bytes != 0 && after > max_bytes) return TooLarge("its max_bytes");
  batch_.PutLogData(blob);
  return Status::OK();
}

void BatchIndex::SetSavePoint() {
  batch_.SetSavePoint();
  save_points_.Append(entries_.arena(), entries_.size());
}

Status BatchIndex::RollbackToSavePoint() {
  if (save_points_.empty()) return Status::NotFound();
  // First the index, which reads the keys in the batch.
  RemoveFrom(save_points_.back());
  save_points_.Truncate(save_points_.size() - 1);
  return batch_.RollbackToSavePoint();
}

Status BatchIndex::PopSavePoint() {
  if (save_points_.empty()) return Status::NotFound();
  save_points_.Truncate(save_points_.size() - 1);
  return batch_.PopSavePoint();
}

void BatchIndex::RemoveFrom(EntryId count) {
  if (count == entries_.size()) return;
  ++removals_;
  bool needs_covers = false;
  while (entries_.size() != count) {
    const EntryId last = entries_.size() - 1;
    FamilyIndex* const family = families_[entries_[last].family];
    family->Remove(last);
    needs_covers |= family->needs_cover();
    entries_.RemoveLast();
  }
  if (!needs_covers) return;
  for (FamilyIndex* const family : families_) {
    if (family->needs_cover()) family->RebuildCover();
  }
}

void BatchIndex::Clear() {
  ++removals_;
  batch_.Clear();
  families_ = {};
  last_family_ = 0;
  save_points_ = {};
  entries_.Clear();
}

bool BatchIndex::CollectOperands(const FamilyIndex::KeyState& state,
                                 MergeOperands* operands) const {
  for (EntryId id = state.newest; id != kNoEntry && id >= state.floor;
       id = entries_.Older(id)) {
    // The numbers of updates do not matter here.
    if (!operands->Add(PackTrailer(0, entries_.TypeOf(id)),
                       entries_.ValueOf(id))) {
      return false;
    }
    if (!entries_.HasOlder(id)) break;
  }
  return state.floor == RangeCover::kNone;
}

}  // namespace varve
