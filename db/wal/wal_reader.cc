// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "db/wal/wal_reader.h"

#include "db/wal/wal_format.h"
#include "util/bytes/checksum.h"
#include "util/bytes/coding.h"

namespace varve::wal {

namespace {

// The most unwritten space that is searched. Logs allocate less in advance. A
// crafted file may have a hole of any size at no cost.
constexpr uint64_t kMaxZeroBlocks = (uint64_t{1} << 30) / kBlockSize;

// The most consecutive unreadable blocks that a repair skips.
constexpr uint64_t kMaxUnreadableBlocks = (uint64_t{64} << 20) / kBlockSize;

// The most bytes that are read and checksummed to find a record after damage.
// Some garbage looks like a long record at every offset.
constexpr uint64_t kMaxSearchBytes = uint64_t{256} << 20;

// Returns whether some program writes records of that type.
bool IsKnownType(uint8_t type) {
  return (type > kZero && type <= kRecyclableUserTimestampSize) ||
         type == kPredecessorLog || type == kRecyclablePredecessorLog;
}

// Whether the header has the log's number.
bool HasLogNumber(uint8_t type) {
  return (type >= kRecyclableFull && type <= kRecyclableLast) ||
         type == kRecyclableUserTimestampSize ||
         type == kRecyclablePredecessorLog;
}

bool GoesOnWithRecord(uint8_t type) {
  return type == kMiddle || type == kLast || type == kRecyclableMiddle ||
         type == kRecyclableLast;
}

}  // namespace

Reader::Reader(std::unique_ptr<SequentialFile> file, std::string name,
               uint64_t number)
    : file_(std::move(file)),
      name_(std::move(name)),
      number_(number),
      block_(std::make_unique_for_overwrite<char[]>(kBlockSize)) {}

ReadOutcome Reader::ReadRecord(Slice* record) {
  if (final_ != ReadOutcome::kRecord) return final_;
  bool in_record = false;
  assembled_.clear();
  for (;;) {
    Fragment fragment;
    const ReadOutcome outcome = ReadFragment(&fragment);
    if (outcome != ReadOutcome::kRecord) {
      // An empty FIRST may be at the end of a block if the writer died then.
      if (outcome == ReadOutcome::kEnd && in_record) {
        return Fail(ReadOutcome::kTornTail, "the log ends inside a record");
      }
      return final_ = outcome;
    }
    switch (fragment.type) {
      case kFull:
      case kFirst:
        if (in_record && !assembled_.empty()) {
          // SkipDamage may continue with the record that begins here.
          rest_ = fragment_begin_;
          return Fail(ReadOutcome::kDamage, "a record ends without its end");
        }
        if (fragment.type == kFull) {
          *record = fragment.payload;
          record_end_ = Position();
          return ReadOutcome::kRecord;
        }
        assembled_.assign(fragment.payload.data(), fragment.payload.size());
        in_record = true;
        break;
      case kMiddle:
      case kLast:
        if (!in_record && skipped_) break;
        if (!in_record) {
          return Fail(ReadOutcome::kDamage, "a record has no beginning");
        }
        assembled_.append(fragment.payload.data(), fragment.payload.size());
        if (fragment.type == kLast) {
          *record = assembled_;
          record_end_ = Position();
          return ReadOutcome::kRecord;
        }
        break;
      case kPredecessorLog:
        // RocksDB's record about the log before this one. It is no update.
        if (in_record) {
          return Fail(ReadOutcome::kDamage, "a record ends without its end");
        }
        break;
      default:
        return Fail(ReadOutcome::kDamage, "unknown record type");
    }
  }
}

ReadOutcome Reader::ReadFragment(Fragment* fragment) {
  for (;;) {
    if (rest_.size() < kHeaderSize) {
      if (last_block_) {
        if (rest_.empty() || RestIsZero()) return ReadOutcome::kEnd;
        return Fail(ReadOutcome::kTornTail, "the log ends inside a header");
      }
      const ReadOutcome outcome = NextBlock();
      if (outcome != ReadOutcome::kRecord) return outcome;
      continue;
    }
    const auto type = static_cast<uint8_t>(rest_[6]);
    const uint16_t length = DecodeFixed16(rest_.data() + 4);
    if (type == kZero && length == 0) {
      // Unwritten space. Records after it would leave a hole.
      uint64_t zeros = 0;
      for (uint64_t blocks = 0; RestIsZero(); ++blocks) {
        zeros += rest_.size();
        if (last_block_ || zeros >= max_zeros_) return ReadOutcome::kEnd;
        if (blocks == kMaxZeroBlocks) {
          rest_.clear();
          last_block_ = true;
          return Fail(ReadOutcome::kTornTail, "too much unwritten space");
        }
        const ReadOutcome outcome = NextBlock();
        if (outcome != ReadOutcome::kRecord) return outcome;
      }
      // Or the rest of a record whose first sector was not written.
      no_header_ = true;
      return Fail(ReadOutcome::kDamage, "records behind unwritten space");
    }
    return ParseFragment(fragment);
  }
}

uint64_t Reader::ContinueAt(uint64_t record_end) {
  record_end_ = record_end;
  block_end_ = record_end;
  const size_t left = kBlockSize - record_end % kBlockSize;
  // No recyclable header fits there, and what is there was not read.
  if (recyclable_ && left < kRecyclableHeaderSize) block_end_ += left;
  rest_ = Slice();
  last_block_ = false;
  no_header_ = false;
  bad_checksum_ = false;
  skipped_ = false;
  final_ = ReadOutcome::kRecord;
  status_ = Status::OK();
  return block_end_;
}

ReadOutcome Reader::NextBlock() {
  Slice block;
  // Less than a block after ContinueAt.
  const size_t size = kBlockSize - block_end_ % kBlockSize;
  const Status status = file_->Read(size, &block, block_.get());
  if (!status.ok()) {
    status_ = status;
    return final_ = ReadOutcome::kIOError;
  }
  rest_ = block;
  block_end_ += block.size();
  last_block_ = block.size() < size;
  return ReadOutcome::kRecord;
}

ReadOutcome Reader::ParseFragment(Fragment* fragment) {
  fragment_begin_ = rest_;
  const char* header = rest_.data();
  const uint32_t stored_crc = UnmaskCrc(DecodeFixed32(header));
  const size_t length = DecodeFixed16(header + 4);
  const auto type = static_cast<uint8_t>(header[6]);
  const bool recyclable = HasLogNumber(type);
  const size_t header_size = recyclable ? kRecyclableHeaderSize : kHeaderSize;
  met_recyclable_ = met_recyclable_ || recyclable;
  if (rest_.size() < header_size + length) {
    // In a recycled log, old bytes may follow the new ones directly.
    if (last_block_ && (type == kZero || IsKnownType(type))) {
      return Fail(ReadOutcome::kTornTail, "the log ends inside a record");
    }
    no_header_ = true;
    return Fail(recyclable_ ? ReadOutcome::kTornTail : ReadOutcome::kDamage,
                "a record is longer than its block");
  }
  if (Crc32c(header + 6, header_size - 6 + length) != stored_crc) {
    no_header_ = type != kZero && !IsKnownType(type);
    bad_checksum_ = true;
    return Fail(recyclable_ ? ReadOutcome::kTornTail : ReadOutcome::kDamage,
                "checksum mismatch");
  }
  if (skipped_ && recyclable_ && !recyclable) {
    // This log has only recyclable records, so it is a leftover, as below.
    rest_.clear();
    last_block_ = true;
    return ReadOutcome::kEnd;
  }
  if (type == kSetCompression) {
    return Fail(ReadOutcome::kNotSupported, "WAL compression");
  }
  if (type == kUserTimestampSize || type == kRecyclableUserTimestampSize) {
    return Fail(ReadOutcome::kNotSupported, "user timestamps in the WAL");
  }
  fragment->type = type;
  if (recyclable) {
    if (DecodeFixed32(header + kHeaderSize) != static_cast<uint32_t>(number_)) {
      // A leftover of the file's earlier use. The log ends here.
      rest_.clear();
      last_block_ = true;
      return ReadOutcome::kEnd;
    }
    recyclable_ = true;
    fragment->type = static_cast<uint8_t>(type == kRecyclablePredecessorLog
                                              ? int{kPredecessorLog}
                                              : type - kRecyclableFull + kFull);
  }
  fragment->payload = Slice(header + header_size, length);
  rest_.remove_prefix(header_size + length);
  // For recyclable records, the rest of a block that cannot hold a header is
  // less than 11 bytes, not 7.
  if (recyclable && rest_.size() < kRecyclableHeaderSize && !last_block_) {
    rest_.clear();
  }
  return ReadOutcome::kRecord;
}

bool Reader::PassUnreadableBlocks() {
  for (uint64_t blocks = 0; blocks < kMaxUnreadableBlocks; ++blocks) {
    if (!file_->Skip(kBlockSize).ok()) return false;
    block_end_ += kBlockSize;
    if (NextBlock() == ReadOutcome::kRecord) return true;
  }
  return false;
}

bool Reader::SkipDamage() {
  if (final_ == ReadOutcome::kIOError) {
    if (!PassUnreadableBlocks()) return false;
  } else if (final_ != ReadOutcome::kDamage &&
             final_ != ReadOutcome::kTornTail) {
    return false;
  } else if (!BeginsWithFragment(rest_)) {
    const size_t size = DamagedFragmentSize();
    if (size > 0) {
      rest_.remove_prefix(size);
    } else if (last_block_ || (NextBlock() != ReadOutcome::kRecord &&
                               !PassUnreadableBlocks())) {
      return false;
    }
  }
  skipped_ = true;
  final_ = ReadOutcome::kRecord;
  status_ = Status::OK();
  return true;
}

size_t Reader::DamagedFragmentSize() const {
  if (rest_.size() < kHeaderSize) return 0;
  const auto type = static_cast<uint8_t>(rest_[6]);
  const bool recyclable = HasLogNumber(type);
  const size_t size = (recyclable ? kRecyclableHeaderSize : kHeaderSize) +
                      DecodeFixed16(rest_.data() + 4);
  if (!IsKnownType(type) || size > rest_.size()) return 0;
  const Slice behind(rest_.data() + size, rest_.size() - size);
  return BeginsWithFragment(behind) ? size : 0;
}

bool Reader::RestIsZero() {
  for (const char c : rest_.ToStringView()) {
    if (c != 0) return false;
  }
  return true;
}

bool Reader::BeginsWithFragment(const Slice& bytes, uint64_t* searched) {
  if (bytes.size() < kHeaderSize) return false;
  const char* const header = bytes.data();
  const size_t length = DecodeFixed16(header + 4);
  const auto type = static_cast<uint8_t>(header[6]);
  const bool recyclable = HasLogNumber(type);
  const size_t header_size = recyclable ? kRecyclableHeaderSize : kHeaderSize;
  if (!IsKnownType(type) || bytes.size() < header_size + length) return false;
  if (searched != nullptr) *searched += length;
  return Crc32c(header + 6, header_size - 6 + length) ==
         UnmaskCrc(DecodeFixed32(header));
}

bool Reader::NoRecordFollows() {
  uint64_t searched = 0;
  for (;;) {
    for (; rest_.size() >= kHeaderSize; rest_.remove_prefix(1)) {
      // A continuation may belong to the damaged record.
      const auto type = static_cast<uint8_t>(rest_[6]);
      if (!GoesOnWithRecord(type) && BeginsWithFragment(rest_, &searched)) {
        return false;
      }
      if (searched > kMaxSearchBytes) return false;  // One may follow.
    }
    if (last_block_) return true;
    if (NextBlock() != ReadOutcome::kRecord) return false;
    searched += rest_.size();
  }
}

ReadOutcome Reader::Fail(ReadOutcome outcome, const char* what) {
  const std::string message =
      name_ + " offset " + std::to_string(Position()) + ": " + what;
  status_ = outcome == ReadOutcome::kNotSupported
                ? Status::NotSupported(message)
                : Status::Corruption(message);
  return final_ = outcome;
}

}  // namespace varve::wal
