// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "table/reader/file_block_iterator.h"

#include "util/bytes/coding.h"

namespace varve {

namespace {

// The restart points of an empty block that has none: one, at its end.
constexpr char kEmptyBlockRestarts[sizeof(uint32_t)] = {};

}  // namespace

void FileBlockIterator::Reset(const Slice& body,
                              const InternalKeyComparator* comparator,
                              SequenceNumber global_sequence) {
  comparator_ = comparator;
  global_sequence_ = global_sequence;
  position_->valid = false;
  BlockTail tail;
  status_ = DecodeBlockTail(body, &tail);
  if (!status_.ok()) return;
  restarts_ = body.data() + tail.entries_size;
  restart_count_ = tail.restart_count;
  if (restart_count_ == 0) {
    restarts_ = kEmptyBlockRestarts;
    restart_count_ = 1;
  }
  scanner_.emplace(Slice(body.data(), tail.entries_size),
                   EntryScanner::ValueLength::kStored, &long_key_);
}

uint32_t FileBlockIterator::RestartOffset(uint32_t i) const {
  return DecodeFixed32(restarts_ + size_t{i} * sizeof(uint32_t));
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
  // The key of `left` is before the target, or `left` is the first. Keys after
  // `right` are not before the target.
  uint32_t left = 0;
  uint32_t right = restart_count_ - 1;
  while (left < right) {
    const uint32_t middle = left + (right - left + 1) / 2;
    scanner_->GoTo(RestartOffset(middle));
    if (!scanner_->Next() || scanner_->key().size() < kTrailerSize) {
      position_->valid = false;
      status_ = Status::Corruption(
          "restart point " + std::to_string(middle) + " of the block, offset " +
          std::to_string(RestartOffset(middle)) + ", is not that of an entry");
      return false;
    }
    // A global sequence number may sort this key before the target. Then the
    // scan begins earlier than necessary.
    if (Compare(scanner_->key(), user_key, trailer) < 0) {
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
  scanner_->GoTo(RestartOffset(restart));
  if (restart == 0 && RestartOffset(restart) != 0) {
    position_->valid = false;
    status_ = Status::Corruption(
        "entry at byte 0 of the block: comes before all restart points");
    return;
  }
  Step();
}

void FileBlockIterator::Step() {
  position_->valid = false;
  if (!scanner_->Next()) {
    status_ = scanner_->status();
    return;
  }
  const Slice key = scanner_->key();
  if (key.size() < kTrailerSize) {
    status_ = scanner_->EntryError("the key has no trailer");
    return;
  }
  const auto type = static_cast<uint8_t>(ExtractTrailer(key));
  if (!IsLookupType(type)) [[unlikely]] {
    status_ = LookupTypeError(type, scanner_->offset());
    return;
  }
  position_->valid = true;
  position_->key = key;
  position_->value = scanner_->value();
  if (global_sequence_ != 0) {
    position_->key =
        WriteInternalKey(renumbered_key_.Reserve(key.size()),
                         ExtractUserKey(key), global_sequence_ << 8 | type);
  }
}

void FileBlockIterator::SeekToFirst() { GoTo(0); }

void FileBlockIterator::Seek(const Slice& internal_key) {
  const Slice user_key = ExtractUserKey(internal_key);
  const uint64_t trailer = ExtractTrailer(internal_key);
  uint32_t restart = 0;
  if (!FindRestart(user_key, trailer, &restart)) return;
  for (GoTo(restart); position_->valid; Step()) {
    if (Compare(position_->key, user_key, trailer) >= 0) return;
  }
}

void FileBlockIterator::Next() { Step(); }

}  // namespace varve
