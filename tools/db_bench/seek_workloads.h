// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// The workloads that leave deleted or overwritten entries, and
// the seeks that meet them.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "tools/db_bench/seek_database.h"
#include "util/base/random.h"

namespace varve {

struct WorkloadSize {
  // Keys or updates of the workload.
  uint64_t num = 0;
  // Keys after those of the workload.
  uint64_t live = 1000;
};

// A seek, and the key it must find.
struct SeekTarget {
  // kNoKey stands for SeekToFirst, or for SeekToLast.
  uint64_t key = kNoKey;
  bool last = false;
  // Moves after the seek.
  int nexts = 0;
  uint64_t expected = 0;
};

using SeekTargets = std::function<SeekTarget(Random*)>;

struct SeekWorkload {
  const char* name;
  const char* what;
  // Writes the entries. Without `dead` it writes only the keys that are left in
  // the end, so that the database is equal and never had the others.
  void (*make)(const WorkloadSize& size, bool dead, SeekDatabase* database);
  // Returns the source of the seeks.
  SeekTargets (*targets)(const WorkloadSize& size);
  // A write buffer of this part of the data; 0 stands for the usual one.
  uint64_t write_buffer_part = 0;
  // A write buffer that all of the data fits into.
  bool in_memory = false;
  // Bytes of a value; 0 stands for the usual ones.
  size_t value_bytes = 0;
  // The deletions were written under a snapshot that is held until
  // Engine::ReleaseSnapshot.
  bool snapshot = false;
};

const std::vector<SeekWorkload>& SeekWorkloads();

}  // namespace varve
