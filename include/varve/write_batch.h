// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "varve/export.h"
#include "varve/slice.h"
#include "varve/status.h"

namespace varve {

class ColumnFamilyHandle;

// A sequence of updates that is applied atomically by DB::Write. If a batch has
// several updates of a key, the last one wins.
//
// Its bytes are the payload of a log record in RocksDB's format.
//
// DB::Write returns InvalidArgument for a batch that no memtable may have room
// for: its bytes, and 50 more for each update, exceed 24 GiB.
// Thread-safety: thread-compatible.
class VARVE_EXPORT VARVE_USES_CONTAINERS WriteBatch {
 public:
  // Receives the updates of a batch; see Iterate.
  class Handler {
   public:
    virtual ~Handler() = default;
    // Each is called for one update, in the order of the batch.
    virtual void Put(const Slice& key, const Slice& value) = 0;
    virtual void Delete(const Slice& key) = 0;
    // See WriteBatch::SingleDelete. The default calls Delete.
    virtual void SingleDelete(const Slice& key) { Delete(key); }
    // See WriteBatch::Merge. The default ignores it.
    virtual void Merge(const Slice& /*key*/, const Slice& /*operand*/) {}
    // Deletes the keys from `begin`, inclusive, to `end`, exclusive.
    virtual void DeleteRange(const Slice& begin, const Slice& end) = 0;
    // See PutLogData. The default does nothing.
    virtual void LogData(const Slice& /*blob*/) {}
    // Iterate calls these for every update, with the family's id; the default
    // family's is 0. The defaults call the functions above for the default
    // family, and return InvalidArgument for others. An error ends the
    // iteration.
    virtual Status PutCF(uint32_t family, const Slice& key, const Slice& value);
    virtual Status DeleteCF(uint32_t family, const Slice& key);
    virtual Status SingleDeleteCF(uint32_t family, const Slice& key);
    virtual Status MergeCF(uint32_t family, const Slice& key,
                           const Slice& operand);
    virtual Status DeleteRangeCF(uint32_t family, const Slice& begin,
                                 const Slice& end);
    // Called before each update. Returning false stops the iteration.
    virtual bool Continue() { return true; }
  };

  WriteBatch();
  // Creates a batch from bytes that Data() returned. If they are damaged,
  // Iterate and DB::Write return an error.
  explicit WriteBatch(std::string representation);
  WriteBatch(const WriteBatch&) = default;
  WriteBatch& operator=(const WriteBatch&) = default;
  // Makes `other` empty. It can be used again.
  WriteBatch(WriteBatch&& other) noexcept;
  WriteBatch& operator=(WriteBatch&& other) noexcept;

  // Each adds an update. Keys and values can be empty. Arguments can be slices
  // of the batch's own bytes.
  //
  // DB::Write returns InvalidArgument for a batch with more than 2^32 - 1
  // updates, or in which a key and its value, or the two keys of a DeleteRange,
  // exceed 3 GiB - 8 bytes together.
  void Put(const Slice& key, const Slice& value);
  void Delete(const Slice& key);
  // Deletes a key that was put at most once since it was last deleted. Cheaper
  // than Delete. For other keys, the result is undefined.
  void SingleDelete(const Slice& key);
  // Adds an operand to the value of a key; see varve/merge_operator.h.
  // DB::Write returns NotSupported if the column family has no merge operator.
  void Merge(const Slice& key, const Slice& operand);
  // Deletes all keys from `begin`, inclusive, to `end`, exclusive. The cost
  // does not depend on the number of keys. If `begin` equals `end`, nothing is
  // deleted. If `end` is before `begin`, DB::Write returns InvalidArgument.
  void DeleteRange(const Slice& begin, const Slice& end);
  // As above, for a column family (varve/column_family.h). Null is the default
  // one. The batch keeps the family's id, so it must be written to the open DB
  // of the handle. DB::Write returns InvalidArgument for another DB, also for
  // the same database opened again, and if the family was dropped. A batch that
  // was created from bytes has only the ids.
  void Put(ColumnFamilyHandle* family, const Slice& key, const Slice& value);
  void Delete(ColumnFamilyHandle* family, const Slice& key);
  void SingleDelete(ColumnFamilyHandle* family, const Slice& key);
  void Merge(ColumnFamilyHandle* family, const Slice& key,
             const Slice& operand);
  void DeleteRange(ColumnFamilyHandle* family, const Slice& begin,
                   const Slice& end);
  // Adds bytes that are stored in the log only, for example for replication.
  // DB::Write returns InvalidArgument for more than 4 GiB - 1 bytes.
  void PutLogData(const Slice& blob);

  // Save points. SetSavePoint remembers how the batch is. RollbackToSavePoint
  // removes all that was added since the last save point, and the save point.
  // PopSavePoint removes the save point only. Both return NotFound if there is
  // none. Save points nest. Clear removes all of them, a copy of the batch has
  // the same ones, and Append and the constructor from bytes add none.
  void SetSavePoint();
  Status RollbackToSavePoint();
  Status PopSavePoint();

  // Removes all updates.
  void Clear();
  // Appends the updates of `other`.
  void Append(const WriteBatch& other);

  // Returns the number of updates.
  uint32_t Count() const;
  // Returns the approximate number of bytes of the batch in the log.
  size_t ApproximateSize() const { return representation_.size(); }
  const std::string& Data() const { return representation_; }

  // Calls the handler for each update, and returns its error, if any. Returns
  // Corruption if the bytes are damaged; the updates before the damage have
  // been passed to the handler. Returns NotSupported for kinds of updates that
  // Varve does not have, and for updates that exceed the limits above.
  Status Iterate(Handler* handler) const;

 private:
  friend class WriteBatchInternal;

  // Charges the memory of the batch to a thread. A copy is charged when it is
  // first changed.
  class Charge {
   public:
    Charge() = default;
    Charge(const Charge& /*other*/) {}
    Charge(Charge&& other) noexcept { Swap(&other); }
    Charge& operator=(const Charge& /*other*/) { return *this; }
    Charge& operator=(Charge&& other) noexcept {
      Swap(&other);
      return *this;
    }
    ~Charge() {
      if (account_ != nullptr) Set(0);
    }
    void Update(const std::string& representation) {
      if (representation.capacity() != bytes_) Set(representation.capacity());
    }

   private:
    void Swap(Charge* other) {
      std::swap(account_, other->account_);
      std::swap(bytes_, other->bytes_);
    }
    void Set(size_t bytes);

    void* account_ = nullptr;
    size_t bytes_ = 0;
  };

  // The members below, for RollbackToSavePoint.
  struct SavePoint {
    size_t size;  // Of representation_.
    uint32_t count;
    bool too_long;
    bool unchecked;
    bool has_merges;
    uint64_t db_number;
    std::vector<std::pair<uint32_t, size_t>> families;
  };

  std::string representation_;
  Charge charge_;
  // An update exceeds a limit. DB::Write returns InvalidArgument.
  bool too_long_ = false;
  // DB::Write must check the batch: it was created from bytes, or it has range
  // deletions.
  bool unchecked_ = false;
  // It has merge operands, or may have some because it was created from bytes.
  bool has_merges_ = false;
  // The number of the DB whose handles were used; 0 without handles.
  uint64_t db_number_ = 0;
  // The bytes of the updates of each family other than the default one, by id.
  // Incomplete if unchecked_.
  std::vector<std::pair<uint32_t, size_t>> families_;
  std::vector<SavePoint> save_points_;  // The last one is the newest.
};

}  // namespace varve
