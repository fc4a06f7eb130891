// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include <utility>

#include "db/version/version.h"
#include "table/reader/table_iterator.h"

namespace varve {

namespace {

class LevelIterator final : public InternalIterator {
 public:
  LevelIterator(const ReadOptions& options,
                const InternalKeyComparator* comparator,
                TableCache* table_cache,
                const std::vector<FileMetaData*>* files,
                std::shared_ptr<const UnreadTables> unread, ThreadArena* memory)
      : comparator_(comparator),
        table_cache_(table_cache),
        files_(files),
        unread_(std::move(unread)),
        file_(options, memory) {}

  Status status() const override {
    return open_ ? file_.status() : open_status_;
  }
  bool ResetForReuse() override {
    // Nothing is kept from a file that may be closed.
    if (!file_.ResetForReuse()) open_ = false;
    open_status_ = Status();
    if (!open_) ShowNothing();
    return true;
  }

  void SeekToFirst() override {
    if (OpenFile(0)) file_.SeekToFirst();
    SkipForward();
  }
  void SeekToLast() override {
    // Without files this index is invalid.
    if (OpenFile(files_->size() - 1)) file_.SeekToLast();
    SkipBackward();
  }
  void Seek(const Slice& internal_key) override {
    if (OpenFile(FindFile(*comparator_, *files_, internal_key))) {
      file_.Seek(internal_key);
    }
    SkipForward();
  }
  bool PrepareSeek(const Slice& internal_key, int step) override {
    if (step == 0) OpenFile(FindFile(*comparator_, *files_, internal_key));
    return open_ ? file_.PrepareSeek(internal_key, step) : open_status_.ok();
  }
  void FinishSeek(const Slice& internal_key) override {
    if (open_) file_.FinishSeek(internal_key);
    SkipForward();
  }
  void SeekForPrev(const Slice& internal_key) override {
    const size_t index = FindFile(*comparator_, *files_, internal_key);
    if (index == files_->size()) {
      SeekToLast();
      return;
    }
    if (OpenFile(index)) file_.SeekForPrev(internal_key);
    SkipBackward();
  }
  void Next() override {
    file_.Next();
    if (!file_.Valid()) [[unlikely]]
      SkipForward();
  }
  void Prev() override {
    file_.Prev();
    SkipBackward();
  }
  void SkipDeadForward(DeadWalk* walk) override {
    do {
      file_.SkipDeadForward(walk);
      if (file_.Valid()) return;
      SkipForward();
    } while (open_ && file_.Valid());
  }
  void SkipDeadBackward(DeadWalk* walk) override {
    do {
      file_.SkipDeadBackward(walk);
      if (file_.Valid()) return;
      SkipBackward();
    } while (open_ && file_.Valid());
  }
  void SkipHidden(const DeletionBatch& deletions, DeadWalk* walk) override {
    file_.SkipHidden(deletions, walk);
    if (!file_.Valid()) SkipForward();
  }
  void CollectDeletions(const DeadWalk& walk,
                        DeletionBatch* deletions) const override {
    file_.CollectDeletions(walk, deletions);
  }

 private:
  // Returns false if there is no such file or it cannot be opened.
  bool OpenFile(size_t index) {
    // An iterator that stopped at an error must not be used again.
    if (open_ && index == index_ && file_.status().ok()) return true;
    ShowNothing();
    open_ = false;
    open_status_ = Status();
    if (index >= files_->size()) return false;
    index_ = index;
    const FileMetaData& file = *(*files_)[index];
    open_status_ = UnreadStatus(unread_.get(), file.number);
    if (!open_status_.ok()) return false;
    const Table* table;
    std::shared_ptr<Table> owner;
    open_status_ = table_cache_->Find(file.table_file(), &file.table, &table,
                                      &owner, &file_.options());
    if (!open_status_.ok()) return false;
    file_.Open(&table->core(), std::move(owner));
    open_ = true;
    Show(file_.position());
    return true;
  }
  void SkipForward() {
    while (open_ && !file_.Valid() && file_.status().ok()) {
      if (OpenFile(index_ + 1)) file_.SeekToFirst();
    }
  }
  void SkipBackward() {
    while (open_ && !file_.Valid() && file_.status().ok()) {
      if (OpenFile(index_ - 1)) file_.SeekToLast();
    }
  }

  const InternalKeyComparator* const comparator_;
  TableCache* const table_cache_;
  const std::vector<FileMetaData*>* const files_;
  const std::shared_ptr<const UnreadTables> unread_;
  bool open_ = false;
  size_t index_ = 0;    // Index of file_, if it is open.
  TableIterator file_;  // Keeps its buffers from file to file.
  Status open_status_;
};

}  // namespace

std::unique_ptr<InternalIterator> NewLevelIterator(
    const ReadOptions& options, const InternalKeyComparator* comparator,
    TableCache* table_cache, const std::vector<FileMetaData*>* files,
    std::shared_ptr<const UnreadTables> unread, ThreadArena* memory) {
  return std::unique_ptr<InternalIterator>(new (memory) LevelIterator(
      options, comparator, table_cache, files, std::move(unread), memory));
}

}  // namespace varve
