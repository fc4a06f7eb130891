// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "util/bytes/parse_double.h"

#include <locale.h>
#include <stdlib.h>

#include <cmath>
#include <string>

#include "util/base/process_wide.h"

namespace varve {

namespace {

struct PlainLocale {
  PlainLocale() : locale(newlocale(LC_ALL_MASK, "C", nullptr)) {}
  ~PlainLocale() {
    if (locale != nullptr) freelocale(locale);
  }
  PlainLocale(const PlainLocale&) = delete;
  PlainLocale& operator=(const PlainLocale&) = delete;

  const locale_t locale;  // Null if there is no memory for it.
};

}  // namespace

bool ParseDouble(std::string_view text, double* value) {
  constexpr std::string_view kCharacters = "0123456789.eE+-";
  if (text.empty() || text.front() == '+' ||
      text.find_first_not_of(kCharacters) != std::string_view::npos) {
    return false;
  }
  static constinit ProcessWide<PlainLocale> process_plain;
  const locale_t plain = process_plain.Get().locale;
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
