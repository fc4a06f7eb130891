// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Parses decimal numbers in the same form in every locale. It does the work of
// std::from_chars, which not every standard library has for doubles.
// Thread-safety: thread-safe.

#include <string_view>

namespace varve {

// Returns true, and sets *value, if all of `text` is a number such as "1.5",
// "-2" or "1e6". Returns false for white space, a leading plus sign,
// hexadecimal digits, and numbers that a double cannot hold.
bool ParseDouble(std::string_view text, double* value);

}  // namespace varve
