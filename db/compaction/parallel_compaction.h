// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Runs a compaction as parallel parts. Each part is a range of user keys and a
// CompactionJob. One edit adds all their outputs to the MANIFEST.
//
// Parts wait in a queue. The thread that has the compaction works through the
// queue, and additional threads of the Env take parts as well. No part waits
// for an additional thread. So parts cannot block each other, however few
// threads there are.

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "db/compaction/compaction.h"
#include "db/compaction/compaction_iterator.h"
#include "db/compaction/table_output.h"
#include "db/version/version_edit.h"
#include "table/reader/table_cache.h"
#include "varve/env.h"
#include "varve/status.h"

namespace varve {

struct CompactionResult {
  uint64_t bytes_written = 0;
  uint64_t bytes_skipped[2] = {};  // See CompactionJob.
  uint64_t entries_read = 0;
  CompactionIterator::Drops drops;
  size_t parts = 0;
  std::vector<uint64_t> abandoned;  // Outputs removed after an error.
};

// Runs the compaction. On success the edit removes the inputs and adds the
// outputs. After an error the outputs are removed. See CompactionJob for the
// arguments. Takes no lock of the DB.
Status RunCompaction(const TableOutputContext& context,
                     const Compaction& compaction, TableCache* table_cache,
                     const std::vector<SequenceNumber>& snapshots,
                     const std::function<uint64_t()>& new_file_number,
                     const std::atomic<bool>* stop, VersionEdit* edit,
                     CompactionResult* result);

// Calls work(0) to work(count - 1) once each, and returns when all are done.
// The calls run on this thread and on threads of the Env's medium priority that
// are free in time.
void RunParts(Env* env, size_t count, std::function<void(size_t)> work);

}  // namespace varve
