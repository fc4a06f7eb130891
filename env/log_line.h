// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// The lines of an info log:
//   2026/11/21-08:09:20.123456 4711 [INFO] message
// The fields are local time, the thread's number, and the level.

#include <cstdarg>
#include <cstdint>
#include <string>

#include "varve/env.h"

namespace varve {

// Returns one line for the calling thread, ended by exactly one newline.
// `time_us` is in microseconds since the epoch; `format` is printf's.
std::string FormatLogLine(LogLevel level, uint64_t time_us, const char* format,
                          va_list arguments)
    __attribute__((format(printf, 3, 0)));

}  // namespace varve
