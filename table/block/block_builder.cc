// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "table/block/block_builder.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "util/bytes/coding.h"
#include "util/bytes/key_prefix.h"
#include "util/bytes/short_copy.h"

namespace varve {

BlockBuilder::BlockBuilder(int restart_interval, ValueLength value_length)
    : restart_interval_(std::max(restart_interval, 1)),
      value_length_(value_length) {
  Reset();
}

void BlockBuilder::Reset() {
  size_ = 0;
  restarts_.assign(1, 0);
  entries_since_restart_ = 0;
  key_bytes_ = 0;
  last_key_size_ = 0;
}

size_t BlockBuilder::SharedBytes(const Slice& key) const {
  return CommonPrefixSize(last_key(), key);
}

void BlockBuilder::AddSharing(const Slice& key, const Slice& value,
                              size_t shared) {
  const char* const rest = key.data() + shared;
  const size_t rest_size = key.size() - shared;
  if (key.size() > last_key_capacity_) GrowLastKey(key.size(), shared);
  ShortCopy(last_key_.get() + shared, rest, rest_size);
  last_key_size_ = key.size();
  key_bytes_ += key.size();

  if (entries_since_restart_ >= restart_interval_) {
    restarts_.push_back(static_cast<uint32_t>(size_));
    entries_since_restart_ = 0;
  }
  if (entries_since_restart_ == 0) shared = 0;
  ++entries_since_restart_;

  const size_t unshared = key.size() - shared;
  const size_t most = 3 * kMaxVarint32Bytes + unshared + value.size();
  if (buffer_.size() - size_ < most) Grow(size_ + most);
  char* p = buffer_.data() + size_;
  p = EncodeVarint32(p, static_cast<uint32_t>(shared));
  p = EncodeVarint32(p, static_cast<uint32_t>(unshared));
  if (value_length_ == ValueLength::kStored) {
    p = EncodeVarint32(p, static_cast<uint32_t>(value.size()));
  }
  ShortCopy(p, key.data() + shared, unshared);
  p += unshared;
  if (!value.empty()) memcpy(p, value.data(), value.size());
  p += value.size();
  size_ = static_cast<size_t>(p - buffer_.data());
}

void BlockBuilder::Grow(size_t size) {
  // Not to the whole capacity, which may be twice as much: what is new is
  // filled with zeros, after each block again.
  buffer_.resize(std::max(size, std::min(buffer_.capacity(), size + size / 8)));
}

void BlockBuilder::GrowLastKey(size_t size, size_t kept) {
  const size_t capacity = std::max<size_t>(2 * size, 64);
  auto grown = std::make_unique<char[]>(capacity);
  if (kept > 0) memcpy(grown.get(), last_key_.get(), kept);
  last_key_ = std::move(grown);
  last_key_capacity_ = capacity;
}

size_t BlockBuilder::SizeAfter(const Slice& key, const Slice& value) const {
  size_t size = CurrentSize() + key.size() + value.size();
  if (entries_since_restart_ >= restart_interval_) size += sizeof(uint32_t);
  // Counts four bytes for the shared length, and the whole key, as RocksDB
  // does, so that blocks end at the same entries.
  size += sizeof(uint32_t) + VarintLength(key.size());
  if (value_length_ == ValueLength::kStored) size += VarintLength(value.size());
  return size;
}

std::string* BlockBuilder::Finish() {
  buffer_.resize(size_);
  for (const uint32_t restart : restarts_) PutFixed32(&buffer_, restart);
  PutFixed32(&buffer_, static_cast<uint32_t>(restarts_.size()));
  return &buffer_;
}

}  // namespace varve
