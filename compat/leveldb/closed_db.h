// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

#include <cstddef>

namespace varve::compat {

// A program that uses a DB after it deleted it, or deletes it twice, reads and
// writes freed memory in LevelDB. Here the memory of a deleted DB is kept for a
// while, with a DB in it that returns an error from every call. The memory of
// the last 1,024 deleted DBs is kept, some 40 KiB.

// The size of that DB.
inline constexpr size_t kClosedDbBytes = 2 * sizeof(void*);

// Creates that DB in the memory of a deleted one, which was allocated by
// ::operator new and has at least kClosedDbBytes bytes. Frees the memory of an
// earlier one if there are too many.
void LeaveClosedDb(void* memory);

}  // namespace varve::compat
