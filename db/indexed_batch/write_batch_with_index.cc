// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "varve/write_batch_with_index.h"

#include <utility>

#include "db/engine/family_handle.h"
#include "db/indexed_batch/batch_index.h"
#include "db/indexed_batch/batch_iterator.h"
#include "db/indexed_batch/merged_iterator.h"
#include "db/merge/merge_all.h"
#include "db/prefix/prefix_iterator.h"
#include "db/write/write_batch_internal.h"
#include "table/reader/read_target.h"
#include "varve/db.h"

namespace varve {

namespace {

// What a batch says of a key that is read.
enum class Answer : uint8_t {
  kNothing,  // The key is as in the DB.
  kDeleted,
  kValue,
  kOperands,  // There are operands, which Operands collects.
};

struct Found {
  Answer answer = Answer::kNothing;
  FamilyIndex::KeyState state;
  Slice value;  // Of kValue.
};

// Reads a key of a family in the batch, which may be null.
Status Find(BatchIndex* index, const ColumnFamilyHandle* family,
            const Slice& key, Found* found) {
  if (index == nullptr) return Status::OK();
  FamilyIndex* in = nullptr;
  Status status = index->FindExisting(family, &in);
  if (!status.ok() || in == nullptr) [[unlikely]]
    return status;
  BatchIndex::StoredKey stored;
  status = stored.Set(key, in->folding());
  if (!status.ok()) [[unlikely]]
    return status;
  found->state = in->Find(stored.slice());
  const auto [newest, floor] = found->state;
  if (newest == kNoEntry) {
    found->answer =
        floor == RangeCover::kNone ? Answer::kNothing : Answer::kDeleted;
    return status;
  }
  const BatchEntries& entries = index->entries();
  const ValueType type = entries.TypeOf(newest);
  if (type == ValueType::kValue) {
    found->answer = Answer::kValue;
    found->value = entries.ValueOf(newest);
  } else {
    found->answer =
        type == ValueType::kMerge ? Answer::kOperands : Answer::kDeleted;
  }
  return status;
}

// Sets the value that the key's operands in the batch result in, with the value
// under them in the DB, which is null if there is none.
Status Merge(const ColumnFamilyHandle* family, const Slice& key,
             const MergeOperands& operands, ReadTarget target) {
  std::string merged;
  Status status =
      MergeAll(family == nullptr ? nullptr : FamilyHandle::OperatorOf(*family),
               key, operands, nullptr, &merged);
  if (status.ok()) target.SetCopy(merged);
  return status;
}

// Returns the handle by which to look for the DB's family.
ColumnFamilyHandle* HandleIn(DB* db, ColumnFamilyHandle* family) {
  return family != nullptr ? family : db->DefaultColumnFamily();
}

template <typename Value>
Status Get(BatchIndex* index, DB* db, const ReadOptions& options,
           ColumnFamilyHandle* family, const Slice& key, Value* value) {
  ReadTarget target(value);
  Found found;
  Status status = Find(index, HandleIn(db, family), key, &found);
  if (status.ok() && found.answer == Answer::kValue) {
    target.SetCopy(found.value);
    return status;
  }
  if (status.ok() && found.answer == Answer::kNothing) {
    return db->Get(options, family, key, value);
  }
  target.Clear();
  if (!status.ok()) return status;
  if (found.answer == Answer::kDeleted) return Status::NotFound();
  MergeOperands operands;
  if (index->CollectOperands(found.state, &operands)) {
    PinnableSlice base;
    status = db->Get(options, family, key, &base);
    if (status.ok()) operands.SetBase(base);
    if (!status.ok() && !status.IsNotFound()) return status;
  }
  return Merge(HandleIn(db, family), key, operands, target);
}

// A key of a MultiGet for which the DB is asked.
struct Asked {
  size_t place;  // Among the keys of the MultiGet.
  MergeOperands operands;
};

template <typename Value>
void MultiGet(BatchIndex* index, DB* db, const ReadOptions& options,
              ColumnFamilyHandle* family, size_t count, const Slice* keys,
              Value* values, Status* statuses) {
  std::vector<Asked> asked;
  std::vector<Slice> asked_keys;
  for (size_t i = 0; i < count; ++i) {
    ReadTarget target(&values[i]);
    Found found;
    Status& status = statuses[i];
    status = Find(index, HandleIn(db, family), keys[i], &found);
    if (status.ok() && found.answer == Answer::kValue) {
      target.SetCopy(found.value);
      continue;
    }
    target.Clear();
    if (!status.ok()) continue;
    MergeOperands operands;
    if (found.answer == Answer::kDeleted) {
      status = Status::NotFound();
    } else if (found.answer == Answer::kOperands &&
               !index->CollectOperands(found.state, &operands)) {
      status = Merge(HandleIn(db, family), keys[i], operands, target);
    } else {
      asked.push_back({.place = i, .operands = std::move(operands)});
      asked_keys.push_back(keys[i]);
    }
  }
  if (asked.empty()) return;
  std::vector<Value> bases(asked.size());
  std::vector<Status> base_statuses(asked.size());
  db->MultiGet(options, family, asked.size(), asked_keys.data(), bases.data(),
               base_statuses.data());
  for (size_t i = 0; i < asked.size(); ++i) {
    auto& [place, operands] = asked[i];
    Status& status = statuses[place];
    status = std::move(base_statuses[i]);
    if (operands.empty()) {
      values[place] = std::move(bases[i]);
      continue;
    }
    if (status.ok()) operands.SetBase(Slice(bases[i]));
    if (!status.ok() && !status.IsNotFound()) continue;
    status = Merge(HandleIn(db, family), keys[place], operands,
                   ReadTarget(&values[place]));
  }
}

}  // namespace

WriteBatchWithIndex::WriteBatchWithIndex(
    const Comparator* backup_index_comparator, size_t reserved_bytes,
    bool overwrite_key, size_t max_bytes)
    : comparator_(backup_index_comparator),
      reserved_bytes_(reserved_bytes),
      max_bytes_(max_bytes),
      overwrite_key_(overwrite_key) {}

WriteBatchWithIndex::~WriteBatchWithIndex() = default;
WriteBatchWithIndex::WriteBatchWithIndex(WriteBatchWithIndex&&) noexcept =
    default;
WriteBatchWithIndex& WriteBatchWithIndex::operator=(
    WriteBatchWithIndex&&) noexcept = default;

BatchIndex* WriteBatchWithIndex::index() {
  if (index_ == nullptr) [[unlikely]] {
    index_ = std::make_unique<BatchIndex>(comparator_, overwrite_key_);
    WriteBatchInternal::Reserve(index_->batch(), reserved_bytes_);
  }
  return index_.get();
}

Status WriteBatchWithIndex::Put(ColumnFamilyHandle* family, const Slice& key,
                                const Slice& value) {
  return index()->Add({family, ValueType::kValue, key, value}, max_bytes_);
}

Status WriteBatchWithIndex::Delete(ColumnFamilyHandle* family,
                                   const Slice& key) {
  return index()->Add({family, ValueType::kDeletion, key, {}}, max_bytes_);
}

Status WriteBatchWithIndex::SingleDelete(ColumnFamilyHandle* family,
                                         const Slice& key) {
  return index()->Add({family, ValueType::kSingleDeletion, key, {}},
                      max_bytes_);
}

Status WriteBatchWithIndex::Merge(ColumnFamilyHandle* family, const Slice& key,
                                  const Slice& operand) {
  return index()->Add({family, ValueType::kMerge, key, operand}, max_bytes_);
}

Status WriteBatchWithIndex::DeleteRange(ColumnFamilyHandle* family,
                                        const Slice& begin, const Slice& end) {
  return index()->Add({family, ValueType::kRangeDeletion, begin, end},
                      max_bytes_);
}

Status WriteBatchWithIndex::Put(const Slice& key, const Slice& value) {
  return Put(nullptr, key, value);
}
Status WriteBatchWithIndex::Delete(const Slice& key) {
  return Delete(nullptr, key);
}
Status WriteBatchWithIndex::SingleDelete(const Slice& key) {
  return SingleDelete(nullptr, key);
}
Status WriteBatchWithIndex::Merge(const Slice& key, const Slice& operand) {
  return Merge(nullptr, key, operand);
}
Status WriteBatchWithIndex::DeleteRange(const Slice& begin, const Slice& end) {
  return DeleteRange(nullptr, begin, end);
}

Status WriteBatchWithIndex::PutLogData(const Slice& blob) {
  return index()->PutLogData(blob, max_bytes_);
}

void WriteBatchWithIndex::Clear() {
  if (index_ != nullptr) index_->Clear();
}

void WriteBatchWithIndex::SetSavePoint() { index()->SetSavePoint(); }

Status WriteBatchWithIndex::RollbackToSavePoint() {
  return index()->RollbackToSavePoint();
}

Status WriteBatchWithIndex::PopSavePoint() { return index()->PopSavePoint(); }

void WriteBatchWithIndex::SetMaxBytes(size_t max_bytes) {
  max_bytes_ = max_bytes;
}

size_t WriteBatchWithIndex::GetDataSize() const {
  return index_ == nullptr ? BatchReader::kHeaderSize
                           : index_->batch()->ApproximateSize();
}

WriteBatch* WriteBatchWithIndex::GetWriteBatch() { return index()->batch(); }

std::unique_ptr<WBWIIterator> WriteBatchWithIndex::NewIterator() {
  return NewIterator(nullptr);
}

std::unique_ptr<WBWIIterator> WriteBatchWithIndex::NewIterator(
    ColumnFamilyHandle* family) {
  FamilyIndex* in = nullptr;
  Status status = index()->FindFamily(family, &in);
  if (!status.ok()) return NewErrorBatchIterator(std::move(status));
  return NewBatchIterator(index_.get(), *in);
}

std::unique_ptr<Iterator> WriteBatchWithIndex::NewIteratorWithBase(
    std::unique_ptr<Iterator> base_iterator, const ReadOptions* options) {
  return NewIteratorWithBase(nullptr, std::move(base_iterator), options);
}

std::unique_ptr<Iterator> WriteBatchWithIndex::NewIteratorWithBase(
    ColumnFamilyHandle* family, std::unique_ptr<Iterator> base_iterator,
    const ReadOptions* options) {
  return NewMerged(family, std::move(base_iterator), options, false);
}

std::unique_ptr<Iterator> WriteBatchWithIndex::NewMerged(
    ColumnFamilyHandle* family, std::unique_ptr<Iterator> base,
    const ReadOptions* options, bool ends_with_batch) {
  FamilyIndex* in = nullptr;
  Status status = index()->FindFamily(family, &in);
  if (!status.ok()) return NewErrorIterator(std::move(status));
  // The base ends with the prefix, and so must the batch.
  auto extractor = base->prefix_extractor();
  std::unique_ptr<Iterator> merged = NewMergedIterator(
      {.index = index_.get(),
       .family = in,
       .base = std::move(base),
       .merge_operator =
           family == nullptr ? nullptr : FamilyHandle::OperatorOf(*family),
       .options = options,
       .ends_with_batch = ends_with_batch});
  return StayInPrefix(std::move(merged), std::move(extractor));
}

Status WriteBatchWithIndex::GetFromBatch(ColumnFamilyHandle* family,
                                         const DBOptions& /*options*/,
                                         const Slice& key, std::string* value) {
  ReadTarget target(value);
  Found found;
  Status status = Find(index_.get(), family, key, &found);
  if (status.ok() && found.answer == Answer::kValue) [[likely]] {
    target.SetCopy(found.value);
    return status;
  }
  target.Clear();
  if (!status.ok()) return status;
  if (found.answer != Answer::kOperands) return Status::NotFound();
  MergeOperands operands;
  if (index_->CollectOperands(found.state, &operands)) {
    return Status::Incomplete(
        "the operands in the batch apply to the database's value");
  }
  return varve::Merge(family, key, operands, target);
}

Status WriteBatchWithIndex::GetFromBatch(const DBOptions& options,
                                         const Slice& key, std::string* value) {
  return GetFromBatch(nullptr, options, key, value);
}

Status WriteBatchWithIndex::GetFromBatchAndDB(DB* db,
                                              const ReadOptions& options,
                                              const Slice& key,
                                              std::string* value) {
  return Get(index_.get(), db, options, nullptr, key, value);
}

Status WriteBatchWithIndex::GetFromBatchAndDB(DB* db,
                                              const ReadOptions& options,
                                              const Slice& key,
                                              PinnableSlice* value) {
  return Get(index_.get(), db, options, nullptr, key, value);
}

Status WriteBatchWithIndex::GetFromBatchAndDB(DB* db,
                                              const ReadOptions& options,
                                              ColumnFamilyHandle* family,
                                              const Slice& key,
                                              std::string* value) {
  return Get(index_.get(), db, options, family, key, value);
}

Status WriteBatchWithIndex::GetFromBatchAndDB(DB* db,
                                              const ReadOptions& options,
                                              ColumnFamilyHandle* family,
                                              const Slice& key,
                                              PinnableSlice* value) {
  return Get(index_.get(), db, options, family, key, value);
}

void WriteBatchWithIndex::MultiGetFromBatchAndDB(
    DB* db, const ReadOptions& options, ColumnFamilyHandle* family,
    size_t count, const Slice* keys, PinnableSlice* values, Status* statuses,
    bool /*sorted_input*/) {
  MultiGet(index_.get(), db, options, family, count, keys, values, statuses);
}

std::vector<Status> WriteBatchWithIndex::MultiGetFromBatchAndDB(
    DB* db, const ReadOptions& options, ColumnFamilyHandle* family,
    const std::vector<Slice>& keys, std::vector<std::string>* values) {
  values->resize(keys.size());
  std::vector<Status> statuses(keys.size());
  MultiGet(index_.get(), db, options, family, keys.size(), keys.data(),
           values->data(), statuses.data());
  return statuses;
}

}  // namespace varve
