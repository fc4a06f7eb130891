// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "table/block.h"

#include <algorithm>
#include <string>
#include <utility>

#include "table/entry_scanner.h"

namespace varve {

namespace {

// OK for the types that a lookup understands.
Status CheckValueType(const EntryScanner& entry) {
  const char* feature = nullptr;
  const ValueType type = ExtractValueType(entry.key());
  switch (type) {
    case ValueType::kDeletion:
    case ValueType::kValue:
    case ValueType::kSingleDeletion:
      return Status();
    case ValueType::kMerge:
      feature = "merge operands";
      break;
    case ValueType::kRangeDeletion:
      feature = "range tombstones";
      break;
    case ValueType::kBlobIndex:
      feature = "blob files";
      break;
    case ValueType::kDeletionWithTimestamp:
      feature = "user timestamps";
      break;
    case ValueType::kWideColumnEntity:
      feature = "wide columns";
      break;
    case ValueType::kValuePreferredSeqno:
      feature = "values with a preferred sequence number";
      break;
  }
  const std::string number = std::to_string(static_cast<unsigned>(type));
  if (feature == nullptr) {
    return entry.EntryError("unknown value type " + number);
  }
  return Status::NotSupported(feature, "value type " + number);
}

}  // namespace

Status Block::Create(BlockContents contents, std::unique_ptr<Block>* block) {
  BlockTail tail;
  Status s = DecodeBlockTail(contents.AsSlice(), &tail);
  if (!s.ok()) return s;
  std::unique_ptr<Block> made(new Block(std::move(contents)));
  made->entries_size_ = static_cast<uint32_t>(tail.entries_size);
  made->restart_count_ = tail.restart_count;
  s = made->CheckEntries();
  if (s.ok()) *block = std::move(made);
  return s;
}

Status Block::CheckEntries() {
  EntryScanner entry(Slice(contents_.data.get(), entries_size_));
  uint32_t restart = 0;
  while (entry.Next()) {
    if (entry.key().size() < kTrailerSize) {
      return entry.EntryError("the key has no trailer");
    }
    Status s = CheckValueType(entry);
    if (!s.ok()) return s;
    if (restart < restart_count_ && RestartOffset(restart) == entry.offset()) {
      if (entry.shared() != 0) {
        return entry.EntryError("shares bytes at a restart point");
      }
      ++restart;
    } else if (restart == 0) {
      return entry.EntryError("comes before all restart points");
    }
    longest_key_size_ = std::max(longest_key_size_, entry.key().size());
    ++entry_count_;
  }
  if (!entry.status().ok()) return entry.status();
  // An empty block has one restart point, at its end.
  if (entry_count_ == 0 && restart_count_ == 1 && RestartOffset(0) == 0) {
    return Status();
  }
  if (restart != restart_count_) {
    return Status::Corruption("restart point " + std::to_string(restart) +
                              " of the block, offset " +
                              std::to_string(RestartOffset(restart)) +
                              ", is not the next entry of one");
  }
  return Status();
}

void BlockIterator::Reset(const Block* block,
                          const InternalKeyComparator* comparator,
                          SequenceNumber global_sequence) {
  block_ = block;
  comparator_ = comparator;
  global_sequence_ = global_sequence;
  entries_ = block->contents_.data.get();
  entries_size_ = block->entries_size_;
  current_ = entries_size_;
  key_ = Slice();
  if (block->longest_key_size_ > buffer_size_) {
    buffer_size_ = block->longest_key_size_;
    heap_.reset(new char[buffer_size_]);
    buffer_ = heap_.get();
  }
}

void BlockIterator::PutTogetherKey(size_t shared, const char* rest,
                                   size_t rest_size) {
  if (global_sequence_ != 0 && shared != 0) {
    // The next key may share bytes of this one's trailer as it was stored.
    EncodeFixed64(buffer_ + key_.size() - kTrailerSize, stored_trailer_);
  } else if (shared != 0 && key_.data() != buffer_) {
    memcpy(buffer_, key_.data(), shared);
  }
  memcpy(buffer_ + shared, rest, rest_size);
  key_ = Slice(buffer_, shared + rest_size);
  if (global_sequence_ != 0) {
    stored_trailer_ = ExtractTrailer(key_);
    EncodeFixed64(buffer_ + key_.size() - kTrailerSize,
                  Rewrite(stored_trailer_));
  }
}

inline int BlockIterator::Compare(const Slice& entry_key,
                                  uint64_t entry_trailer, const Slice& user_key,
                                  uint64_t trailer) const {
  const int r = comparator_->CompareUser(ExtractUserKey(entry_key), user_key);
  if (r != 0) return r;
  return entry_trailer > trailer ? -1 : (entry_trailer < trailer ? 1 : 0);
}

int BlockIterator::CompareRestart(uint32_t index, const Slice& user_key,
                                  uint64_t trailer) const {
  Lengths lengths;
  const char* p = DecodeLengths(block_->RestartOffset(index), &lengths);
  const Slice key(p, lengths.unshared);
  return Compare(key, Rewrite(ExtractTrailer(key)), user_key, trailer);
}

void BlockIterator::Seek(const Slice& internal_key) {
  const Slice user_key = ExtractUserKey(internal_key);
  const uint64_t trailer = ExtractTrailer(internal_key);
  // The last restart point before the key, or the first of all.
  uint32_t left = 0;
  uint32_t right = block_->restart_count_ - 1;
  while (left < right) {
    const uint32_t middle = left + (right - left + 1) / 2;
    if (CompareRestart(middle, user_key, trailer) < 0) {
      left = middle;
    } else {
      right = middle - 1;
    }
  }
  SeekToRestart(left);
  while (Valid() &&
         Compare(key_, ExtractTrailer(key_), user_key, trailer) < 0) {
    Next();
  }
}

void BlockIterator::SeekForPrev(const Slice& internal_key) {
  Seek(internal_key);
  if (!Valid()) {
    SeekToLast();
  } else if (Compare(key_, ExtractTrailer(key_), ExtractUserKey(internal_key),
                     ExtractTrailer(internal_key)) > 0) {
    Prev();
  }
}

void BlockIterator::SeekToLast() {
  SeekToRestart(block_->restart_count_ - 1);
  while (Valid() && next_ < entries_size_) Next();
}

void BlockIterator::Prev() {
  const uint32_t end = current_;
  if (end == 0) {
    current_ = entries_size_;
    return;
  }
  // The last restart point before this entry; the first is at offset 0.
  uint32_t left = 0;
  uint32_t right = block_->restart_count_ - 1;
  while (left < right) {
    const uint32_t middle = left + (right - left + 1) / 2;
    if (block_->RestartOffset(middle) < end) {
      left = middle;
    } else {
      right = middle - 1;
    }
  }
  SeekToRestart(left);
  while (next_ < end) Next();
}

}  // namespace varve
