// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "db/folding/folding_db.h"

#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "db/folding/key_case.h"
#include "db/write/scratch_batch.h"
#include "db/write/write_batch_internal.h"
#include "table/reader/read_target.h"
#include "util/bytes/key_fold.h"
#include "util/threads/path_counter.h"
#include "util/threads/thread_scratch.h"
#include "varve/iterator.h"
#include "varve/stackable_db.h"

namespace varve {

namespace {

struct FoldedBatchTag;

// Adds the updates of `batch` to *folded with folded keys. Notes for the log
// are unchanged. Returns InvalidArgument with the first key that is not UTF-8,
// or with the damage.
Status FoldBatch(const WriteBatch& batch, KeyFolding folding,
                 WriteBatch* folded) {
  BatchReader reader;
  Status status = reader.Init(batch.Data());
  BatchRecord record;
  bool done = false;
  WriteBatchInternal::NoteDb(folded, WriteBatchInternal::DbNumber(batch));
  while (status.ok()) {
    status = reader.NextOfOurs(&record, &done);
    if (!status.ok() || done) break;
    if (record.is_log_data) {
      folded->PutLogData(record.key);
      continue;
    }
    const FoldedKey key(record.key, folding);
    if (!key.ok()) return UnfoldableKey(record.key);
    if (record.type == ValueType::kRangeDeletion) {
      const FoldedKey end(record.value, folding);
      if (!end.ok()) return UnfoldableKey(record.value);
      WriteBatchInternal::Add(folded, record.family, record.type, key.slice(),
                              end.slice());
    } else {
      WriteBatchInternal::Add(folded, record.family, record.type, key.slice(),
                              record.value);
    }
  }
  return status.Annotate("batch");
}

// Folded copies of two optional bounds.
class FoldedBounds {
 public:
  FoldedBounds() = default;
  FoldedBounds(const FoldedBounds&) = delete;
  FoldedBounds& operator=(const FoldedBounds&) = delete;

  // Sets *lower and *upper to the folded copies, if they are not null.
  Status Fold(KeyFolding folding, const Slice** lower, const Slice** upper) {
    Status status = FoldOne(folding, lower, &lower_);
    if (status.ok()) status = FoldOne(folding, upper, &upper_);
    return status;
  }

 private:
  struct Bound {
    std::string text;
    Slice slice;
  };

  static Status FoldOne(KeyFolding folding, const Slice** bound, Bound* copy) {
    if (*bound == nullptr) return Status::OK();
    if (!FoldText(**bound, folding, &copy->text)) return UnfoldableKey(**bound);
    copy->slice = copy->text;
    *bound = &copy->slice;
    return Status::OK();
  }

  Bound lower_;
  Bound upper_;
};

// Folded copies of ranges.
class FoldedRanges {
 public:
  Status Fold(KeyFolding folding, const Range* ranges, size_t count) {
    for (size_t i = 0; i < count; ++i) {
      const Slice* start = &ranges[i].start;
      const Slice* limit = &ranges[i].limit;
      Status status = bounds_.emplace_back().Fold(folding, &start, &limit);
      if (!status.ok()) return status;
      ranges_.push_back({*start, *limit});
    }
    return Status::OK();
  }
  const Range* ranges() const { return ranges_.data(); }

 private:
  std::vector<Range> ranges_;
  std::deque<FoldedBounds> bounds_;
};

// The folded keys of a MultiGet, in memory that the thread keeps.
class FoldedKeys {
 public:
  void Fold(KeyFolding folding, size_t count, const Slice* keys) {
    bytes_.clear();
    slices_.resize(count);
    unfoldable_.clear();
    for (size_t i = 0; i < count; ++i) {
      const FoldedKey key(keys[i], folding);
      // A key that cannot be folded is looked up as the empty key, and the
      // result is not used.
      slices_[i] = key.ok() ? key.slice() : Slice();
      if (!key.ok()) [[unlikely]]
        unfoldable_.push_back(i);
      bytes_.append(slices_[i].data(), slices_[i].size());
    }
    const char* place = bytes_.data();
    for (Slice& slice : slices_) {
      slice = Slice(place, slice.size());
      place += slice.size();
    }
  }
  const Slice* keys() const { return slices_.data(); }
  const std::vector<size_t>& unfoldable() const { return unfoldable_; }
  // Keeps no more than a moderate amount.
  void Trim() {
    if (bytes_.capacity() + slices_.capacity() * sizeof(Slice) > kMaxKept) {
      *this = FoldedKeys();
    }
  }

 private:
  static constexpr size_t kMaxKept = 64 << 10;

  std::string bytes_;
  std::vector<Slice> slices_;
  std::vector<size_t> unfoldable_;
};
struct FoldedKeysTag;

// Folds the targets of seeks. Has the bounds that the inner iterator points to.
class FoldingIterator final : public Iterator {
 public:
  FoldingIterator(KeyFolding folding, DB* db, const ReadOptions& options,
                  ColumnFamilyHandle* family)
      : folding_(folding) {
    ReadOptions folded = options;
    Status status = bounds_.Fold(folding_, &folded.iterate_lower_bound,
                                 &folded.iterate_upper_bound);
    it_ = status.ok() ? db->NewIterator(folded, family)
                      : NewErrorIterator(std::move(status));
  }

  void SeekToFirst() override {
    it_->SeekToFirst();
    Arrive();
  }
  void SeekToLast() override {
    it_->SeekToLast();
    Arrive();
  }
  void Seek(const Slice& target) override { SeekBy(&Iterator::Seek, target); }
  void SeekForPrev(const Slice& target) override {
    SeekBy(&Iterator::SeekForPrev, target);
  }
  void Next() override {
    it_->Next();
    Arrive();
  }
  void Prev() override {
    it_->Prev();
    Arrive();
  }
  Status status() const override {
    return target_error_.ok() ? it_->status() : target_error_;
  }
  Status Refresh(const Snapshot* snapshot) override {
    valid_ = false;
    target_error_ = Status::OK();
    return it_->Refresh(snapshot);
  }

 private:
  void SeekBy(void (Iterator::*seek)(const Slice&), const Slice& target) {
    const FoldedKey folded(target, folding_);
    if (!folded.ok()) [[unlikely]] {
      valid_ = false;
      target_error_ = UnfoldableKey(target);
      return;
    }
    (it_.get()->*seek)(folded.slice());
    Arrive();
  }
  void Arrive() {
    if (!target_error_.ok()) [[unlikely]]
      target_error_ = Status::OK();
    valid_ = it_->Valid();
    if (!valid_) return;
    key_ = it_->key();
    value_ = it_->value();
  }

  const KeyFolding folding_;
  FoldedBounds bounds_;
  std::unique_ptr<Iterator> it_;
  Status target_error_;  // Error of the last seek, if its target was not UTF-8.
};

Status FilesError() {
  return Status::NotSupported(
      "tables from outside in a case-insensitive database");
}

class FoldingDb final : public StackableDB {
 public:
  FoldingDb(std::unique_ptr<DB> db, KeyFolding folding)
      : StackableDB(std::move(db)), db_(GetBaseDB()), folding_(folding) {
    CountPath(PathCounter::kFoldingOpen);
  }

  // The DB below knows no case-insensitive keys.
  DB* GetRootDB() override { return this; }

  // The keys in the files may not be folded.
  Status IngestExternalFiles(
      const std::vector<IngestExternalFileArg>& /*arguments*/) override {
    return FilesError();
  }
  Status CreateColumnFamilyWithImport(
      const ColumnFamilyOptions& /*family_options*/,
      const std::string& /*name*/, const ImportColumnFamilyOptions& /*options*/,
      const ExportImportFilesMetaData& /*metadata*/,
      ColumnFamilyHandle** handle) override {
    *handle = nullptr;
    return FilesError();
  }

  Status Put(const WriteOptions& options, const Slice& key,
             const Slice& value) override {
    const FoldedKey folded(key, folding_);
    return folded.ok() ? db_->Put(options, folded.slice(), value)
                       : UnfoldableKey(key);
  }
  Status Delete(const WriteOptions& options, const Slice& key) override {
    const FoldedKey folded(key, folding_);
    return folded.ok() ? db_->Delete(options, folded.slice())
                       : UnfoldableKey(key);
  }
  Status SingleDelete(const WriteOptions& options, const Slice& key) override {
    return SingleDelete(options, nullptr, key);
  }
  Status Merge(const WriteOptions& options, const Slice& key,
               const Slice& operand) override {
    return Merge(options, nullptr, key, operand);
  }
  Status DeleteRange(const WriteOptions& options, const Slice& begin,
                     const Slice& end) override {
    return DeleteRange(options, nullptr, begin, end);
  }
  Status Write(const WriteOptions& options, WriteBatch* batch) override {
    // The DB below refuses it.
    if (batch == nullptr || WriteBatchInternal::TooLong(*batch)) {
      return db_->Write(options, batch);
    }
    // The caller's batch stays as it is: it may be for another database, too.
    ScratchBatch<FoldedBatchTag> folded(batch->ApproximateSize());
    Status status = FoldBatch(*batch, folding_, folded.get());
    return status.ok() ? db_->Write(options, folded.get()) : status;
  }

  Status Get(const ReadOptions& options, const Slice& key,
             PinnableSlice* value) override {
    return GetInto(options, key, value);
  }
  Status Get(const ReadOptions& options, const Slice& key,
             std::string* value) override {
    return GetInto(options, key, value);
  }
  using DB::MultiGet;
  void MultiGet(const ReadOptions& options, size_t count, const Slice* keys,
                PinnableSlice* values, Status* statuses) override {
    MultiGet(options, nullptr, count, keys, values, statuses);
  }
  void MultiGet(const ReadOptions& options, size_t count, const Slice* keys,
                std::string* values, Status* statuses) override {
    MultiGet(options, nullptr, count, keys, values, statuses);
  }
  std::unique_ptr<Iterator> NewIterator(const ReadOptions& options) override {
    return NewIterator(options, nullptr);
  }

  Status Put(const WriteOptions& options, ColumnFamilyHandle* family,
             const Slice& key, const Slice& value) override {
    const FoldedKey folded(key, folding_);
    return folded.ok() ? db_->Put(options, family, folded.slice(), value)
                       : UnfoldableKey(key);
  }
  Status Delete(const WriteOptions& options, ColumnFamilyHandle* family,
                const Slice& key) override {
    const FoldedKey folded(key, folding_);
    return folded.ok() ? db_->Delete(options, family, folded.slice())
                       : UnfoldableKey(key);
  }
  Status SingleDelete(const WriteOptions& options, ColumnFamilyHandle* family,
                      const Slice& key) override {
    const FoldedKey folded(key, folding_);
    return folded.ok() ? db_->SingleDelete(options, family, folded.slice())
                       : UnfoldableKey(key);
  }
  Status Merge(const WriteOptions& options, ColumnFamilyHandle* family,
               const Slice& key, const Slice& operand) override {
    const FoldedKey folded(key, folding_);
    return folded.ok() ? db_->Merge(options, family, folded.slice(), operand)
                       : UnfoldableKey(key);
  }
  Status DeleteRange(const WriteOptions& options, ColumnFamilyHandle* family,
                     const Slice& begin, const Slice& end) override {
    const FoldedKey folded_begin(begin, folding_);
    if (!folded_begin.ok()) return UnfoldableKey(begin);
    const FoldedKey folded_end(end, folding_);
    if (!folded_end.ok()) return UnfoldableKey(end);
    return db_->DeleteRange(options, family, folded_begin.slice(),
                            folded_end.slice());
  }
  Status Get(const ReadOptions& options, ColumnFamilyHandle* family,
             const Slice& key, PinnableSlice* value) override {
    return GetFromFamily(options, family, key, value);
  }
  Status Get(const ReadOptions& options, ColumnFamilyHandle* family,
             const Slice& key, std::string* value) override {
    return GetFromFamily(options, family, key, value);
  }
  void MultiGet(const ReadOptions& options, ColumnFamilyHandle* family,
                size_t count, const Slice* keys, PinnableSlice* values,
                Status* statuses) override {
    MultiGetFolded(count, keys, values, statuses, [&](const Slice* folded) {
      db_->MultiGet(options, family, count, folded, values, statuses);
    });
  }
  void MultiGet(const ReadOptions& options, ColumnFamilyHandle* family,
                size_t count, const Slice* keys, std::string* values,
                Status* statuses) override {
    MultiGetFolded(count, keys, values, statuses, [&](const Slice* folded) {
      db_->MultiGet(options, family, count, folded, values, statuses);
    });
  }
  void MultiGet(const ReadOptions& options, size_t count,
                ColumnFamilyHandle* const* families, const Slice* keys,
                PinnableSlice* values, Status* statuses) override {
    MultiGetFolded(count, keys, values, statuses, [&](const Slice* folded) {
      db_->MultiGet(options, count, families, folded, values, statuses);
    });
  }
  void MultiGet(const ReadOptions& options, size_t count,
                ColumnFamilyHandle* const* families, const Slice* keys,
                std::string* values, Status* statuses) override {
    MultiGetFolded(count, keys, values, statuses, [&](const Slice* folded) {
      db_->MultiGet(options, count, families, folded, values, statuses);
    });
  }
  std::unique_ptr<Iterator> NewIterator(const ReadOptions& options,
                                        ColumnFamilyHandle* family) override {
    return std::make_unique<FoldingIterator>(folding_, db_, options, family);
  }
  // All of them read at one snapshot.
  Status NewIterators(
      const ReadOptions& options,
      const std::vector<ColumnFamilyHandle*>& families,
      std::vector<std::unique_ptr<Iterator>>* iterators) override {
    iterators->clear();
    ReadOptions at_one_moment = options;
    const Snapshot* snapshot = nullptr;
    if (options.snapshot == nullptr) {
      snapshot = db_->GetSnapshot();
      at_one_moment.snapshot = snapshot;
    }
    Status status;
    for (ColumnFamilyHandle* const family : families) {
      iterators->push_back(NewIterator(at_one_moment, family));
      if (status.ok()) status = iterators->back()->status();
    }
    if (snapshot != nullptr) db_->ReleaseSnapshot(snapshot);
    if (!status.ok()) iterators->clear();
    return status;
  }

  // A key that cannot be folded does not exist.
  bool KeyMayExist(const ReadOptions& options, ColumnFamilyHandle* family,
                   const Slice& key, std::string* value,
                   bool* value_found) override {
    if (value_found != nullptr) *value_found = false;
    const FoldedKey folded(key, folding_);
    return folded.ok() && db_->KeyMayExist(options, family, folded.slice(),
                                           value, value_found);
  }
  Status GetMergeOperands(const ReadOptions& options,
                          ColumnFamilyHandle* family, const Slice& key,
                          PinnableSlice* operands,
                          GetMergeOperandsOptions* limits,
                          int* count) override {
    *count = 0;
    const FoldedKey folded(key, folding_);
    return folded.ok() ? db_->GetMergeOperands(options, family, folded.slice(),
                                               operands, limits, count)
                       : UnfoldableKey(key);
  }

  Status GetApproximateSizes(const Range* ranges, size_t count,
                             uint64_t* sizes) override {
    return GetApproximateSizes(nullptr, ranges, count, sizes);
  }
  Status GetApproximateSizes(ColumnFamilyHandle* family, const Range* ranges,
                             size_t count, uint64_t* sizes) override {
    FoldedRanges folded;
    Status status = folded.Fold(folding_, ranges, count);
    return status.ok()
               ? db_->GetApproximateSizes(family, folded.ranges(), count, sizes)
               : status;
  }
  Status GetPropertiesOfTablesInRange(
      ColumnFamilyHandle* family, const Range* ranges, size_t count,
      TablePropertiesCollection* result) override {
    result->clear();
    FoldedRanges folded;
    Status status = folded.Fold(folding_, ranges, count);
    return status.ok() ? db_->GetPropertiesOfTablesInRange(
                             family, folded.ranges(), count, result)
                       : status;
  }
  Status DeleteFilesInRanges(ColumnFamilyHandle* family, const RangePtr* ranges,
                             size_t count, bool include_end) override {
    std::vector<RangePtr> folded(ranges, ranges + count);
    std::deque<FoldedBounds> bounds;
    for (RangePtr& range : folded) {
      Status status =
          bounds.emplace_back().Fold(folding_, &range.start, &range.limit);
      if (!status.ok()) return status;
    }
    return db_->DeleteFilesInRanges(family, folded.data(), count, include_end);
  }
  Status SuggestCompactRange(ColumnFamilyHandle* family, const Slice* begin,
                             const Slice* end) override {
    FoldedBounds bounds;
    Status status = bounds.Fold(folding_, &begin, &end);
    return status.ok() ? db_->SuggestCompactRange(family, begin, end) : status;
  }
  Status CompactRange(const CompactRangeOptions& options, const Slice* begin,
                      const Slice* end) override {
    return CompactRange(options, nullptr, begin, end);
  }
  Status CompactRange(const CompactRangeOptions& options,
                      ColumnFamilyHandle* family, const Slice* begin,
                      const Slice* end) override {
    FoldedBounds bounds;
    Status status = bounds.Fold(folding_, &begin, &end);
    return status.ok() ? db_->CompactRange(options, family, begin, end)
                       : status;
  }

 private:
  template <typename Value>
  Status GetInto(const ReadOptions& options, const Slice& key, Value* value) {
    // A FoldedKey, which can hold any key, took 72 instructions in place of 48.
    char ascii[FoldedKey::kInlineBytes];
    if (folding_ == KeyFolding::kAsciiFirst && key.size() <= sizeof(ascii) &&
        FoldAscii(key.data(), key.size(), ascii)) [[likely]] {
      return db_->Get(options, Slice(ascii, key.size()), value);
    }
    return GetElsewhere(options, key, value);
  }
  template <typename Value>
  [[gnu::noinline]] Status GetElsewhere(const ReadOptions& options,
                                        const Slice& key, Value* value) {
    const FoldedKey folded(key, folding_);
    if (folded.ok()) return db_->Get(options, folded.slice(), value);
    ReadTarget(value).Clear();
    return UnfoldableKey(key);
  }
  template <typename Value>
  Status GetFromFamily(const ReadOptions& options, ColumnFamilyHandle* family,
                       const Slice& key, Value* value) {
    const FoldedKey folded(key, folding_);
    if (folded.ok()) return db_->Get(options, family, folded.slice(), value);
    ReadTarget(value).Clear();
    return UnfoldableKey(key);
  }
  // Calls read(keys) with the folded keys.
  template <typename Value, typename Read>
  void MultiGetFolded(size_t count, const Slice* keys, Value* values,
                      Status* statuses, Read read) {
    const ThreadScratch<FoldedKeys, FoldedKeysTag> folded;
    folded->Fold(folding_, count, keys);
    read(folded->keys());
    for (const size_t i : folded->unfoldable()) {
      ReadTarget(&values[i]).Clear();
      statuses[i] = UnfoldableKey(keys[i]);
    }
    folded->Trim();
  }

  DB* const db_;  // GetBaseDB()
  const KeyFolding folding_;
};

}  // namespace

std::unique_ptr<DB> WithFolding(std::unique_ptr<DB> db,
                                const Options& options) {
  const KeyFolding folding = KeyFoldingOf(options);
  if (folding == KeyFolding::kNone) return db;
  return std::make_unique<FoldingDb>(std::move(db), folding);
}

}  // namespace varve
