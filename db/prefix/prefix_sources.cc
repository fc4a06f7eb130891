// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "db/prefix/prefix_sources.h"

#include <algorithm>
#include <utility>

#include "table/reader/table_cache.h"
#include "util/bytes/hash.h"

namespace varve {

// A source of the tree. It is empty while it is left out.
class PrefixSource final : public InternalIterator {
 public:
  PrefixSource(std::unique_ptr<InternalIterator> its_source,
               const MemTable* its_memtable,
               std::span<FileMetaData* const> its_files)
      : memtable(its_memtable),
        files(its_files),
        source_(std::move(its_source)) {}

  void SeekToFirst() override {
    Move([this] { source_->SeekToFirst(); });
  }
  void SeekToLast() override {
    Move([this] { source_->SeekToLast(); });
  }
  void Seek(const Slice& internal_key) override {
    Move([&] { source_->Seek(internal_key); });
  }
  void SeekForPrev(const Slice& internal_key) override {
    Move([&] { source_->SeekForPrev(internal_key); });
  }
  // It is not left out where these are called, because it is valid.
  void Next() override {
    source_->Next();
    Show(source_->position());
  }
  void Prev() override {
    source_->Prev();
    Show(source_->position());
  }
  void SkipDeadForward(DeadWalk* walk) override {
    source_->SkipDeadForward(walk);
    Show(source_->position());
  }
  void SkipDeadBackward(DeadWalk* walk) override {
    source_->SkipDeadBackward(walk);
    Show(source_->position());
  }
  void SkipHidden(const DeletionBatch& deletions, DeadWalk* walk) override {
    source_->SkipHidden(deletions, walk);
    Show(source_->position());
  }
  void CollectDeletions(const DeadWalk& walk,
                        DeletionBatch* deletions) const override {
    if (!left_out) source_->CollectDeletions(walk, deletions);
  }
  bool ResetForReuse() override {
    left_out = false;
    ShowNothing();
    return source_->ResetForReuse();
  }
  Status status() const override {
    return left_out ? Status() : source_->status();
  }

  // One of these two.
  const MemTable* const memtable;  // Or null.
  const std::span<FileMetaData* const> files;
  bool left_out = false;

 private:
  template <typename MoveSource>
  void Move(MoveSource move) {
    if (left_out) {
      ShowNothing();
    } else {
      move();
      Show(source_->position());
    }
  }

  const std::unique_ptr<InternalIterator> source_;
};

PrefixSources::PrefixSources(const InternalKeyComparator* comparator,
                             TableCache* table_cache,
                             const SliceTransform* extractor,
                             StatisticsImpl* statistics, ThreadArena* memory)
    : comparator_(comparator),
      table_cache_(table_cache),
      extractor_(extractor),
      statistics_(statistics),
      sources_(memory) {}

std::unique_ptr<InternalIterator> PrefixSources::Wrap(
    std::unique_ptr<InternalIterator> source,
    std::span<FileMetaData* const> files) {
  ThreadArena* const memory = sources_.get_allocator().memory();
  return Add(std::unique_ptr<PrefixSource>(
      new (memory) PrefixSource(std::move(source), nullptr, files)));
}

std::unique_ptr<InternalIterator> PrefixSources::Wrap(
    std::unique_ptr<InternalIterator> source, const MemTable* memtable) {
  ThreadArena* const memory = sources_.get_allocator().memory();
  return Add(std::unique_ptr<PrefixSource>(
      new (memory) PrefixSource(std::move(source), memtable, {})));
}

std::unique_ptr<InternalIterator> PrefixSources::Add(
    std::unique_ptr<PrefixSource> source) {
  sources_.push_back(source.get());
  return source;
}

void PrefixSources::TakeAll() {
  for (PrefixSource* const source : sources_) source->left_out = false;
}

PrefixSources::LeftOut PrefixSources::LeaveOut(const Slice& prefix,
                                               const Slice& target) {
  const Query query = {prefix, target, PreviewXxh3(prefix)};
  checked_ = 0;
  useful_ = 0;
  size_t left_out = 0;
  for (PrefixSource* const source : sources_) {
    source->left_out = !MayHave(*source, query);
    left_out += source->left_out ? 1 : 0;
  }
  if (checked_ != 0) {
    RecordTick(statistics_, Ticker::kPrefixFilterChecked, checked_);
  }
  if (useful_ != 0) {
    RecordTick(statistics_, Ticker::kPrefixFilterUseful, useful_);
  }
  if (left_out == 0) return LeftOut::kNone;
  if (left_out < sources_.size()) return LeftOut::kSome;
  RecordTick(statistics_, Ticker::kNumberDbSeek);
  return LeftOut::kAll;
}

bool PrefixSources::MayHave(const PrefixSource& source, const Query& query) {
  return source.memtable != nullptr
             ? source.memtable->MayHavePrefix(*extractor_, query.hash)
             : AnyFileMayHave(source.files, query);
}

// The keys of a prefix follow each other. A file's bound without the prefix
// thus tells on which side of them it is. Bounds may be those of range
// deletions, and no keys.
bool PrefixSources::AnyFileMayHave(std::span<FileMetaData* const> files,
                                   const Query& query) {
  const auto middle = std::lower_bound(
      files.begin(), files.end(), query.target,
      [this](const FileMetaData* file, const Slice& target) {
        return comparator_->CompareUser(file->largest_user_key(), target) < 0;
      });
  for (auto file = middle; file != files.end(); ++file) {
    const Slice smallest = (*file)->smallest_user_key();
    const bool reaches_target =
        file == middle && comparator_->CompareUser(smallest, query.target) <= 0;
    if (!reaches_target && !HasPrefix(smallest, query)) break;
    if (FileMayHave(*file, query)) return true;
  }
  for (auto file = middle; file != files.begin(); --file) {
    FileMetaData* const before = *(file - 1);
    if (!HasPrefix(before->largest_user_key(), query)) break;
    if (FileMayHave(before, query)) return true;
  }
  return false;
}

bool PrefixSources::FileMayHave(FileMetaData* file, const Query& query) {
  const Table* table;
  std::shared_ptr<Table> owner;
  // The seek reports the error.
  if (!table_cache_->Find(file->table_file(), &file->table, &table, &owner)
           .ok()) {
    return true;
  }
  const TableCore& core = table->core();
  if (!core.HasPrefixesOf(*extractor_)) return true;
  ++checked_;
  const bool may = core.prefix_filter.PrefixMayMatch(query.hash, query.prefix);
  useful_ += may ? 0 : 1;
  return may;
}

}  // namespace varve
