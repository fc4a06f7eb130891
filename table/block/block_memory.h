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
// The kernel zeroes a huge page when it is first touched. That takes 0.2 ms,
// and several milliseconds in a virtual machine whose host has to find the
// memory. No read should wait for it, so a background thread touches chunks in
// advance and keeps kReadyChunks of them. If none is ready, the next chunk has
// pages of the usual size, of which each is zeroed when a block is put there.
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

// Chunks that are kept ready, once a block was allocated in a chunk.
inline constexpr size_t kReadyChunks = 2;

// Returns the bytes of all chunks of the process, without the ready ones. Most
// of them are in use.
size_t TEST_BlockChunkBytes();
// Returns how many chunks are ready, after the background thread has finished.
size_t TEST_WaitForReadyChunks();

}  // namespace varve
