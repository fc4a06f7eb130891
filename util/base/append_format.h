// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

#include <string>

namespace varve {

// Appends what printf would print. A line of more than 500 bytes is cut there:
// for reports, whose lines are short.
// Thread-safety: thread-safe.
void AppendFormat(std::string* out, const char* format, ...)
    __attribute__((format(printf, 2, 3)));

}  // namespace varve
