// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "varve/comparator.h"
#include "varve/export.h"
#include "varve/iterator.h"
#include "varve/options.h"
#include "varve/pinnable_slice.h"
#include "varve/slice.h"
#include "varve/status.h"
#include "varve/write_batch.h"

namespace varve {

class BatchIndex;
class ColumnFamilyHandle;
class DB;
class TransactionBase;

// The kind of an update.
enum WriteType : uint8_t {
  kPutRecord,
  kMergeRecord,
  kDeleteRecord,
  kSingleDeleteRecord,
  kUnknownRecord,
};

// An update of a key in a batch.
struct WriteEntry {
  WriteType type = kUnknownRecord;
  Slice key;
  Slice value;  // Or the merge operand. Empty for deletions.
};

// Iterates over the updates of a column family in a batch, in the order of the
// family's comparator. It shows the updates of a key from the newest to the
// oldest. It does not show range deletions, nor the updates that they delete.
//
// The batch can be changed. The iterator stays at its update, and shows the
// updates of this key as they were when it came to the key. It shows every
// other key as that is when it comes there. So it never returns to a key whose
// update you add while you are there. If updates are removed, by Clear or
// RollbackToSavePoint, it is not valid until the next seek.
//
// Thread-safety: it is used like the batch itself, by one thread at a time.
// Lifetime: must be destroyed before the batch.
class VARVE_EXPORT WBWIIterator {
 public:
  WBWIIterator() = default;
  WBWIIterator(const WBWIIterator&) = delete;
  WBWIIterator& operator=(const WBWIIterator&) = delete;
  virtual ~WBWIIterator() = default;

  // Returns true if the iterator is at an update.
  virtual bool Valid() const = 0;
  // Moves to the newest update of the first key, or to the oldest update of the
  // last key.
  virtual void SeekToFirst() = 0;
  virtual void SeekToLast() = 0;
  // Moves to the newest update of the first key at or after `target`.
  virtual void Seek(const Slice& target) = 0;
  // Moves to the oldest update of the last key at or before `target`.
  virtual void SeekForPrev(const Slice& target) = 0;
  // Moves to the next or the previous update. REQUIRES: Valid().
  virtual void Next() = 0;
  virtual void Prev() = 0;
  // Returns the update. Its slices are valid until the batch changes.
  // REQUIRES: Valid().
  virtual WriteEntry Entry() const = 0;
  // Returns Aborted if updates were removed since the iterator was placed, and
  // the error of a seek to a key that cannot be folded.
  virtual Status status() const = 0;
};

// A WriteBatch whose updates can be read before it is written:
//
//   WriteBatchWithIndex batch;
//   status = batch.Put("key", "value");
//   status = batch.GetFromBatchAndDB(db, {}, "key", &value);
//   status = db->Write({}, batch.GetWriteBatch());
//
// Reads of a key in the batch cost as much as in a memtable. The index takes
// about 50 bytes for each update. Clear keeps the memory, so that a batch that
// is used again allocates nothing. See docs/transactions.md.
//
// Column families: null is the default family, as everywhere. But only a handle
// tells the family's comparator, merge operator and key case. Without it, the
// comparator is the constructor's, reads return InvalidArgument for merge
// operands, and keys are compared as they were given. In a database with
// KeyCase::kInsensitive use DB::DefaultColumnFamily().
//
// Thread-safety: owned by one thread at a time, together with its iterators.
class VARVE_EXPORT VARVE_USES_CONTAINERS WriteBatchWithIndex {
 public:
  // `backup_index_comparator` orders the keys of updates without a handle. The
  // batch reserves `reserved_bytes`. Updates return Aborted, and change
  // nothing, if the batch would have more than `max_bytes`; 0 is no limit.
  // With `overwrite_key`, iterators show only the newest update of a key, or
  // its newest merge operands and the update that they apply to. This does not
  // change what reads return.
  explicit WriteBatchWithIndex(
      const Comparator* backup_index_comparator = BytewiseComparator(),
      size_t reserved_bytes = 0, bool overwrite_key = false,
      size_t max_bytes = 0);
  ~WriteBatchWithIndex();
  // Iterators stay with the updates. `other` is empty, and can be used again.
  WriteBatchWithIndex(WriteBatchWithIndex&& other) noexcept;
  WriteBatchWithIndex& operator=(WriteBatchWithIndex&& other) noexcept;

  // Add an update, as the methods of WriteBatch do.
  //
  // Errors. After an error the batch is unchanged.
  // - InvalidArgument: the update is too long for DB::Write, the end of a range
  //   is before its begin, or a key cannot be folded; the batch has updates of
  //   the family that were added without its handle, and the handle has another
  //   comparator or key case.
  // - Aborted: the batch would have more than max_bytes, or 4 GiB.
  Status Put(const Slice& key, const Slice& value);
  Status Put(ColumnFamilyHandle* family, const Slice& key, const Slice& value);
  Status Delete(const Slice& key);
  Status Delete(ColumnFamilyHandle* family, const Slice& key);
  Status SingleDelete(const Slice& key);
  Status SingleDelete(ColumnFamilyHandle* family, const Slice& key);
  Status Merge(const Slice& key, const Slice& operand);
  Status Merge(ColumnFamilyHandle* family, const Slice& key,
               const Slice& operand);
  // Reads do not see the deleted keys of the DB, nor earlier updates of them.
  Status DeleteRange(const Slice& begin, const Slice& end);
  Status DeleteRange(ColumnFamilyHandle* family, const Slice& begin,
                     const Slice& end);
  // Returns as the methods above. Log data is not indexed.
  Status PutLogData(const Slice& blob);

  // Removes all updates and save points. Keeps the memory.
  void Clear();

  // See WriteBatch. A rollback costs as much as the updates that it removes.
  void SetSavePoint();
  Status RollbackToSavePoint();
  Status PopSavePoint();

  // Changes the limit of the constructor. The updates in the batch are kept.
  void SetMaxBytes(size_t max_bytes);
  // Returns the bytes of the batch, without its index.
  size_t GetDataSize() const;
  bool GetOverwriteKey() const { return overwrite_key_; }

  // Returns the batch, for DB::Write. Do not change it. Valid until this object
  // is moved or destroyed.
  WriteBatch* GetWriteBatch();

  // Returns an iterator over the updates of a family, never null.
  std::unique_ptr<WBWIIterator> NewIterator();
  std::unique_ptr<WBWIIterator> NewIterator(ColumnFamilyHandle* family);

  // Returns an iterator that shows what `base_iterator`, an iterator over the
  // family in a DB, would show if the batch had been written. Give it the
  // options of `base_iterator`; only the bounds are used. Null is no bounds.
  //
  // The batch can be changed. The key and the value at the current position
  // stay as they are, and are valid until the iterator moves. Each move is made
  // from the current key, in what the batch then has. This is so after Clear
  // and RollbackToSavePoint, too.
  //
  // status() returns the error of the base iterator, or of a merge: see
  // GetFromBatchAndDB. Lifetime: must be destroyed before the batch. For merge
  // operands the handle must live as long.
  std::unique_ptr<Iterator> NewIteratorWithBase(
      ColumnFamilyHandle* family, std::unique_ptr<Iterator> base_iterator,
      const ReadOptions* options = nullptr);
  std::unique_ptr<Iterator> NewIteratorWithBase(
      std::unique_ptr<Iterator> base_iterator,
      const ReadOptions* options = nullptr);

  // Stores the key's value in the batch in *value. Otherwise makes *value
  // empty, and returns
  // - NotFound: the batch has no update of the key, or deletes it;
  // - Incomplete: it has merge operands that apply to the DB's value;
  // - InvalidArgument: a merge operator is needed, and the family has none; or
  //   as Put;
  // - Corruption: the merge operator failed.
  // The options are not used.
  Status GetFromBatch(ColumnFamilyHandle* family, const DBOptions& options,
                      const Slice& key, std::string* value);
  Status GetFromBatch(const DBOptions& options, const Slice& key,
                      std::string* value);

  // Store the value that the key would have in the DB if the batch had been
  // written in *value. ReadOptions::snapshot is the state of the DB. Errors: as
  // DB::Get and GetFromBatch.
  Status GetFromBatchAndDB(DB* db, const ReadOptions& options, const Slice& key,
                           std::string* value);
  Status GetFromBatchAndDB(DB* db, const ReadOptions& options, const Slice& key,
                           PinnableSlice* value);
  Status GetFromBatchAndDB(DB* db, const ReadOptions& options,
                           ColumnFamilyHandle* family, const Slice& key,
                           std::string* value);
  Status GetFromBatchAndDB(DB* db, const ReadOptions& options,
                           ColumnFamilyHandle* family, const Slice& key,
                           PinnableSlice* value);

  // As GetFromBatchAndDB, for `count` keys, which may repeat. The DB's values
  // are from one moment. Whether the input is sorted does not matter.
  void MultiGetFromBatchAndDB(DB* db, const ReadOptions& options,
                              ColumnFamilyHandle* family, size_t count,
                              const Slice* keys, PinnableSlice* values,
                              Status* statuses, bool sorted_input);
  std::vector<Status> MultiGetFromBatchAndDB(DB* db, const ReadOptions& options,
                                             ColumnFamilyHandle* family,
                                             const std::vector<Slice>& keys,
                                             std::vector<std::string>* values);

 private:
  friend class TransactionBase;

  BatchIndex* index();  // Creates it if there is none.
  std::unique_ptr<Iterator> NewMerged(ColumnFamilyHandle* family,
                                      std::unique_ptr<Iterator> base,
                                      const ReadOptions* options,
                                      bool ends_with_batch);

  const Comparator* comparator_;
  size_t reserved_bytes_;
  size_t max_bytes_;
  bool overwrite_key_;
  std::unique_ptr<BatchIndex> index_;  // Null before the first use.
};

}  // namespace varve
