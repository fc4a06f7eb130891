// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "varve/slice.h"

namespace varve {

std::string Slice::ToString(bool hex) const {
  if (!hex) return std::string(data_, size_);
  static constexpr char kDigits[] = "0123456789ABCDEF";
  std::string result;
  result.reserve(size_ * 2);
  for (const char c : ToStringView()) {
    const auto byte = static_cast<unsigned char>(c);
    result.push_back(kDigits[byte >> 4]);
    result.push_back(kDigits[byte & 15]);
  }
  return result;
}

}  // namespace varve
