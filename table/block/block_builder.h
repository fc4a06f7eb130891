// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Builds the body of a block: entries whose keys leave out what they share
// with the key before, except at restart points, whose offsets follow the
// entries so that a reader can search among them.
//
// Thread-safety: owned by one thread at a time.
// Cost: no allocation once the buffers have grown to the size of a block.

#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "varve/slice.h"

namespace varve {

class BlockBuilder {
 public:
  // One restart point only, at the first entry.
  static constexpr int kNoRestarts = std::numeric_limits<int>::max();

  enum class ValueLength : uint8_t {
    kStored,
    // For indexes whose values, block handles, say themselves how long they
    // are ("rocksdb.index.value.is.delta.encoded").
    kLeftOut,
  };

  // Every `restart_interval`-th entry, at least 1, is a restart point.
  explicit BlockBuilder(int restart_interval,
                        ValueLength value_length = ValueLength::kStored);
  BlockBuilder(const BlockBuilder&) = delete;
  BlockBuilder& operator=(const BlockBuilder&) = delete;

  // REQUIRES: `key` is behind all keys added since Reset, in the order of the
  // block; key and value are shorter than 2^32 bytes.
  void Add(const Slice& key, const Slice& value) {
    AddSharing(key, value, SharedBytes(key));
  }
  // What the key has in common with the one before, where both are at hand.
  size_t SharedBytes(const Slice& key) const;
  // The same as Add. REQUIRES: shared == SharedBytes(key).
  void AddSharing(const Slice& key, const Slice& value, size_t shared);

  // Adds the restart points and returns the body, which stays the builder's:
  // valid until Reset, and open for the caller to append a trailer.
  // REQUIRES: not called since Reset.
  std::string* Finish();

  // Begins an empty block; keeps the memory.
  void Reset();

  bool empty() const { return size_ == 0; }
  // Bytes of the body if it were finished now.
  size_t CurrentSize() const {
    return size_ + (restarts_.size() + 1) * sizeof(uint32_t);
  }
  // At most the bytes of the body if it were finished after this entry, save
  // for a few bytes.
  size_t SizeAfter(const Slice& key, const Slice& value) const;
  // Of all keys added since Reset, in full.
  size_t KeyBytes() const { return key_bytes_; }
  // The key added last; valid until the next Add or Reset.
  Slice last_key() const { return Slice(last_key_.get(), last_key_size_); }

 private:
  void Grow(size_t size);
  void GrowLastKey(size_t size, size_t kept);

  const int restart_interval_;
  const ValueLength value_length_;

  std::string buffer_;  // The first size_ bytes are the entries.
  size_t size_ = 0;
  std::vector<uint32_t> restarts_;
  int entries_since_restart_ = 0;
  size_t key_bytes_ = 0;
  std::unique_ptr<char[]> last_key_;
  size_t last_key_size_ = 0;
  size_t last_key_capacity_ = 0;
};

}  // namespace varve
