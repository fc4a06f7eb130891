// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Ablation table_open=uncached: opens a file without cached knowledge. For each
// file, separate calls set the flags and query the size, and the path to the
// device is walked in sysfs to read its block size. This is the cost of an open
// in engines that ask each time. See docs/table_open.md.
// Thread-safety: thread-safe.

#include <cstddef>

#include "env/posix_file.h"
#include "varve/status.h"

namespace varve {

// Sets *descriptor, which the caller closes, and *alignment: the block size of
// the file's device, or 4096 if that is unknown.
Status OpenUncached(const FilePlace& place, bool direct, int* descriptor,
                    size_t* alignment);

}  // namespace varve
