// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Memory for cached blocks, on huge pages if available.
//
// Random reads of a large cache miss the TLB at each of their cache misses.
// With pages of 2 MiB they mostly do not. So blocks of large caches are
// allocated in chunks of one huge page each, requested with madvise. A chunk
// holds places of one size. The sizes have small steps, so little is lost to
// rounding. A general allocator has 5 KiB as the next size above 4 KiB, where
// most blocks are. A chunk is returned to the system when its last block is
// freed.
//
// Thread-safety: thread-safe.

#include <cstddef>

namespace varve {

// Allocates `size` bytes, aligned to a cache line. With `huge_pages` they come
// from a chunk, unless they are too large for one. Under the address and thread
// sanitizers all memory comes from the allocator, so that the sanitizers know
// its bounds.
void* AllocateBlockMemory(size_t size, bool huge_pages);
// Frees memory. REQUIRES: the size and the choice are as at allocation.
void FreeBlockMemory(void* memory, size_t size, bool huge_pages);

// Returns the bytes of all chunks of the process. Most of them are in use.
size_t TEST_BlockChunkBytes();

}  // namespace varve
