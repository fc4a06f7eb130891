// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "table/block/compression_property.h"

#include <cstdio>

#include "util/bytes/compression.h"

namespace varve {

namespace {

constexpr char kSeparator = ';';
constexpr char kBuiltInManager[] = "BuiltinV2";

}  // namespace

bool NamesCompression(const std::string& property, CompressionType type) {
  const size_t end = property.find(kSeparator);
  if (end == std::string::npos) return property == CompressionName(type);
  char digits[3];
  snprintf(digits, sizeof(digits), "%02X", static_cast<unsigned>(type));
  for (size_t i = end + 1;
       i + 2 <= property.size() && property[i] != kSeparator; i += 2) {
    if (property.compare(i, 2, digits) == 0) return true;
  }
  return false;
}

std::string ForeignCompressionManager(const std::string& property) {
  const size_t end = property.find(kSeparator);
  const bool has_types = end != std::string::npos &&
                         end + 1 < property.size() &&
                         property[end + 1] != kSeparator;
  if (!has_types || property.compare(0, end, kBuiltInManager) == 0) return "";
  return property.substr(0, end);
}

}  // namespace varve
