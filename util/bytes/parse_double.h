// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Decimal numbers as text, in the same form in every locale: what
// std::from_chars does, which not every standard library has for doubles.
// Thread-safety: thread-safe.

#include <string_view>

namespace varve {

// True, and *value set, if all of `text` is a number such as "1.5", "-2" or
// "1e6". False for white space, a plus sign in front, hexadecimal digits, and
// what a double cannot hold.
bool ParseDouble(std::string_view text, double* value);

}  // namespace varve
