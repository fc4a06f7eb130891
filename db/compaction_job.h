// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <vector>

#include "db/compaction.h"
#include "db/compaction_iterator.h"
#include "db/table_output.h"
#include "db/version_edit.h"
#include "varve/status.h"

namespace varve {

// Merges the inputs of a compaction into new tables.
// Thread-safety: owned by one thread; takes no lock.
class CompactionJob {
 public:
  // `new_file_number` is thread-safe. `stop` ends the job early with
  // ShutdownInProgress. All arguments must outlive the job.
  CompactionJob(const TableOutputContext& context, const Compaction& compaction,
                TableCache* table_cache, std::vector<SequenceNumber> snapshots,
                std::function<uint64_t()> new_file_number,
                const std::atomic<bool>* stop);

  // On success the edit removes the inputs and adds the outputs. After an
  // error the outputs are gone.
  Status Run(VersionEdit* edit);

  uint64_t bytes_written() const { return bytes_written_; }
  uint64_t entries_dropped() const { return entries_dropped_; }

 private:
  std::unique_ptr<InternalIterator> NewInput() const;
  Status Merge(CompactionIterator* iterator);
  // Whether the output should end before this key.
  bool ShouldCutBefore(const Slice& user_key);
  Status FinishOutput();

  const TableOutputContext& context_;
  const Compaction& compaction_;
  TableCache* const table_cache_;
  const std::vector<SequenceNumber> snapshots_;
  const std::function<uint64_t()> new_file_number_;
  const std::atomic<bool>* const stop_;

  std::vector<std::unique_ptr<TableOutput>> outputs_;
  bool output_open_ = false;
  size_t grandparent_index_ = 0;
  uint64_t grandparent_overlap_ = 0;
  uint64_t bytes_written_ = 0;
  uint64_t entries_dropped_ = 0;
};

}  // namespace varve
