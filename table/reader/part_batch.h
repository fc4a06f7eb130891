// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Reads many parts that are not in memory (table_parts.h), of any tables of one
// database, in one submission. The filter and the index of a part are read
// together, wherever they are in the file. Verification, the cache and errors
// are as in TableParts::Get.
//
// Add the parts, then call Read, then take them. Clear begins a new batch.
// Thread-safety: owned by one thread, inside one read-side critical section
// from the first Add to the last use of a part.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "table/reader/read_batch.h"
#include "table/reader/table_parts.h"
#include "varve/env.h"
#include "varve/status.h"

namespace varve {

class PartBatch {
 public:
  enum class Added : uint8_t {
    kAdded,
    kFull,     // No space until the next Clear.
    kRefused,  // Too large for a batch.
  };

  void Clear();
  bool empty() const { return parts_.empty(); }

  // Adds part i of a table, which must outlive the batch. kAdded sets *index to
  // the argument for Take; repeated additions of a part get the same index. A
  // part that is in memory after all needs no read.
  Added Add(const TableParts& table, size_t i, size_t* index);

  // Reads the parts. Each is verified, and put into the cache, while others are
  // still being read.
  void Read(Env* env);

  // Returns a part after Read. It is valid until the section ends.
  const Status& Take(size_t index, const Table** part) const {
    *part = parts_[index].part;
    return parts_[index].status;
  }

 private:
  struct Waiting {
    const TableParts* table;
    size_t i;
    TableParts::Ranges ranges;
    size_t first_read;  // The others follow.
    size_t missing;     // Ranges that have not arrived.
    Status status;
    const Table* part = nullptr;
  };

  void Finish(Waiting* waiting) const;

  std::vector<Waiting> parts_;
  ReadBatch reads_;
  std::vector<size_t> owners_;  // The part of each read.
};

}  // namespace varve
