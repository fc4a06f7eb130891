// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "util/base/errno_text.h"

#include <cstring>

namespace varve {

namespace {

// C libraries have one of two functions named strerror_r. glibc's returns the
// text, which may be a constant instead of the buffer. POSIX's, as in musl,
// fills the buffer and returns 0 or an error.
[[maybe_unused]] const char* TextOf(const char* text, const char* /*buffer*/) {
  return text;
}
[[maybe_unused]] const char* TextOf(int error, const char* buffer) {
  return error == 0 ? buffer : "unknown error";
}

}  // namespace

std::string ErrnoText(int error_number) {
  char buffer[128] = "";
  return TextOf(strerror_r(error_number, buffer, sizeof(buffer)), buffer);
}

}  // namespace varve
