// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

#include <cstdint>
#include <string>

#include "db/indexed_batch/batch_arena.h"
#include "table/block/internal_key.h"
#include "util/bytes/coding.h"
#include "varve/slice.h"

namespace varve {

// The number of an update among the updates of a batch that are indexed: later
// updates have larger ones.
using EntryId = uint32_t;
inline constexpr EntryId kNoEntry = UINT32_MAX;

// An indexed update. Its key and value are in the batch's bytes.
//
// The updates of a key form a ring. `older` leads from each to the one before
// it, and from the oldest to the newest. `newer` leads the other way round. So
// the oldest one, which keeps its number for as long as the key has updates, is
// enough to name the key.
struct BatchEntry {
  // Where the length of the key is in the batch's bytes. For a range deletion
  // the key is the begin, and the value is the end.
  uint32_t offset;
  EntryId older;
  EntryId newer;
  uint32_t family : 24;  // Its place in BatchIndex.
  uint32_t type : 8;     // A ValueType.
};
static_assert(sizeof(BatchEntry) == 16);

// The indexed updates of a batch, in their order, and the memory of the index.
// Thread-safety: owned by one thread at a time.
class BatchEntries {
 public:
  static constexpr uint32_t kMaxFamilies = 1 << 24;
  // The index has offsets of 32 bits.
  static constexpr size_t kMaxBatchBytes = UINT32_MAX;

  // `bytes` is the batch's. It must outlive this object.
  explicit BatchEntries(const std::string* bytes) : bytes_(*bytes) {}
  BatchEntries(const BatchEntries&) = delete;
  BatchEntries& operator=(const BatchEntries&) = delete;

  BatchArena* arena() { return &arena_; }
  EntryId size() const { return entries_.size(); }
  BatchEntry& operator[](EntryId id) { return entries_[id]; }
  const BatchEntry& operator[](EntryId id) const { return entries_[id]; }

  EntryId Add(size_t offset, uint32_t family, ValueType type) {
    const EntryId id = entries_.size();
    entries_.Append(&arena_, {.offset = static_cast<uint32_t>(offset),
                              .older = id,
                              .newer = id,
                              .family = family & (kMaxFamilies - 1),
                              .type = static_cast<uint8_t>(type)});
    return id;
  }
  void RemoveLast() { entries_.Truncate(entries_.size() - 1); }
  // Removes all, and frees the arena's memory for others.
  void Clear() {
    entries_ = {};
    arena_.Reset();
  }

  ValueType TypeOf(EntryId id) const {
    return static_cast<ValueType>(entries_[id].type);
  }
  // Returns whether records of the type have a value, or the end of a range.
  static bool HasValue(ValueType type) {
    return type != ValueType::kDeletion && type != ValueType::kSingleDeletion;
  }
  // Return bytes of the batch, valid until it changes.
  Slice KeyOf(EntryId id) const { return Field(FieldAt(entries_[id].offset)); }
  Slice ValueOf(EntryId id) const {
    if (!HasValue(TypeOf(id))) return Slice();
    const Slice key = KeyOf(id);
    return Field(key.data() + key.size());
  }

  // Walks along the updates of a key.
  bool HasOlder(EntryId id) const { return entries_[id].older < id; }
  EntryId Older(EntryId id) const { return entries_[id].older; }
  EntryId Newer(EntryId id) const { return entries_[id].newer; }
  // Returns the newest update of the key whose oldest one is `first`.
  EntryId NewestOf(EntryId first) const { return entries_[first].older; }

 private:
  const char* FieldAt(size_t offset) const { return bytes_.data() + offset; }
  // Returns the field with its length before it. The batch was built by this
  // process, so the length is valid.
  static Slice Field(const char* p) {
    uint32_t size = static_cast<uint8_t>(*p);
    if (size < 0x80) [[likely]]
      return Slice(p + 1, size);
    p = GetVarint32Ptr(p, p + kMaxVarint32Bytes, &size);
    return Slice(p, size);
  }

  const std::string& bytes_;
  BatchArena arena_;
  ArenaArray<BatchEntry> entries_;
};

}  // namespace varve
