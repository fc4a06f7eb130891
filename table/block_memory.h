// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Memory for cached blocks, on huge pages where that can be had.
//
// Random reads of a large cache miss the TLB at each of their cache misses;
// with pages of 2 MiB they mostly do not. If the program is linked with
// jemalloc, blocks come from an arena of their own, whose extents are marked
// for transparent huge pages; otherwise from the allocator that there is.
// Thread-safety: thread-safe.

#include <cstddef>

namespace varve {

// `size` bytes, aligned to a cache line.
void* AllocateBlockMemory(size_t size, bool huge_pages);
// REQUIRES: the same size and choice as at allocation.
void FreeBlockMemory(void* memory, size_t size, bool huge_pages);

// Whether blocks can be put on huge pages in this process.
bool HugePagesForBlocks();

}  // namespace varve
