// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "util/bytes/parse_double.h"

#include <locale.h>
#include <stdlib.h>

#include <cmath>
#include <string>

namespace varve {

bool ParseDouble(std::string_view text, double* value) {
  constexpr std::string_view kCharacters = "0123456789.eE+-";
  if (text.empty() || text.front() == '+' ||
      text.find_first_not_of(kCharacters) != std::string_view::npos) {
    return false;
  }
  // Null if there is no memory for it. Never freed.
  static const locale_t plain = newlocale(LC_ALL_MASK, "C", nullptr);
  if (plain == nullptr) return false;
  const std::string terminated(text);
  char* end = nullptr;
  const double number = strtod_l(terminated.c_str(), &end, plain);
  if (end != terminated.c_str() + terminated.size()) return false;
  if (!std::isfinite(number)) return false;
  *value = number;
  return true;
}

}  // namespace varve
