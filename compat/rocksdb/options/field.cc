// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "compat/rocksdb/options/field.h"

#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <optional>
#include <system_error>
#include <type_traits>

#include "compat/rocksdb/options/enum_names.h"

namespace varve::rocksdb_c {
namespace {

// Parses a decimal number with an optional unit: 64M is 64 << 20.
template <typename Number>
bool ParseNumber(const std::string& text, Number* value) {
  if constexpr (std::is_unsigned_v<Number>) {
    // RocksDB counts down from the maximum.
    std::make_signed_t<Number> negative;
    if (text.starts_with('-')) {
      if (!ParseNumber(text, &negative)) return false;
      *value = static_cast<Number>(negative);
      return true;
    }
  }
  const char* const end = text.data() + text.size();
  Number number;
  const auto [rest, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc()) return false;
  constexpr char kUnits[] = "kKmMgGtT";
  int shift = 0;
  if (end - rest == 1) {
    for (int i = 0; kUnits[i] != '\0'; ++i) {
      if (*rest == kUnits[i]) shift = 10 * (i / 2 + 1);
    }
  }
  if (rest + (shift > 0 ? 1 : 0) != end) return false;
  if (shift > 0 && number != 0 &&
      (shift >= std::numeric_limits<Number>::digits || number < 0 ||
       number > std::numeric_limits<Number>::max() >> shift)) {
    return false;
  }
  *value = number == 0 ? number : static_cast<Number>(number << shift);
  return true;
}

}  // namespace

std::string ToFieldText(unsigned char value) { return std::to_string(value); }
std::string ToFieldText(int value) { return std::to_string(value); }
std::string ToFieldText(unsigned int value) { return std::to_string(value); }
// NOLINTNEXTLINE(google-runtime-int)
std::string ToFieldText(long value) { return std::to_string(value); }
// NOLINTNEXTLINE(google-runtime-int)
std::string ToFieldText(unsigned long value) { return std::to_string(value); }
std::string ToFieldText(double value) { return std::to_string(value); }
std::string ToFieldText(const std::string& value) { return value; }

bool ParseField(const std::string& text, unsigned char* value) {
  if (text == "true" || text == "false") {
    *value = text == "true";
    return true;
  }
  int number;
  if (!ParseNumber(text, &number) || number < 0 || number > 255) return false;
  *value = static_cast<unsigned char>(number);
  return true;
}

bool ParseField(const std::string& text, int* value) {
  if (const std::optional<int> number = EnumeratorOf(text)) {
    *value = *number;
    return true;
  }
  if (text == "true" || text == "false") {
    *value = text == "true" ? 1 : 0;
    return true;
  }
  // An unsigned number of RocksDB can be an int in its C interface.
  int64_t number;
  if (!ParseNumber(text, &number) || number < INT32_MIN ||
      number > UINT32_MAX) {
    return false;
  }
  *value = static_cast<int>(number);
  return true;
}

bool ParseField(const std::string& text, unsigned int* value) {
  return ParseNumber(text, value);
}

// NOLINTNEXTLINE(google-runtime-int)
bool ParseField(const std::string& text, long* value) {
  return ParseNumber(text, value);
}

// NOLINTNEXTLINE(google-runtime-int)
bool ParseField(const std::string& text, unsigned long* value) {
  return ParseNumber(text, value);
}

bool ParseField(const std::string& text, double* value) {
  if (text.empty()) return false;
  char* end;
  const double number = strtod(text.c_str(), &end);
  if (end != text.c_str() + text.size()) return false;
  *value = number;
  return true;
}

bool ParseField(const std::string& text, std::string* value) {
  *value = text;
  return true;
}

}  // namespace varve::rocksdb_c
