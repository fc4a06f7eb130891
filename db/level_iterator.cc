// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "db/version.h"
#include "table/merging_iterator.h"

namespace varve {

namespace {

class LevelIterator final : public InternalIterator {
 public:
  LevelIterator(const ReadOptions& options,
                const InternalKeyComparator* comparator,
                TableCache* table_cache,
                const std::vector<FileMetaData*>* files)
      : options_(options),
        comparator_(comparator),
        table_cache_(table_cache),
        files_(files),
        index_(files->size()) {}

  bool Valid() const override { return file_ != nullptr && file_->Valid(); }
  Slice key() const override { return file_->key(); }
  Slice value() const override { return file_->value(); }
  Status status() const override {
    return file_ != nullptr ? file_->status() : Status::OK();
  }

  void SeekToFirst() override {
    OpenFile(0);
    if (file_ != nullptr) file_->SeekToFirst();
    SkipForward();
  }
  void SeekToLast() override {
    OpenFile(files_->empty() ? 0 : files_->size() - 1);
    if (file_ != nullptr) file_->SeekToLast();
    SkipBackward();
  }
  void Seek(const Slice& internal_key) override {
    OpenFile(FindFile(*comparator_, *files_, internal_key));
    if (file_ != nullptr) file_->Seek(internal_key);
    SkipForward();
  }
  void SeekForPrev(const Slice& internal_key) override {
    const size_t index = FindFile(*comparator_, *files_, internal_key);
    if (index == files_->size()) {
      SeekToLast();
      return;
    }
    OpenFile(index);
    file_->SeekForPrev(internal_key);
    SkipBackward();
  }
  void Next() override {
    file_->Next();
    SkipForward();
  }
  void Prev() override {
    file_->Prev();
    SkipBackward();
  }

 private:
  void OpenFile(size_t index) {
    if (index >= files_->size()) {
      index_ = files_->size();
      file_.reset();
      return;
    }
    // An iterator that stopped at an error must not be used again.
    if (file_ != nullptr && index == index_ && file_->status().ok()) return;
    index_ = index;
    file_ = table_cache_->NewIterator(options_, (*files_)[index]->table_file());
  }
  void SkipForward() {
    while (file_ != nullptr && !file_->Valid() && file_->status().ok()) {
      OpenFile(index_ + 1);
      if (file_ != nullptr) file_->SeekToFirst();
    }
  }
  void SkipBackward() {
    while (file_ != nullptr && !file_->Valid() && file_->status().ok()) {
      OpenFile(index_ == 0 ? files_->size() : index_ - 1);
      if (file_ != nullptr) file_->SeekToLast();
    }
  }

  const ReadOptions options_;
  const InternalKeyComparator* const comparator_;
  TableCache* const table_cache_;
  const std::vector<FileMetaData*>* const files_;
  size_t index_;  // Of file_; files_->size() when there is none.
  std::unique_ptr<InternalIterator> file_;
};

}  // namespace

std::unique_ptr<InternalIterator> NewLevelIterator(
    const ReadOptions& options, const InternalKeyComparator* comparator,
    TableCache* table_cache, const std::vector<FileMetaData*>* files) {
  return std::make_unique<LevelIterator>(options, comparator, table_cache,
                                         files);
}

}  // namespace varve
