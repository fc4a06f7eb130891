// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "table/internal_key.h"

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

LookupKey::LookupKey(const Slice& user_key, SequenceNumber sequence)
    : size_(user_key.size() + kTrailerSize) {
  data_ = size_ <= sizeof(inline_) ? inline_ : new char[size_];
  memcpy(data_, user_key.data(), user_key.size());
  EncodeFixed64(data_ + user_key.size(), SeekTrailer(sequence));
}

}  // namespace varve
