// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// A data block in memory, and the walk through its entries.
//
// All doubt about the bytes ends when the block is made: Block::Create decodes
// every entry once and refuses what does not hold together. BlockIterator
// then checks nothing and cannot fail. Only the order of keys is taken on
// trust, since a disorder can give wrong answers but not wrong accesses;
// verification looks at it.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>

#include "table/internal_key.h"
#include "util/coding.h"
#include "varve/slice.h"
#include "varve/status.h"

namespace varve {

// The uncompressed body of a block.
struct BlockContents {
  std::unique_ptr<char[]> data;
  size_t size = 0;
  // Bytes that `data` was allocated with, at least `size`.
  size_t allocated_bytes = 0;

  Slice AsSlice() const { return Slice(data.get(), size); }
};

// Thread-safety: immutable.
class Block {
 public:
  // Corruption says which entry is damaged, NotSupported names the feature
  // that an entry needs; both leave it to the caller to name file and offset.
  static Status Create(BlockContents contents, std::unique_ptr<Block>* block);
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;

  uint32_t EntryCount() const { return entry_count_; }
  // Of all memory of the block, itself included.
  size_t ApproximateMemoryUsage() const {
    return sizeof(Block) + contents_.allocated_bytes;
  }

 private:
  friend class BlockIterator;

  explicit Block(BlockContents contents) : contents_(std::move(contents)) {}
  Status CheckEntries();

  uint32_t RestartOffset(uint32_t index) const {
    return DecodeFixed32(contents_.data.get() + entries_size_ +
                         index * sizeof(uint32_t));
  }

  BlockContents contents_;
  uint32_t entries_size_ = 0;
  uint32_t restart_count_ = 0;
  uint32_t entry_count_ = 0;
  size_t longest_key_size_ = 0;
};

// Walks the entries of a block; not virtual, since a table's iterator has one
// inside. The block and the comparator must outlive its use.
// Thread-safety: owned by one thread at a time.
// Cost: no allocation for keys of up to kInlineKeySize bytes.
class BlockIterator {
 public:
  static constexpr size_t kInlineKeySize = 128;

  BlockIterator() = default;
  BlockIterator(const BlockIterator&) = delete;
  BlockIterator& operator=(const BlockIterator&) = delete;

  // Turns to a block, standing nowhere in it. `global_sequence`, if not 0,
  // takes the place of the sequence number of each key.
  void Reset(const Block* block, const InternalKeyComparator* comparator,
             SequenceNumber global_sequence);

  bool Valid() const { return current_ < entries_size_; }
  void SeekToFirst() { SeekToRestart(0); }
  void SeekToLast();
  // To the first entry at or behind the internal key.
  void Seek(const Slice& internal_key);
  // To the last entry at or before the internal key.
  void SeekForPrev(const Slice& internal_key);
  // REQUIRES for all of these: Valid().
  void Next() { Decode(next_); }
  void Prev();
  // Valid until the iterator moves.
  Slice key() const { return key_; }
  // Valid as long as the block.
  Slice value() const { return value_; }

 private:
  struct Lengths {
    uint32_t shared;
    uint32_t unshared;
    uint32_t value;
  };

  // Reads the lengths of an entry and returns what follows them.
  const char* DecodeLengths(uint32_t offset, Lengths* lengths) const;
  // To the entry at the offset, if it is none: to the end. Its key must share
  // bytes with the key at hand only.
  void Decode(uint32_t offset);
  // The key is the one at hand up to `shared`, then new bytes.
  void PutTogetherKey(size_t shared, const char* rest, size_t rest_size);
  void SeekToRestart(uint32_t index) { Decode(block_->RestartOffset(index)); }
  int CompareRestart(uint32_t index, const Slice& user_key,
                     uint64_t trailer) const;
  uint64_t Rewrite(uint64_t trailer) const {
    return global_sequence_ == 0 ? trailer
                                 : global_sequence_ << 8 | (trailer & 0xFF);
  }
  int Compare(const Slice& entry_key, uint64_t entry_trailer,
              const Slice& user_key, uint64_t trailer) const;

  const Block* block_ = nullptr;
  const InternalKeyComparator* comparator_ = nullptr;
  SequenceNumber global_sequence_ = 0;
  const char* entries_ = nullptr;
  uint32_t entries_size_ = 0;
  uint32_t current_ = 0;  // Where the entry at hand begins.
  uint32_t next_ = 0;     // Where it ends.
  // Into the block where the key stands there in full, else into the buffer.
  Slice key_;
  Slice value_;
  uint64_t stored_trailer_ = 0;  // With a global sequence: of the key at hand.

  char* buffer_ = inline_;
  size_t buffer_size_ = kInlineKeySize;
  std::unique_ptr<char[]> heap_;
  char inline_[kInlineKeySize];
};

inline const char* BlockIterator::DecodeLengths(uint32_t offset,
                                                Lengths* lengths) const {
  const char* p = entries_ + offset;
  const auto byte = [p](size_t i) { return static_cast<unsigned char>(p[i]); };
  // An entry has at least the three bytes of its lengths.
  if (((byte(0) | byte(1) | byte(2)) & 0x80) == 0) {
    *lengths = {byte(0), byte(1), byte(2)};
    return p + 3;
  }
  const char* limit = entries_ + entries_size_;
  p = GetVarint32Ptr(p, limit, &lengths->shared);
  p = GetVarint32Ptr(p, limit, &lengths->unshared);
  return GetVarint32Ptr(p, limit, &lengths->value);
}

inline void BlockIterator::Decode(uint32_t offset) {
  current_ = offset;
  if (offset >= entries_size_) return;
  Lengths lengths;
  const char* p = DecodeLengths(offset, &lengths);
  if (lengths.shared == 0 && global_sequence_ == 0) {
    key_ = Slice(p, lengths.unshared);
  } else {
    PutTogetherKey(lengths.shared, p, lengths.unshared);
  }
  p += lengths.unshared;
  value_ = Slice(p, lengths.value);
  next_ = static_cast<uint32_t>(p + lengths.value - entries_);
}

}  // namespace varve
