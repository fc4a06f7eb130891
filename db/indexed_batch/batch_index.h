// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "db/indexed_batch/batch_arena.h"
#include "db/indexed_batch/batch_entries.h"
#include "db/indexed_batch/family_index.h"
#include "table/reader/merge_operands.h"
#include "util/bytes/key_fold.h"
#include "varve/slice.h"
#include "varve/status.h"
#include "varve/write_batch.h"

namespace varve {

class ColumnFamilyHandle;

// A batch with an index of its updates, by column family. It is what a
// WriteBatchWithIndex has, and what its iterators point to.
//
// Thread-safety: owned by one thread at a time.
class BatchIndex {
 public:
  // An update to be added.
  struct Update {
    ColumnFamilyHandle* family = nullptr;
    ValueType type = ValueType::kValue;
    Slice key;
    Slice value;  // For a range deletion its end; for other deletions empty.
  };

  // A key as it is stored in a family.
  class StoredKey {
   public:
    // Returns InvalidArgument if the key cannot be folded. `key` must outlive
    // this object.
    Status Set(const Slice& key, KeyFolding folding);
    const Slice& slice() const { return slice_; }

   private:
    Slice slice_;
    std::optional<FoldedKey> folded_;
  };

  // `comparator` orders the keys of families whose handle is not known.
  BatchIndex(const Comparator* comparator, bool overwrite_key)
      : comparator_(comparator),
        overwrite_key_(overwrite_key),
        entries_(&batch_.Data()) {}
  BatchIndex(const BatchIndex&) = delete;
  BatchIndex& operator=(const BatchIndex&) = delete;

  WriteBatch* batch() { return &batch_; }
  BatchEntries& entries() { return entries_; }
  bool overwrite_key() const { return overwrite_key_; }
  // Differs after each change that removes updates.
  uint64_t removals() const { return removals_; }

  // Adds an update to the batch and the index. After an error nothing is
  // added. See WriteBatchWithIndex::Put.
  Status Add(const Update& update, size_t max_bytes);
  Status PutLogData(const Slice& blob, size_t max_bytes);

  void SetSavePoint();
  Status RollbackToSavePoint();
  Status PopSavePoint();
  void Clear();

  // Sets *index to the family's index, or to null if there is none. Returns
  // InvalidArgument if the updates that the batch has of the family were added
  // with another comparator or folding than the handle's.
  Status FindExisting(const ColumnFamilyHandle* handle, FamilyIndex** index);
  // As above, but creates the index if there is none.
  Status FindFamily(const ColumnFamilyHandle* handle, FamilyIndex** index);
  // As above, with what the handle told. Without a comparator, any is right.
  Status FindFamily(uint32_t id, const Comparator* comparator,
                    KeyFolding folding, FamilyIndex** index);

  // Adds the merge operands of a key, from the newest update down, to
  // *operands. Returns whether they apply to the database's value of the key,
  // and not to a value or a deletion in the batch.
  bool CollectOperands(const FamilyIndex::KeyState& state,
                       MergeOperands* operands) const;

 private:
  // Sets last_family_ to the family's place, or to the one for it.
  Status FindExisting(uint32_t id, const Comparator* comparator,
                      KeyFolding folding, FamilyIndex** index);
  // Appends the update to the batch.
  void Append(const Update& update, const Slice& key, const Slice& value);
  // Removes updates from the index until `count` are left.
  void RemoveFrom(EntryId count);

  const Comparator* const comparator_;
  const bool overwrite_key_;
  uint64_t removals_ = 0;
  WriteBatch batch_;
  BatchEntries entries_;
  // Each in the arena.
  ArenaArray<FamilyIndex*> families_;
  uint32_t last_family_ = 0;  // The last one that was looked for.
  // For each save point of the batch, the number of entries.
  ArenaArray<EntryId> save_points_;
};

}  // namespace varve
