// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

#include <string>

namespace varve {

// Appends the text that printf would print. Meant for reports: a line of more
// than 500 bytes is truncated.
// Thread-safety: thread-safe.
void AppendFormat(std::string* out, const char* format, ...)
    __attribute__((format(printf, 2, 3)));

}  // namespace varve
