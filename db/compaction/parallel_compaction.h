// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Does a compaction in parts, ranges of user keys, at the same time. Each part
// is a CompactionJob; all their outputs come into the MANIFEST by one edit.
//
// Parts wait in a queue. The thread that has the compaction works through it;
// threads that the Env gives in addition take parts as well. If they come
// late, or never, nothing waits for them: so parts cannot block each other,
// however few threads there are.

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
  std::vector<uint64_t> abandoned;  // Outputs that an error has undone.
};

// On success the edit removes the inputs and adds the outputs; after an error
// the outputs are gone. See CompactionJob for the arguments. Takes no lock of
// the DB's.
Status RunCompaction(const TableOutputContext& context,
                     const Compaction& compaction, TableCache* table_cache,
                     const std::vector<SequenceNumber>& snapshots,
                     const std::function<uint64_t()>& new_file_number,
                     const std::atomic<bool>* stop, VersionEdit* edit,
                     CompactionResult* result);

// Calls work(0) to work(count - 1), each once, on this thread and on threads
// of the Env's low priority that come in time, and returns when all are done.
void RunParts(Env* env, size_t count, std::function<void(size_t)> work);

}  // namespace varve
