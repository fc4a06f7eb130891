// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "table/block_builder.h"

#include <algorithm>
#include <bit>

#include "util/coding.h"

namespace varve {

namespace {

size_t CommonPrefix(const Slice& a, const Slice& b) {
  const size_t limit = std::min(a.size(), b.size());
  size_t i = 0;
  // Eight bytes at a time while they are equal.
  while (i + sizeof(uint64_t) <= limit) {
    const uint64_t difference =
        DecodeFixed64(a.data() + i) ^ DecodeFixed64(b.data() + i);
    if (difference != 0) {
      return i + static_cast<size_t>(std::countr_zero(difference)) / 8;
    }
    i += sizeof(uint64_t);
  }
  while (i < limit && a[i] == b[i]) ++i;
  return i;
}

}  // namespace

BlockBuilder::BlockBuilder(int restart_interval, ValueLength value_length)
    : restart_interval_(std::max(restart_interval, 1)),
      value_length_(value_length) {
  Reset();
}

void BlockBuilder::Reset() {
  buffer_.clear();
  restarts_.assign(1, 0);
  entries_since_restart_ = 0;
  last_key_.clear();
}

void BlockBuilder::Add(const Slice& key, const Slice& value) {
  size_t shared = 0;
  if (entries_since_restart_ >= restart_interval_) {
    restarts_.push_back(static_cast<uint32_t>(buffer_.size()));
    entries_since_restart_ = 0;
  } else if (entries_since_restart_ > 0) {
    shared = CommonPrefix(last_key_, key);
  }
  ++entries_since_restart_;

  const size_t unshared = key.size() - shared;
  char lengths[3 * kMaxVarint32Bytes];
  char* p = EncodeVarint32(lengths, static_cast<uint32_t>(shared));
  p = EncodeVarint32(p, static_cast<uint32_t>(unshared));
  if (value_length_ == ValueLength::kStored) {
    p = EncodeVarint32(p, static_cast<uint32_t>(value.size()));
  }
  buffer_.append(lengths, static_cast<size_t>(p - lengths));
  buffer_.append(key.data() + shared, unshared);
  buffer_.append(value.data(), value.size());

  last_key_.resize(shared);
  last_key_.append(key.data() + shared, unshared);
}

size_t BlockBuilder::SizeAfter(const Slice& key, const Slice& value) const {
  size_t size = CurrentSize() + key.size() + value.size();
  if (entries_since_restart_ >= restart_interval_) size += sizeof(uint32_t);
  // The shared length is reckoned as four bytes and the key in full, as
  // RocksDB does, so that blocks are cut at the same places.
  size += sizeof(uint32_t) + VarintLength(key.size());
  if (value_length_ == ValueLength::kStored) size += VarintLength(value.size());
  return size;
}

std::string* BlockBuilder::Finish() {
  for (const uint32_t restart : restarts_) PutFixed32(&buffer_, restart);
  PutFixed32(&buffer_, static_cast<uint32_t>(restarts_.size()));
  return &buffer_;
}

}  // namespace varve
