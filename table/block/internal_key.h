// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Internal keys: a user key followed by an 8-byte trailer that holds the
// update's sequence number and type. They are the keys of memtables and tables.
// The order is by user key, and for equal user keys newest first.
//
// Thread-safety: values; the comparator is immutable after construction.

#include <cstddef>
#include <cstdint>
#include <string>

#include "util/bytes/coding.h"
#include "util/bytes/short_copy.h"
#include "varve/comparator.h"
#include "varve/slice.h"
#include "varve/status.h"

namespace varve {

using SequenceNumber = uint64_t;

// Sequence numbers have 56 bits.
constexpr SequenceNumber kMaxSequenceNumber = (uint64_t{1} << 56) - 1;
constexpr size_t kTrailerSize = 8;

// Maximum sum of the sizes of an internal key and its value, or of the begin
// and end of a range deletion. A table has no space for more, since the offsets
// in a block have 32 bits and other entries may share the block. Larger updates
// are not written to a log either, because they could not be flushed to a
// table.
constexpr size_t kMaxEntryBytes = size_t{3} << 30;

// Returns whether a user key and its value are within kMaxEntryBytes.
constexpr bool EntryFits(size_t key_size, size_t value_size) {
  return key_size <= kMaxEntryBytes - kTrailerSize &&
         value_size <= kMaxEntryBytes - kTrailerSize - key_size;
}

// On-disk values, as in RocksDB. Do not renumber.
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

// Trailers are compared as numbers, and higher ones come first. A seek for the
// newest update at or before a sequence number therefore uses the highest type.
constexpr uint8_t kTypeForSeek = 0xFF;

constexpr uint64_t PackTrailer(SequenceNumber sequence, ValueType type) {
  return sequence << 8 | static_cast<uint8_t>(type);
}
constexpr uint64_t SeekTrailer(SequenceNumber sequence) {
  return sequence << 8 | kTypeForSeek;
}
// The trailer of a table's largest key if that is the end of a range deletion.
// The user key itself is then not in the table. It sorts before every version
// of the user key.
constexpr uint64_t kRangeEndTrailer =
    PackTrailer(kMaxSequenceNumber, ValueType::kRangeDeletion);

// REQUIRES for all of these: internal_key.size() >= kTrailerSize. This is
// checked where keys are read from files.
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

// Returns whether lookups support entries of a type.
inline bool IsLookupType(uint8_t type) {
  return type <= static_cast<uint8_t>(ValueType::kMerge) ||
         type == static_cast<uint8_t>(ValueType::kSingleDeletion);
}
// Returns whether an entry of a lookup type deletes its key.
inline bool IsDeletion(ValueType type) {
  return type != ValueType::kValue && type != ValueType::kMerge;
}
// Returns the error for an unsupported type, at an offset of its block:
// NotSupported with the name of the feature that the type belongs to, or
// Corruption.
Status LookupTypeError(uint8_t type, size_t offset);

// Writes an internal key to memory of the user key's size plus kTrailerSize.
inline Slice WriteInternalKey(char* to, const Slice& user_key,
                              uint64_t trailer) {
  ShortCopy(to, user_key.data(), user_key.size());
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

// Returns "'<user key in hex>' seq:<n>, type:<n>", for messages.
std::string DescribeInternalKey(const Slice& internal_key);

// Orders internal keys by a user comparator, then by falling trailer.
class InternalKeyComparator {
 public:
  explicit InternalKeyComparator(const Comparator* user_comparator)
      : user_comparator_(user_comparator),
        bytewise_(user_comparator == BytewiseComparator()) {}

  const Comparator* user_comparator() const { return user_comparator_; }
  // Returns whether the user order is bytewise. It can then be computed inline.
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

// The key of a lookup for the newest update of a user key at or before a
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
