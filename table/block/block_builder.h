// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Builds the body of a block. A key leaves out the bytes that it shares with
// the key before it, except at restart points. The restart points' offsets
// follow the entries, so a reader can search among them.
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
  // A single restart point, at the first entry.
  static constexpr int kNoRestarts = std::numeric_limits<int>::max();

  enum class ValueLength : uint8_t {
    kStored,
    // For indexes. Their values are block handles, which encode their own
    // length ("rocksdb.index.value.is.delta.encoded").
    kLeftOut,
  };

  // Makes every `restart_interval`-th entry (at least 1) a restart point.
  explicit BlockBuilder(int restart_interval,
                        ValueLength value_length = ValueLength::kStored);
  BlockBuilder(const BlockBuilder&) = delete;
  BlockBuilder& operator=(const BlockBuilder&) = delete;

  // Adds an entry.
  // REQUIRES: `key` is after all keys added since Reset, in the block's order;
  // key and value are shorter than 2^32 bytes.
  void Add(const Slice& key, const Slice& value) {
    AddSharing(key, value, SharedBytes(key));
  }
  // Returns how many bytes the key shares with the key added last.
  size_t SharedBytes(const Slice& key) const;
  // Adds an entry, like Add. REQUIRES: shared == SharedBytes(key).
  void AddSharing(const Slice& key, const Slice& value, size_t shared);

  // Appends the restart points and returns the body. The builder owns it. It is
  // valid until Reset, and the caller may append a trailer.
  // REQUIRES: not called since Reset.
  std::string* Finish();

  // Begins an empty block and keeps the memory.
  void Reset();

  bool empty() const { return size_ == 0; }
  // Returns the size of the body if Finish were called now.
  size_t CurrentSize() const {
    return size_ + (restarts_.size() + 1) * sizeof(uint32_t);
  }
  // Returns an upper bound, save for a few bytes, of the size of the body if it
  // were finished after this entry.
  size_t SizeAfter(const Slice& key, const Slice& value) const;
  // Returns the bytes of all keys added since Reset, including shared bytes.
  size_t KeyBytes() const { return key_bytes_; }
  // Returns the key added last. Valid until the next Add or Reset.
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
