// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// The statistics of another process, read from its memory. That process
// executes nothing for it; see monitoring/published_statistics.h.

#include <cstdint>
#include <memory>
#include <vector>

#include "monitoring/published_memory.h"
#include "monitoring/statistics.h"
#include "util/threads/memory_account.h"
#include "varve/status.h"

namespace varve {

// Thread-safety: thread-compatible.
class ForeignStatistics {
 public:
  explicit ForeignStatistics(uint64_t pid) : pid_(pid) {}

  // Reads the counters of all Statistics of the process, as one sum, and the
  // memory of all its databases.
  //
  // Errors: NotFound if the process does not publish them: it has ended, has no
  // statistics, or is of an older version. NotSupported if it is of another
  // version than this program. IOError if the system does not allow it.
  Status Read();

  // The counters since the start of the process, and since the Read before the
  // last one. REQUIRES: Read has returned OK.
  std::unique_ptr<StatisticsImpl> Total() const;
  std::unique_ptr<StatisticsImpl> SinceLast() const;
  // The number of Statistics objects in the sum.
  size_t count() const { return count_; }
  // The bytes of that kind. Exact if the process neither allocates nor frees.
  uint64_t memory_bytes(MemoryKind kind) const {
    return memory_bytes_[static_cast<size_t>(kind)];
  }

 private:
  using Cells = std::vector<uint64_t>;

  // Copies memory of the process. Returns false with errno set.
  bool Copy(uint64_t address, void* to, size_t bytes) const;
  // Adds one set. Reads of a histogram only the buckets that were used.
  bool AddSet(uint64_t address, Cells* sum) const;

  // Adds up the accounts of memory. Returns false with errno set.
  bool ReadMemory(const PublishedMemory& memory);

  const uint64_t pid_;
  uint64_t page_ = 0;  // Its address in the process. 0: not known.
  size_t count_ = 0;
  uint64_t memory_bytes_[kMemoryKinds] = {};
  Cells now_;
  Cells before_;
};

}  // namespace varve
