// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Reports of the memory that util/threads/memory_account.h accounts for. They
// cover the whole process, since a block cache may serve several databases.
// They count the arenas and point indexes of memtables (the latter at their
// mapped size, even if untouched), the blocks, indexes and filters of tables,
// the arenas of iterators and MultiGets, in use or kept, and batches of
// updates.
//
// Sums are exact when no thread allocates or frees. During changes, each sum is
// between its old and its new value.
// Thread-safety: thread-safe.

#include <cstdint>
#include <string>
#include <vector>

#include "util/threads/memory_account.h"

namespace varve {

// Returns a name such as "memtable".
const char* MemoryKindName(MemoryKind kind);

struct ThreadMemory {
  std::string name;
  int64_t id = 0;      // The system's; 0 for the shared account.
  bool ended = false;  // Only memory of the thread remains.
  MemoryCounts kinds[kMemoryKinds];

  uint64_t live() const;
};

// Returns an entry for each thread that has allocated, if it or its memory
// still lives. The first entry has the counts of the ablation
// memory_accounting=atomic.
std::vector<ThreadMemory> MemoryByThread();

// Fills an array of kMemoryKinds, by MemoryKind. Includes the allocations of
// past threads, all of which are freed. The thread that freed them is no longer
// known, so they count as `freed`.
void MemoryByKind(MemoryCounts* kinds);

// Returns tables of these counts: properties varve.memory and
// varve.memory-by-thread.
std::string DescribeMemory();
std::string DescribeMemoryByThread();

// Returns the bytes ever accounted for atomically, or by thread.
uint64_t AccountedBytes(bool atomically);

}  // namespace varve
