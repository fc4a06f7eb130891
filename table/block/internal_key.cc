// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "table/block/internal_key.h"

#include <cstring>

namespace varve {

std::string DescribeInternalKey(const Slice& internal_key) {
  if (internal_key.size() < kTrailerSize) {
    return "'" + internal_key.ToString(/*hex=*/true) + "' without a trailer";
  }
  std::string result = "'";
  result += ExtractUserKey(internal_key).ToString(/*hex=*/true);
  result += "' seq:";
  result += std::to_string(ExtractSequence(internal_key));
  result += ", type:";
  result += std::to_string(ExtractTrailer(internal_key) & 0xFF);
  return result;
}

Status LookupTypeError(uint8_t type, size_t offset) {
  const char* feature = nullptr;
  switch (static_cast<ValueType>(type)) {
    case ValueType::kDeletion:
    case ValueType::kValue:
    case ValueType::kMerge:
    case ValueType::kSingleDeletion:
      return Status();
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
    return Status::Corruption(
        "entry at byte " + std::to_string(offset) + " of the block",
        "unknown value type " + number);
  }
  return Status::NotSupported(feature, "value type " + number);
}

LookupKey::LookupKey(const Slice& user_key, SequenceNumber sequence)
    : size_(user_key.size() + kTrailerSize) {
  data_ = size_ <= sizeof(inline_) ? inline_ : new char[size_];
  if (!user_key.empty()) memcpy(data_, user_key.data(), user_key.size());
  EncodeFixed64(data_ + user_key.size(), SeekTrailer(sequence));
}

}  // namespace varve
