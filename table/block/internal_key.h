// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Internal keys: a user key followed by eight bytes, the trailer, that hold
// the update's sequence number and its kind. They are the keys of memtables
// and tables, ordered by user key and, for equal ones, newest first.
//
// Thread-safety: values; the comparator is immutable after construction.

#include <cstddef>
#include <cstdint>
#include <string>

#include "util/bytes/coding.h"
#include "varve/comparator.h"
#include "varve/slice.h"
#include "varve/status.h"

namespace varve {

using SequenceNumber = uint64_t;

// Sequence numbers have 56 bits.
constexpr SequenceNumber kMaxSequenceNumber = (uint64_t{1} << 56) - 1;
constexpr size_t kTrailerSize = 8;

// The most that an internal key and its value, or the begin of a range deletion
// and its end, take together. A table has no place for more, since the offsets
// in a block have 32 bits and others may share the block; so no more is
// written to a log, either, which nobody could make a table of.
constexpr size_t kMaxEntryBytes = size_t{3} << 30;

// Of user keys.
constexpr bool EntryFits(size_t key_size, size_t value_size) {
  return key_size <= kMaxEntryBytes - kTrailerSize &&
         value_size <= kMaxEntryBytes - kTrailerSize - key_size;
}

// On-disk values, as in RocksDB: do not renumber.
enum class ValueType : uint8_t {
  kDeletion = 0x00,
  kValue = 0x01,
  kMerge = 0x02,
  kSingleDeletion = 0x07,
  kRangeDeletion = 0x0F,
  kBlobIndex = 0x11,
  kDeletionWithTimestamp = 0x14,
  kWideColumnEntity = 0x16,
  kValuePreferredSeqno = 0x18,
};

// Trailers are compared as numbers, so a seek for the newest update at or
// before a sequence number asks for the highest type.
constexpr uint8_t kTypeForSeek = 0xFF;

constexpr uint64_t PackTrailer(SequenceNumber sequence, ValueType type) {
  return sequence << 8 | static_cast<uint8_t>(type);
}
constexpr uint64_t SeekTrailer(SequenceNumber sequence) {
  return sequence << 8 | kTypeForSeek;
}
// Of a table's largest key that is the end of a range deletion: the user key
// itself does not belong to the table. It sorts before every version of it.
constexpr uint64_t kRangeEndTrailer =
    PackTrailer(kMaxSequenceNumber, ValueType::kRangeDeletion);

// REQUIRES for all of these: internal_key.size() >= kTrailerSize, which is
// checked where keys enter from files.
inline Slice ExtractUserKey(const Slice& internal_key) {
  return Slice(internal_key.data(), internal_key.size() - kTrailerSize);
}
inline uint64_t ExtractTrailer(const Slice& internal_key) {
  return DecodeFixed64(internal_key.data() + internal_key.size() -
                       kTrailerSize);
}
inline SequenceNumber ExtractSequence(const Slice& internal_key) {
  return ExtractTrailer(internal_key) >> 8;
}
inline ValueType ExtractValueType(const Slice& internal_key) {
  return static_cast<ValueType>(ExtractTrailer(internal_key) & 0xFF);
}

// Whether lookups understand entries of a type.
inline bool IsLookupType(uint8_t type) {
  return type <= static_cast<uint8_t>(ValueType::kValue) ||
         type == static_cast<uint8_t>(ValueType::kSingleDeletion);
}
// What is wrong with another type, of the entry at a byte of its block:
// NotSupported names the feature that it belongs to, else Corruption.
Status LookupTypeError(uint8_t type, size_t offset);

// Writes it to memory of the user key's size and kTrailerSize more.
inline Slice WriteInternalKey(char* to, const Slice& user_key,
                              uint64_t trailer) {
  if (!user_key.empty()) memcpy(to, user_key.data(), user_key.size());
  EncodeFixed64(to + user_key.size(), trailer);
  return Slice(to, user_key.size() + kTrailerSize);
}
inline void AppendInternalKey(std::string* result, const Slice& user_key,
                              uint64_t trailer) {
  result->append(user_key.data(), user_key.size());
  PutFixed64(result, trailer);
}
inline std::string MakeInternalKey(const Slice& user_key, uint64_t trailer) {
  std::string result;
  result.reserve(user_key.size() + kTrailerSize);
  AppendInternalKey(&result, user_key, trailer);
  return result;
}

// "'<user key in hex>' seq:<n>, type:<n>" for messages.
std::string DescribeInternalKey(const Slice& internal_key);

// The order of internal keys over that of user keys.
class InternalKeyComparator {
 public:
  explicit InternalKeyComparator(const Comparator* user_comparator)
      : user_comparator_(user_comparator),
        bytewise_(user_comparator == BytewiseComparator()) {}

  const Comparator* user_comparator() const { return user_comparator_; }
  // The user order is the bytewise one, so that it may be computed inline.
  bool bytewise() const { return bytewise_; }

  int CompareUser(const Slice& a, const Slice& b) const {
    return bytewise_ ? a.compare(b) : user_comparator_->Compare(a, b);
  }
  int Compare(const Slice& a, const Slice& b) const {
    const int r = CompareUser(ExtractUserKey(a), ExtractUserKey(b));
    if (r != 0) return r;
    const uint64_t a_trailer = ExtractTrailer(a);
    const uint64_t b_trailer = ExtractTrailer(b);
    return a_trailer > b_trailer ? -1 : (a_trailer < b_trailer ? 1 : 0);
  }

 private:
  const Comparator* user_comparator_;
  bool bytewise_;
};

// The key of a lookup: the newest update of a user key at or before a
// sequence number. Short keys need no allocation.
class LookupKey {
 public:
  LookupKey(const Slice& user_key, SequenceNumber sequence);
  LookupKey(const LookupKey&) = delete;
  LookupKey& operator=(const LookupKey&) = delete;
  ~LookupKey() {
    if (data_ != inline_) delete[] data_;
  }

  Slice internal_key() const { return Slice(data_, size_); }
  Slice user_key() const { return Slice(data_, size_ - kTrailerSize); }

 private:
  char* data_;
  size_t size_;
  char inline_[120];
};

}  // namespace varve
