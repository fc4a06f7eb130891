// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Checked iteration over the entries of a block, for bytes from a file that
// have at most a verified checksum. Frequent reads use BlockIterator, which
// relies on an earlier successful scan.
//
// Thread-safety: owned by one thread at a time.

#include <cstddef>
#include <cstdint>

#include "table/block/format.h"
#include "util/threads/thread_arena.h"
#include "varve/slice.h"
#include "varve/status.h"

namespace varve {

// The part of a block after its entries.
struct BlockTail {
  // Bytes of the entries. The array of restart points begins after them.
  size_t entries_size = 0;
  // 0 only if there are no entries.
  uint32_t restart_count = 0;
};

// Decodes the tail of a block's body. Corruption and NotSupported describe the
// problem; the caller adds the location.
Status DecodeBlockTail(const Slice& body, BlockTail* tail);

// Returns a bound for the sum of the sizes of a block's keys, for callers that
// keep or process them all. Keys that share many bytes with the key before grow
// when they are decoded. In blocks of range deletions, of properties and in a
// metaindex, valid keys share almost nothing, or take a few KiB in all. Other
// keys must not use all memory.
// Keys that share nothing always fit.
inline ByteBudget KeyBudget(size_t block_size) {
  constexpr size_t kMaxGrowth = 16;
  constexpr size_t kAlwaysAllowedBytes = size_t{16} << 20;
  return ByteBudget(kAlwaysAllowedBytes + kMaxGrowth * block_size);
}

// Iterates forward over entries and decodes their keys.
// Cost: no allocation for keys of up to kInlineKeySize bytes.
class EntryScanner {
 public:
  static constexpr size_t kInlineKeySize = 128;

  enum class ValueLength : uint8_t {
    kStored,
    // The values encode their own length. The caller removes each from the
    // front of *rest() before the next step.
    kLeftOut,
  };

  // `entries` must outlive the scanner. `long_key`, if not null, is the buffer
  // for long keys and must outlive it too.
  explicit EntryScanner(const Slice& entries,
                        ValueLength value_length = ValueLength::kStored,
                        ArenaBuffer* long_key = nullptr)
      : value_length_(value_length),
        entries_(entries),
        rest_(entries),
        long_key_(long_key != nullptr ? long_key : &own_long_key_) {}
  EntryScanner(const EntryScanner&) = delete;
  EntryScanner& operator=(const EntryScanner&) = delete;

  // Moves to the next entry. Returns false at the end and at damage; see
  // status().
  bool Next();

  // Makes the next step move to the entry at this offset in the entries, which
  // must not share any bytes. (There is none after the last entry.)
  void GoTo(size_t offset);

  // Returns the offset of the entry from the beginning of the block.
  size_t offset() const { return offset_; }
  // Returns how many bytes the key shares with the key before it.
  uint32_t shared() const { return shared_; }
  // Valid until the next step.
  Slice key() const { return Slice(key_, key_size_); }
  // Points into the block. Empty with ValueLength::kLeftOut.
  Slice value() const { return value_; }
  Slice* rest() { return &rest_; }

  // OK, or Corruption that says which entry is damaged and how.
  Status status() const;
  // Returns Corruption about the current entry.
  Status EntryError(const Slice& problem) const;

 private:
  bool Fail(const char* problem);
  // Makes space for a key and keeps the bytes that it shares.
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
