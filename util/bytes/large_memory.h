// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Memory in pieces of many pages, which is used again.
//
// An allocator returns large pieces to the system, or the end of its heap, and
// the kernel zeroes each page again when it is next touched. That is most of
// what it costs to fill memtables with large values, and to read large blocks.
// So freed pieces are kept, up to kMostKeptBytes in the process. The kernel may
// take their pages when it needs memory (MADV_FREE).
//
// Pieces have one of eight sizes between a power of two and the next one. What
// is unused at the end of a piece is not touched. Under the address and thread
// sanitizers nothing is kept, so that they know when memory was freed.
//
// Thread-safety: thread-safe.

#include <cstddef>

namespace varve {

// Smaller and larger pieces are left to the allocator.
inline constexpr size_t kLeastLargeBytes = size_t{64} << 10;
inline constexpr size_t kMostLargeBytes = size_t{8} << 20;
// As much as a memtable of the default size.
inline constexpr size_t kMostKeptBytes = size_t{64} << 20;

// Allocates `bytes` bytes, aligned to a cache line, with any contents.
void* AllocateLarge(size_t bytes);
// Frees memory. REQUIRES: the size is as at allocation.
void FreeLarge(void* memory, size_t bytes);

// Returns the bytes that are kept.
size_t TEST_KeptLargeBytes();

}  // namespace varve
