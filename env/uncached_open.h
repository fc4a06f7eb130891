// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Ablation table_open=uncached: a file opened as if nothing were known of it.
// For each one, flags are set by calls of their own, the size is asked for,
// and the way to the device is walked in sysfs to read its block size. This is
// what an open costs in engines that ask each time; see docs/table_open.md.
// Thread-safety: thread-safe.

#include <cstddef>

#include "env/posix_file.h"
#include "varve/status.h"

namespace varve {

// Sets *descriptor, which the caller closes, and *alignment: the block size of
// the device that the file is on; 4096 where that cannot be found out.
Status OpenUncached(const FilePlace& place, bool direct, int* descriptor,
                    size_t* alignment);

}  // namespace varve
