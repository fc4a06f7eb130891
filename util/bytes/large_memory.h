// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Memory in pieces of many pages, which is used again.
//
// An allocator returns large pieces to the system, or the end of its heap, and
// the kernel zeroes each page again when it is next touched. That is most of
// what it costs to fill memtables with large values, and to read large blocks.
// So freed pieces are kept, up to kMostKeptBytes in the process. Beyond the
// first kMostResidentBytes, the kernel may take their pages when it needs
// memory (MADV_FREE). That call would cost too much for the blocks of a cache,
// of which one is freed whenever another is allocated.
//
// Pieces have one of eight sizes between a power of two and the next one. The
// unused end of a piece is not touched. Under the address and thread sanitizers
// nothing is kept, so that they know when memory was freed.
//
// Thread-safety: thread-safe.

#include <cstddef>
#include <cstdint>

namespace varve {

// Smaller and larger pieces are left to the allocator.
inline constexpr size_t kLeastLargeBytes = size_t{64} << 10;
inline constexpr size_t kMostLargeBytes = size_t{8} << 20;
// As much as a memtable of the default size.
inline constexpr size_t kMostKeptBytes = size_t{64} << 20;
inline constexpr size_t kMostResidentBytes = size_t{8} << 20;

enum class LargeUse : uint8_t {
  kFilledLater,  // Perhaps only a part of it.
  // Fresh pages are touched by one call (Linux 5.14), which costs two thirds of
  // a page fault for each.
  kFilledNow,
};

// Allocates `bytes` bytes, aligned to a cache line, with any contents.
void* AllocateLarge(size_t bytes, LargeUse use);
// Frees memory. REQUIRES: the size is as at allocation.
void FreeLarge(void* memory, size_t bytes);

// Returns the bytes that are kept.
size_t TEST_KeptLargeBytes();

}  // namespace varve
