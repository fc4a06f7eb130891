// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "compat/rocksdb/db/tailing_iterator.h"

#include <string>
#include <utility>

namespace varve::rocksdb_c {
namespace {

class TailingIterator final : public Iterator {
 public:
  TailingIterator(DB* db, std::shared_ptr<ColumnFamilyHandle> family,
                  const ReadOptions& options)
      : db_(db), family_(std::move(family)), options_(options) {
    options_.snapshot = nullptr;
    Renew();
  }

  void SeekToFirst() override {
    RenewIfOld();
    base_->SeekToFirst();
    Update();
  }
  void SeekToLast() override {
    RenewIfOld();
    base_->SeekToLast();
    Update();
  }
  void Seek(const Slice& target) override {
    RenewIfOld();
    base_->Seek(target);
    Update();
  }
  void SeekForPrev(const Slice& target) override {
    RenewIfOld();
    base_->SeekForPrev(target);
    Update();
  }
  void Next() override {
    if (IsOld()) {
      const std::string key = key_.ToString();
      Renew();
      base_->Seek(key);
      if (base_->Valid() && base_->key() == Slice(key)) base_->Next();
    } else {
      base_->Next();
    }
    Update();
  }
  void Prev() override {
    base_->Prev();
    Update();
  }
  Status status() const override { return base_->status(); }

 private:
  bool IsOld() const { return db_->GetLatestSequenceNumber() != sequence_; }
  void RenewIfOld() {
    if (IsOld()) Renew();
  }
  // The old iterator is destroyed last, because it may keep the database open.
  void Renew() {
    sequence_ = db_->GetLatestSequenceNumber();
    base_ = db_->NewIterator(options_, family_.get());
  }
  // Takes over the entry of the base.
  void Update() {
    valid_ = base_->Valid();
    if (!valid_) return;
    key_ = base_->key();
    value_ = base_->value();
  }

  DB* const db_;
  const std::shared_ptr<ColumnFamilyHandle> family_;
  ReadOptions options_;
  std::unique_ptr<Iterator> base_;
  // A number that all updates that `base_` does not see are above.
  uint64_t sequence_ = 0;
};

}  // namespace

std::unique_ptr<Iterator> NewTailingIterator(
    DB* db, std::shared_ptr<ColumnFamilyHandle> family,
    const ReadOptions& options) {
  return std::make_unique<TailingIterator>(db, std::move(family), options);
}

}  // namespace varve::rocksdb_c
