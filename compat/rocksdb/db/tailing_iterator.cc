// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "compat/rocksdb/db/tailing_iterator.h"

#include <string>
#include <utility>

#include "compat/rocksdb/db/forwarding_iterator.h"

namespace varve::rocksdb_c {
namespace {

class TailingIterator final : public ForwardingIterator {
 public:
  TailingIterator(DB* db, std::shared_ptr<ColumnFamilyHandle> family,
                  const ReadOptions& options)
      : ForwardingIterator(nullptr),
        db_(db),
        family_(std::move(family)),
        options_(options) {
    options_.snapshot = nullptr;
    Renew();
  }
  ~TailingIterator() override { base_ = nullptr; }  // Before the family.

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

 private:
  bool IsOld() const { return db_->GetLatestSequenceNumber() != sequence_; }
  void BeforeSeek(const Slice* /*target*/) override {
    if (IsOld()) Renew();
  }
  // The old iterator is destroyed last, because it may keep the database open.
  void Renew() {
    sequence_ = db_->GetLatestSequenceNumber();
    base_ = db_->NewIterator(options_, family_.get());
  }

  DB* const db_;
  const std::shared_ptr<ColumnFamilyHandle> family_;
  ReadOptions options_;
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
