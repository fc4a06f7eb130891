// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "table/file_block_iterator.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "util/coding.h"
#include "util/short_copy.h"

namespace varve {

namespace {

// The three lengths that an entry begins with.
struct EntryHead {
  uint32_t shared = 0;
  uint32_t unshared = 0;
  uint32_t value_size = 0;
};

// Returns where the key's bytes begin, or null if the entry does not end
// before `limit`.
inline const char* DecodeHead(const char* p, const char* limit,
                              EntryHead* head) {
  p = GetVarint32Ptr(p, limit, &head->shared);
  if (p != nullptr) p = GetVarint32Ptr(p, limit, &head->unshared);
  if (p != nullptr) p = GetVarint32Ptr(p, limit, &head->value_size);
  if (p == nullptr) return nullptr;
  const auto left = static_cast<size_t>(limit - p);
  if (head->unshared > left || head->value_size > left - head->unshared) {
    return nullptr;
  }
  return p;
}

}  // namespace

void FileBlockIterator::Reset(const Slice& body,
                              const InternalKeyComparator* comparator,
                              SequenceNumber global_sequence) {
  body_ = body;
  comparator_ = comparator;
  global_sequence_ = global_sequence;
  position_->valid = false;
  status_ = DecodeBlockTail(body, &tail_);
}

uint32_t FileBlockIterator::RestartOffset(uint32_t i) const {
  return DecodeFixed32(body_.data() + tail_.entries_size +
                       i * sizeof(uint32_t));
}

void FileBlockIterator::Fail(const char* problem) {
  position_->valid = false;
  status_ = Status::Corruption(
      "entry at byte " + std::to_string(next_) + " of the block", problem);
}

int FileBlockIterator::Compare(const Slice& internal_key, const Slice& user_key,
                               uint64_t trailer) const {
  const int r =
      comparator_->CompareUser(ExtractUserKey(internal_key), user_key);
  if (r != 0) return r;
  const uint64_t own = ExtractTrailer(internal_key);
  return own > trailer ? -1 : (own < trailer ? 1 : 0);
}

bool FileBlockIterator::FindRestart(const Slice& user_key, uint64_t trailer,
                                    uint32_t* found) {
  // All before `left` are known to be before the key, but for the first.
  uint32_t left = 0;
  uint32_t right = tail_.restart_count - 1;
  while (left < right) {
    const uint32_t middle = left + (right - left + 1) / 2;
    next_ = RestartOffset(middle);
    EntryHead head;
    const char* p = nullptr;
    if (next_ < tail_.entries_size) {
      p = DecodeHead(body_.data() + next_, body_.data() + tail_.entries_size,
                     &head);
    }
    if (p == nullptr || head.shared != 0 || head.unshared < kTrailerSize) {
      Fail("is no restart point");
      return false;
    }
    const Slice key(p, head.unshared);
    // A global sequence number may put this key before the one sought; then
    // the walk begins earlier than it could.
    if (Compare(key, user_key, trailer) < 0) {
      left = middle;
    } else {
      right = middle - 1;
    }
  }
  *found = left;
  return true;
}

void FileBlockIterator::GoTo(uint32_t restart) {
  status_ = Status();
  next_ = RestartOffset(restart);
  key_size_ = 0;
  position_->valid = false;
  if (restart == 0 && next_ != 0) {
    next_ = 0;
    Fail("comes before all restart points");
  } else {
    Step();
  }
}

void FileBlockIterator::Step() {
  if (next_ >= tail_.entries_size) {
    position_->valid = false;
    return;
  }
  EntryHead head;
  const char* const p = DecodeHead(body_.data() + next_,
                                   body_.data() + tail_.entries_size, &head);
  if (p == nullptr) return Fail("overruns the block's entries");
  if (head.shared > key_size_) {
    return Fail("shares more than there is of the key before");
  }
  const size_t size = size_t{head.shared} + head.unshared;
  if (size < kTrailerSize) return Fail("the key has no trailer");
  if (size > key_capacity_) GrowKey(size);
  if (global_sequence_ != 0 && key_size_ != 0) {
    EncodeFixed64(key_ + key_size_ - kTrailerSize, trailer_);
  }
  ShortCopy(key_ + head.shared, p, head.unshared);
  key_size_ = size;
  trailer_ = DecodeFixed64(key_ + size - kTrailerSize);
  if (!IsLookupType(static_cast<uint8_t>(trailer_))) [[unlikely]] {
    position_->valid = false;
    status_ = LookupTypeError(static_cast<uint8_t>(trailer_), next_);
    return;
  }
  if (global_sequence_ != 0) {
    EncodeFixed64(key_ + size - kTrailerSize,
                  global_sequence_ << 8 | (trailer_ & 0xFF));
  }
  position_->valid = true;
  position_->key = Slice(key_, size);
  position_->value = Slice(p + head.unshared, head.value_size);
  next_ = static_cast<size_t>(position_->value.end() - body_.data());
}

void FileBlockIterator::GrowKey(size_t size) {
  const size_t capacity = std::max(size, 2 * key_capacity_);
  std::unique_ptr<char[]> grown(new char[capacity]);
  memcpy(grown.get(), key_, key_size_);
  heap_ = std::move(grown);
  key_ = heap_.get();
  key_capacity_ = capacity;
}

void FileBlockIterator::SeekToFirst() { GoTo(0); }

void FileBlockIterator::Seek(const Slice& internal_key) {
  const Slice user_key = ExtractUserKey(internal_key);
  const uint64_t trailer = ExtractTrailer(internal_key);
  status_ = Status();
  uint32_t restart = 0;
  if (!FindRestart(user_key, trailer, &restart)) return;
  for (GoTo(restart); position_->valid; Step()) {
    if (Compare(position_->key, user_key, trailer) >= 0) return;
  }
}

void FileBlockIterator::Next() { Step(); }

}  // namespace varve
