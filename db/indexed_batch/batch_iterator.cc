// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "db/indexed_batch/batch_iterator.h"

#include <utility>

#include "db/indexed_batch/key_cursor.h"

namespace varve {

namespace {

WriteType WriteTypeOf(ValueType type) {
  switch (type) {
    case ValueType::kValue:
      return kPutRecord;
    case ValueType::kMerge:
      return kMergeRecord;
    case ValueType::kSingleDeletion:
      return kSingleDeleteRecord;
    default:
      return kDeleteRecord;
  }
}

class BatchIterator final : public WBWIIterator {
 public:
  BatchIterator(BatchIndex* index, const FamilyIndex& family)
      : index_(*index), cursor_(index, family) {}

  bool Valid() const override { return valid_ && !cursor_.IsLost(); }

  void SeekToFirst() override {
    if (!Begin()) return;
    cursor_.SeekToFirst();
    FindForward();
  }
  void SeekToLast() override {
    if (!Begin()) return;
    cursor_.SeekToLast();
    FindBackward();
  }
  void Seek(const Slice& target) override {
    BatchIndex::StoredKey stored;
    if (!Begin(target, &stored)) return;
    cursor_.Seek(stored.slice());
    FindForward();
  }
  void SeekForPrev(const Slice& target) override {
    BatchIndex::StoredKey stored;
    if (!Begin(target, &stored)) return;
    cursor_.SeekForPrev(stored.slice());
    FindBackward();
  }
  void Next() override {
    if (current_ != oldest_) {
      current_ = index_.entries().Older(current_);
      return;
    }
    cursor_.Next();
    FindForward();
  }
  void Prev() override {
    if (current_ != newest_) {
      current_ = index_.entries().Newer(current_);
      return;
    }
    cursor_.Prev();
    FindBackward();
  }

  WriteEntry Entry() const override {
    const BatchEntries& entries = index_.entries();
    return {.type = WriteTypeOf(entries.TypeOf(current_)),
            .key = entries.KeyOf(current_),
            .value = entries.ValueOf(current_)};
  }
  Status status() const override {
    if (valid_ && cursor_.IsLost()) {
      return Status::Aborted("updates of the batch were removed; seek again");
    }
    return error_;
  }

 private:
  bool Begin() {
    valid_ = false;
    error_ = cursor_.Renew();
    return error_.ok();
  }
  bool Begin(const Slice& target, BatchIndex::StoredKey* stored) {
    if (!Begin()) return false;
    error_ = stored->Set(target, cursor_.folding());
    return error_.ok();
  }

  // Move from the cursor's key to the first key with an update to be shown.
  void FindForward() {
    while (cursor_.Valid() && !FindUpdates()) cursor_.Next();
    valid_ = cursor_.Valid();
    current_ = newest_;
  }
  void FindBackward() {
    while (cursor_.Valid() && !FindUpdates()) cursor_.Prev();
    valid_ = cursor_.Valid();
    current_ = oldest_;
  }
  // Finds the updates of the cursor's key. Returns false if there are none.
  bool FindUpdates() {
    const FamilyIndex::KeyState state = cursor_.State();
    if (state.newest == kNoEntry) return false;
    const BatchEntries& entries = index_.entries();
    newest_ = state.newest;
    oldest_ = newest_;
    while (entries.HasOlder(oldest_) && entries.Older(oldest_) >= state.floor &&
           (!index_.overwrite_key() ||
            entries.TypeOf(oldest_) == ValueType::kMerge)) {
      oldest_ = entries.Older(oldest_);
    }
    return true;
  }

  BatchIndex& index_;
  KeyCursor cursor_;
  bool valid_ = false;
  // The updates of the cursor's key that are shown, and the current one.
  EntryId newest_ = kNoEntry;
  EntryId oldest_ = kNoEntry;
  EntryId current_ = kNoEntry;
  Status error_;
};

class ErrorBatchIterator final : public WBWIIterator {
 public:
  explicit ErrorBatchIterator(Status status) : status_(std::move(status)) {}
  bool Valid() const override { return false; }
  void SeekToFirst() override {}
  void SeekToLast() override {}
  void Seek(const Slice& /*target*/) override {}
  void SeekForPrev(const Slice& /*target*/) override {}
  void Next() override {}
  void Prev() override {}
  WriteEntry Entry() const override { return {}; }
  Status status() const override { return status_; }

 private:
  const Status status_;
};

}  // namespace

std::unique_ptr<WBWIIterator> NewBatchIterator(BatchIndex* index,
                                               const FamilyIndex& family) {
  return std::make_unique<BatchIterator>(index, family);
}

std::unique_ptr<WBWIIterator> NewErrorBatchIterator(Status status) {
  return std::make_unique<ErrorBatchIterator>(std::move(status));
}

}  // namespace varve
