// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// The checked way through a block: for bytes from a file of which nothing is
// known but their checksum. Reads that come often go through BlockIterator,
// which relies on one scan having succeeded.
//
// Thread-safety: owned by one thread at a time.

#include <cstddef>
#include <cstdint>

#include "table/block/format.h"
#include "util/threads/thread_arena.h"
#include "varve/slice.h"
#include "varve/status.h"

namespace varve {

// What stands behind the entries of a block.
struct BlockTail {
  // Bytes of the entries; the array of restart points begins here.
  size_t entries_size = 0;
  uint32_t restart_count = 0;
};

// Finds the tail of a block's body. Corruption or NotSupported say what is
// wrong, and leave it to the caller to say where.
Status DecodeBlockTail(const Slice& body, BlockTail* tail);

// What a block's keys may take put together, for who keeps them all or works
// through them: those that share much with the one before grow. In blocks of
// range deletions, of properties and in a metaindex, valid ones share next to
// nothing, or take a few KiB; others must not take all memory.
// Keys that share nothing always fit.
inline ByteBudget KeyBudget(size_t block_size) {
  constexpr size_t kMaxGrowth = 16;
  constexpr size_t kAlwaysAllowedBytes = size_t{16} << 20;
  return ByteBudget(kAlwaysAllowedBytes + kMaxGrowth * block_size);
}

// Steps through entries front to back and puts the keys together.
// Cost: no allocation for keys of up to kInlineKeySize bytes.
class EntryScanner {
 public:
  static constexpr size_t kInlineKeySize = 128;

  enum class ValueLength : uint8_t {
    kStored,
    // The values say themselves how long they are; the caller takes each off
    // the front of *rest() before the next step.
    kLeftOut,
  };

  // `entries` must outlive the scanner, and so must `long_key`, where it puts
  // together keys that are long, if that is not null.
  explicit EntryScanner(const Slice& entries,
                        ValueLength value_length = ValueLength::kStored,
                        ArenaBuffer* long_key = nullptr)
      : value_length_(value_length),
        entries_(entries),
        rest_(entries),
        long_key_(long_key != nullptr ? long_key : &own_long_key_) {}
  EntryScanner(const EntryScanner&) = delete;
  EntryScanner& operator=(const EntryScanner&) = delete;

  // To the next entry. False at the end, and at damage: see status().
  bool Next();

  // Leaves all behind; the next step is to the entry at a byte of the entries,
  // which must not share any bytes. (Beyond the last entry there is none.)
  void GoTo(size_t offset);

  // Where the entry begins, from the beginning of the block.
  size_t offset() const { return offset_; }
  // How many bytes its key shares with the one before.
  uint32_t shared() const { return shared_; }
  // Valid until the next step.
  Slice key() const { return Slice(key_, key_size_); }
  // Points into the block. Empty with ValueLength::kLeftOut.
  Slice value() const { return value_; }
  Slice* rest() { return &rest_; }

  // Corruption says which entry is damaged and how.
  Status status() const;
  // An error about the entry at hand.
  Status EntryError(const Slice& problem) const;

 private:
  bool Fail(const char* problem);
  // Makes space for a key, keeping the bytes that it shares.
  void GrowKey(size_t size);

  const ValueLength value_length_;
  const Slice entries_;
  Slice rest_;
  size_t offset_ = 0;
  uint32_t shared_ = 0;
  char* key_ = inline_key_;
  size_t key_size_ = 0;
  size_t key_capacity_ = kInlineKeySize;
  ArenaBuffer own_long_key_;
  ArenaBuffer* const long_key_;
  char inline_key_[kInlineKeySize];
  Slice value_;
  const char* problem_ = nullptr;
};

}  // namespace varve
