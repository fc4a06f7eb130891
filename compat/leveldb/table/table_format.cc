// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "compat/leveldb/table/table_format.h"

#include <algorithm>
#include <array>

#include "compat/leveldb/coding.h"
#include "compat/leveldb/convert.h"

namespace varve::compat {
namespace {

// Returns the CRC-32C (polynomial 0x1EDC6F41, reflected) of `data` after `crc`.
uint32_t ExtendCrc32c(uint32_t crc, const char* data, size_t size) {
  static constexpr auto kTable = [] {
    std::array<uint32_t, 256> table{};
    for (uint32_t i = 0; i < table.size(); ++i) {
      uint32_t value = i;
      for (int bit = 0; bit < 8; ++bit) {
        value = (value >> 1) ^ ((value & 1) != 0 ? 0x82f63b78U : 0);
      }
      table[i] = value;
    }
    return table;
  }();
  crc = ~crc;
  for (size_t i = 0; i < size; ++i) {
    crc =
        kTable[(crc ^ static_cast<unsigned char>(data[i])) & 0xff] ^ (crc >> 8);
  }
  return ~crc;
}

}  // namespace

void BlockPlace::AppendTo(std::string* out) const {
  AppendVarint(out, offset);
  AppendVarint(out, bytes);
}

bool BlockPlace::TakeFrom(leveldb::Slice* in) {
  return TakeVarint(in, &offset) && TakeVarint(in, &bytes);
}

// The mask keeps the checksum of bytes that contain checksums from being
// trivial.
uint32_t BlockChecksum(const leveldb::Slice& content, char compression) {
  constexpr uint32_t kMaskDelta = 0xa282ead8;
  const uint32_t crc = ExtendCrc32c(
      ExtendCrc32c(0, content.data(), content.size()), &compression, 1);
  return (crc >> 15 | crc << 17) + kMaskDelta;
}

// ---- BlockContentBuilder ----------------------------------------------------

void BlockContentBuilder::Add(const leveldb::Slice& key,
                              const leveldb::Slice& value,
                              int restart_interval) {
  size_t shared = 0;
  if (since_restart_ < restart_interval) {
    const size_t limit = std::min(last_key_.size(), key.size());
    while (shared < limit && last_key_[shared] == key.data()[shared]) ++shared;
  } else {
    restarts_.push_back(static_cast<uint32_t>(content_.size()));
    since_restart_ = 0;
  }
  AppendVarint(&content_, shared);
  AppendVarint(&content_, key.size() - shared);
  AppendVarint(&content_, value.size());
  content_.append(key.data() + shared, key.size() - shared);
  content_.append(value.data(), value.size());
  last_key_.assign(key.data(), key.size());
  ++since_restart_;
}

leveldb::Slice BlockContentBuilder::Finish() {
  for (const uint32_t restart : restarts_) AppendFixed32(&content_, restart);
  AppendFixed32(&content_, static_cast<uint32_t>(restarts_.size()));
  return leveldb::Slice(content_);
}

void BlockContentBuilder::Reset() {
  content_.clear();
  restarts_.assign(1, 0);
  since_restart_ = 0;
  last_key_.clear();
}

// ---- BlockContentIterator ---------------------------------------------------

BlockContentIterator::BlockContentIterator(
    const leveldb::Comparator* comparator, std::string content)
    : comparator_(comparator), content_(std::move(content)) {
  constexpr size_t kWord = sizeof(uint32_t);
  if (content_.size() < kWord) {
    Fail();
    return;
  }
  restart_count_ = DecodeFixed32(content_.data() + content_.size() - kWord);
  if (restart_count_ == 0) {
    // As of an empty block of LevelDB's: nothing, and no error.
    if (content_.size() > kWord) Fail();
    return;
  }
  if (restart_count_ > content_.size() / kWord - 1) {
    Fail();
    return;
  }
  restarts_offset_ = content_.size() - (restart_count_ + size_t{1}) * kWord;
  offset_ = restarts_offset_;
}

void BlockContentIterator::Fail() {
  status_ = Corruption("a block of the table is damaged");
  restarts_offset_ = 0;
  restart_count_ = 0;
  offset_ = 0;
  key_.clear();
  value_ = leveldb::Slice();
}

uint32_t BlockContentIterator::RestartOffset(uint32_t index) const {
  return DecodeFixed32(content_.data() + restarts_offset_ +
                       index * sizeof(uint32_t));
}

void BlockContentIterator::MoveToRestart(uint32_t index) {
  key_.clear();
  next_offset_ = RestartOffset(index);
}

bool BlockContentIterator::ReadNext() {
  offset_ = next_offset_;
  if (offset_ >= restarts_offset_) {
    // The last entry ends where the restart points begin.
    if (offset_ > restarts_offset_) Fail();
    return false;
  }
  leveldb::Slice rest(content_.data() + offset_, restarts_offset_ - offset_);
  uint64_t shared = 0;
  uint64_t more = 0;
  uint64_t value_bytes = 0;
  if (!TakeVarint(&rest, &shared) || !TakeVarint(&rest, &more) ||
      !TakeVarint(&rest, &value_bytes) || shared > key_.size() ||
      more > rest.size() || value_bytes > rest.size() - more) {
    Fail();
    return false;
  }
  key_.resize(shared);
  key_.append(rest.data(), more);
  value_ = leveldb::Slice(rest.data() + more, value_bytes);
  next_offset_ =
      static_cast<size_t>(value_.data() + value_bytes - content_.data());
  return true;
}

void BlockContentIterator::SeekToFirst() {
  if (restart_count_ == 0) return;
  MoveToRestart(0);
  ReadNext();
}

void BlockContentIterator::SeekToLast() {
  if (restart_count_ == 0) return;
  MoveToRestart(restart_count_ - 1);
  while (ReadNext() && next_offset_ < restarts_offset_) {
  }
}

void BlockContentIterator::Seek(const leveldb::Slice& target) {
  if (restart_count_ == 0) return;
  // The last restart point whose key is before the target, or the first one.
  uint32_t left = 0;
  uint32_t right = restart_count_ - 1;
  while (left < right) {
    const uint32_t middle = left + (right - left + 1) / 2;
    MoveToRestart(middle);
    if (!ReadNext()) {
      if (status_.ok()) Fail();
      return;
    }
    if (comparator_->Compare(leveldb::Slice(key_), target) < 0) {
      left = middle;
    } else {
      right = middle - 1;
    }
  }
  MoveToRestart(left);
  while (ReadNext() && comparator_->Compare(leveldb::Slice(key_), target) < 0) {
  }
}

void BlockContentIterator::Next() {
  if (Valid()) ReadNext();
}

void BlockContentIterator::Prev() {
  if (!Valid()) return;
  const size_t original = offset_;
  uint32_t index = restart_count_;
  while (index > 0 && RestartOffset(index - 1) >= original) --index;
  if (index == 0) {
    offset_ = restarts_offset_;  // Before the first entry.
    return;
  }
  MoveToRestart(index - 1);
  while (ReadNext() && next_offset_ < original) {
  }
}

}  // namespace varve::compat
