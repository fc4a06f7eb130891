// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "util/base/append_format.h"

#include <algorithm>
#include <cstdarg>
#include <cstdio>

namespace varve {

void AppendFormat(std::string* out, const char* format, ...) {
  char line[501];
  va_list arguments;
  va_start(arguments, format);
  const int length = vsnprintf(line, sizeof(line), format, arguments);
  va_end(arguments);
  if (length < 0) return;
  out->append(line, std::min(static_cast<size_t>(length), sizeof(line) - 1));
}

}  // namespace varve
