// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "varve/read_transaction.h"

#include "table/reader/read_target.h"
#include "varve/iterator.h"

namespace varve {

Status ReadTransaction::Prepare(const ReadOptions& options,
                                ReadOptions* mine) const {
  if (snapshot_ == nullptr) {
    return Status::InvalidArgument("the read transaction has ended");
  }
  if (snapshot_->IsOrphaned()) {
    return Status::ShutdownInProgress("the read transaction's DB is gone");
  }
  *mine = options;
  mine->snapshot = snapshot_;
  return Status();
}

template <typename Value>
Status ReadTransaction::GetInto(const ReadOptions& options,
                                ColumnFamilyHandle* family, const Slice& key,
                                Value* value) const {
  ReadOptions mine;
  Status status = Prepare(options, &mine);
  if (status.ok()) {
    return family == nullptr ? db_->Get(mine, key, value)
                             : db_->Get(mine, family, key, value);
  }
  ReadTarget(value).Clear();
  return status;
}

Status ReadTransaction::Get(const ReadOptions& options, const Slice& key,
                            PinnableSlice* value) const {
  return GetInto(options, nullptr, key, value);
}

Status ReadTransaction::Get(const ReadOptions& options, const Slice& key,
                            std::string* value) const {
  return GetInto(options, nullptr, key, value);
}

template <typename Value>
void ReadTransaction::MultiGetInto(const ReadOptions& options,
                                   ColumnFamilyHandle* family, size_t count,
                                   const Slice* keys, Value* values,
                                   Status* statuses) const {
  ReadOptions mine;
  const Status status = Prepare(options, &mine);
  if (status.ok()) {
    if (family == nullptr) {
      db_->MultiGet(mine, count, keys, values, statuses);
    } else {
      db_->MultiGet(mine, family, count, keys, values, statuses);
    }
    return;
  }
  for (size_t i = 0; i < count; ++i) {
    ReadTarget(&values[i]).Clear();
    statuses[i] = status;
  }
}

void ReadTransaction::MultiGet(const ReadOptions& options, size_t count,
                               const Slice* keys, PinnableSlice* values,
                               Status* statuses) const {
  MultiGetInto(options, nullptr, count, keys, values, statuses);
}

void ReadTransaction::MultiGet(const ReadOptions& options, size_t count,
                               const Slice* keys, std::string* values,
                               Status* statuses) const {
  MultiGetInto(options, nullptr, count, keys, values, statuses);
}

std::unique_ptr<Iterator> ReadTransaction::NewIterator(
    const ReadOptions& options) const {
  return NewIterator(options, nullptr);
}

Status ReadTransaction::Get(const ReadOptions& options,
                            ColumnFamilyHandle* family, const Slice& key,
                            PinnableSlice* value) const {
  return GetInto(options, family, key, value);
}

Status ReadTransaction::Get(const ReadOptions& options,
                            ColumnFamilyHandle* family, const Slice& key,
                            std::string* value) const {
  return GetInto(options, family, key, value);
}

void ReadTransaction::MultiGet(const ReadOptions& options,
                               ColumnFamilyHandle* family, size_t count,
                               const Slice* keys, PinnableSlice* values,
                               Status* statuses) const {
  MultiGetInto(options, family, count, keys, values, statuses);
}

void ReadTransaction::MultiGet(const ReadOptions& options,
                               ColumnFamilyHandle* family, size_t count,
                               const Slice* keys, std::string* values,
                               Status* statuses) const {
  MultiGetInto(options, family, count, keys, values, statuses);
}

std::unique_ptr<Iterator> ReadTransaction::NewIterator(
    const ReadOptions& options, ColumnFamilyHandle* family) const {
  ReadOptions mine;
  Status status = Prepare(options, &mine);
  if (!status.ok()) return NewErrorIterator(std::move(status));
  return family == nullptr ? db_->NewIterator(mine)
                           : db_->NewIterator(mine, family);
}

}  // namespace varve
