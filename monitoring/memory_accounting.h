// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Reports of the memory that util/threads/memory_account.h keeps account of, of
// the whole process: a block cache may serve several databases. Counted are the
// arenas and point indexes of memtables (the latter as they are mapped, whether
// touched or not), blocks, indexes and filters of tables, the contexts that
// iterators and MultiGets lie in, in use or kept, and batches of updates.
//
// Sums are exact when all threads rest; meanwhile each of them is between what
// it was and what it is going to be.
// Thread-safety: thread-safe.

#include <cstdint>
#include <string>
#include <vector>

#include "util/threads/memory_account.h"

namespace varve {

// Such as "memtable".
const char* MemoryKindName(MemoryKind kind);

struct ThreadMemory {
  std::string name;
  int64_t id = 0;      // The system's; 0 of the shared account.
  bool ended = false;  // The thread has; some of its memory lives.
  MemoryCounts kinds[kMemoryKinds];

  uint64_t live() const;
};

// Of all threads that have allocated and still live, or whose memory does; the
// first is what was counted with the ablation memory_accounting=atomic.
std::vector<ThreadMemory> MemoryByThread();

// By MemoryKind, in an array of kMemoryKinds. Includes what past threads
// allocated, all of which is freed; by whom, is not known any more and counted
// as `freed`.
void MemoryByKind(MemoryCounts* kinds);

// Tables of these; properties varve.memory and varve.memory-by-thread.
std::string DescribeMemory();
std::string DescribeMemoryByThread();

// Bytes ever accounted for in the one way or the other.
uint64_t AccountedBytes(bool atomically);

}  // namespace varve
