// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Memory for cached blocks, on huge pages where that can be had.
//
// Random reads of a large cache miss the TLB at each of their cache misses;
// with pages of 2 MiB they mostly do not. So blocks of large caches lie in
// chunks of one huge page each, asked for with madvise; every chunk holds
// places of one size, in steps so small that little is lost to rounding: a
// general allocator has the next size above 4 KiB, where most blocks are, at
// 5 KiB. A chunk goes back to the system when the last block in it goes.
//
// Thread-safety: thread-safe.

#include <cstddef>

namespace varve {

// `size` bytes, aligned to a cache line; with `huge_pages`, from a chunk,
// unless it is too large for that. Under the address and thread sanitizers
// the allocator gives all memory, so that they see its ends.
void* AllocateBlockMemory(size_t size, bool huge_pages);
// REQUIRES: the same size and choice as at allocation.
void FreeBlockMemory(void* memory, size_t size, bool huge_pages);

// Of all chunks of the process, most of it in use.
size_t TEST_BlockChunkBytes();

}  // namespace varve
