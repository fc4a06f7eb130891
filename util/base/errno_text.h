// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// A thread-safe strerror.
// Thread-safety: thread-safe.

#include <string>

namespace varve {

// Returns a text such as "No such file or directory".
std::string ErrnoText(int error_number);

}  // namespace varve
