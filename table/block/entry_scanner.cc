// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "table/block/entry_scanner.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "util/bytes/coding.h"
#include "util/bytes/short_copy.h"

namespace varve {

namespace {

constexpr size_t kRestartSize = sizeof(uint32_t);

// Larger blocks use the whole last word for the number of restart points.
constexpr size_t kMaxHashIndexedBlockSize = 65536;
constexpr uint32_t kHashIndexFlag = uint32_t{1} << 31;
constexpr uint32_t kUnknownFlags = uint32_t{7} << 28;

// Removes the hash index, which this reader does not use, from the end of the
// body: one byte for each bucket, then the number of buckets in two bytes.
// Returns false if it does not fit.
bool SkipHashIndex(const Slice& body, size_t* end) {
  if (*end < sizeof(uint16_t)) return false;
  const size_t numbers_end = *end - sizeof(uint16_t);
  const size_t buckets = DecodeFixed16(body.data() + numbers_end);
  if (buckets > numbers_end) return false;
  *end = numbers_end - buckets;
  return true;
}

}  // namespace

Status DecodeBlockTail(const Slice& body, BlockTail* tail) {
  if (body.size() > UINT32_MAX) {
    return Status::NotSupported("a block of 4 GiB or more");
  }
  if (body.size() < kRestartSize) {
    return Status::Corruption("a block of " + std::to_string(body.size()) +
                              " bytes is too short");
  }
  size_t end = body.size() - kRestartSize;
  uint32_t count = DecodeFixed32(body.data() + end);
  const bool has_hash_index =
      body.size() <= kMaxHashIndexedBlockSize && (count & kHashIndexFlag) != 0;
  if (has_hash_index) count &= ~kHashIndexFlag;
  if ((count & kUnknownFlags) != 0) {
    return Status::NotSupported("block layout of a newer RocksDB (flags " +
                                std::to_string(count >> 28) + ")");
  }
  if (has_hash_index && !SkipHashIndex(body, &end)) {
    return Status::Corruption("the block's hash index overruns it");
  }
  // An empty block may have no restart point either (org.iq80.leveldb).
  if (count == 0 && end > 0) {
    return Status::Corruption("a block without restart points");
  }
  if (count > end / kRestartSize) {
    return Status::Corruption("the block's " + std::to_string(count) +
                              " restart points overrun it");
  }
  tail->entries_size = end - count * kRestartSize;
  tail->restart_count = count;
  return Status();
}

bool EntryScanner::Next() {
  if (problem_ != nullptr || rest_.empty()) return false;
  offset_ = static_cast<size_t>(rest_.data() - entries_.data());
  const char* p = rest_.data();
  const char* const limit = rest_.end();
  uint32_t unshared = 0;
  uint32_t value_size = 0;
  p = GetVarint32Ptr(p, limit, &shared_);
  if (p != nullptr) p = GetVarint32Ptr(p, limit, &unshared);
  if (p != nullptr && value_length_ == ValueLength::kStored) {
    p = GetVarint32Ptr(p, limit, &value_size);
  }
  if (p == nullptr) return Fail("bad length");
  if (shared_ > key_size_) {
    return Fail("shares more than there is of the key before");
  }
  const auto left = static_cast<size_t>(limit - p);
  if (unshared > left || value_size > left - unshared) {
    return Fail("overruns the block's entries");
  }
  const size_t key_size = size_t{shared_} + unshared;
  if (key_size > key_capacity_) GrowKey(key_size);
  ShortCopy(key_ + shared_, p, unshared);
  key_size_ = key_size;
  value_ = Slice(p + unshared, value_size);
  rest_ = Slice(value_.end(), left - unshared - value_size);
  return true;
}

void EntryScanner::GrowKey(size_t size) {
  if (key_ == inline_key_ && long_key_->capacity() >= size) {
    // The buffer has grown for an earlier scanner.
    memcpy(long_key_->data(), key_, shared_);
  } else {
    long_key_->Grow(2 * size, key_, shared_);
  }
  key_ = long_key_->data();
  key_capacity_ = long_key_->capacity();
}

void EntryScanner::GoTo(size_t offset) {
  problem_ = nullptr;
  shared_ = 0;
  key_size_ = 0;
  const size_t begin = std::min(offset, entries_.size());
  rest_ = Slice(entries_.data() + begin, entries_.size() - begin);
}

Status EntryScanner::status() const {
  return problem_ == nullptr ? Status() : EntryError(problem_);
}

Status EntryScanner::EntryError(const Slice& problem) const {
  return Status::Corruption(
      "entry at byte " + std::to_string(offset_) + " of the block", problem);
}

bool EntryScanner::Fail(const char* problem) {
  problem_ = problem;
  return false;
}

}  // namespace varve
