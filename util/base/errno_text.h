// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// The text of an errno by a call that threads may make at the same time.
// Thread-safety: thread-safe.

#include <string>

namespace varve {

// Such as "No such file or directory".
std::string ErrnoText(int error_number);

}  // namespace varve
