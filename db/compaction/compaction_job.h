// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "db/compaction/compaction.h"
#include "db/compaction/compaction_iterator.h"
#include "db/compaction/surviving_range_tombstones.h"
#include "db/compaction/table_output.h"
#include "db/filter/job_filter.h"
#include "db/version/version_edit.h"
#include "varve/status.h"

namespace varve {

// Merges the inputs of a compaction, or one range of them, into new tables.
// Thread-safety: owned by one thread; takes no lock.
class CompactionJob {
 public:
  // `new_file_number` must be thread-safe. `stop` ends the job early with
  // ShutdownInProgress. All arguments must outlive the job.
  CompactionJob(const TableOutputContext& context, const Compaction& compaction,
                TableCache* table_cache, std::vector<SequenceNumber> snapshots,
                std::function<uint64_t()> new_file_number,
                const std::atomic<bool>* stop);

  // Determines which inputs must be read. Run calls it if it was not called.
  Status Prepare();
  // Returns the inputs that must be read. 0 is the upper level, 1 the output
  // level. REQUIRES: Prepare succeeded.
  const std::vector<FileMetaData*>& read_inputs(int i) const {
    return read_inputs_[i];
  }

  // Restricts the job to user keys at or after *begin and before *end. Null
  // means no bound. REQUIRES: Run was not called. Both must outlive the job.
  void SetRange(const std::string* begin, const std::string* end) {
    begin_ = begin;
    end_ = end;
  }

  // Sets the number of jobs that run in parallel on the compaction, including
  // this one. They share the readahead memory. Default: 1.
  void SetParts(size_t parts) { parts_ = parts; }

  // Runs the job. On success the outputs are complete and durable except for
  // their directory entries. After an error they are removed.
  Status Run();
  // Adds the outputs to the edit. REQUIRES: Run succeeded.
  void AddOutputs(VersionEdit* edit) const;
  // Removes the outputs. abandoned() then returns their numbers.
  void Abandon();
  const std::vector<uint64_t>& abandoned() const { return abandoned_; }

  uint64_t bytes_written() const { return bytes_written_; }
  // Returns the bytes of input files that were not read because range deletions
  // hide all their entries. 0 is the upper level, 1 the output level.
  uint64_t bytes_skipped(int i) const { return bytes_skipped_[i]; }
  uint64_t entries_read() const { return entries_read_; }
  // Returns true if a filter had entries skipped, which were not read.
  bool skipped_input() const { return skipped_input_; }
  const CompactionIterator::Drops& drops() const { return drops_; }

 private:
  std::unique_ptr<InternalIterator> NewInput() const;
  std::unique_ptr<JobFilter> NewFilter() const;
  // Returns false if older entries than all tables' may be ingested later.
  bool DropsDeletions() const { return !context_.options->allow_ingest_behind; }
  // Sets tombstones_ and surviving_tombstones_.
  Status CollectRangeTombstones();
  // Returns true if range deletions hide the whole file from all readers.
  bool IsHidden(const FileMetaData& file) const;
  Status Merge(CompactionIterator* iterator);
  // Opens the next output.
  Status OpenOutput();
  // Advances through the grandparents and counts the bytes passed. Returns true
  // if any was passed.
  bool PassGrandparents(const Slice& user_key);
  // Returns true if the output should end before this key.
  bool ShouldCutBefore(const Slice& user_key);
  // Adds what was written since the last call to Compaction::progress_bytes.
  void ReportProgress();
  // Finishes the output. `end` is the first user key after it.
  Status FinishOutput(const std::optional<Slice>& end);

  const TableOutputContext& context_;
  const Compaction& compaction_;
  TableCache* const table_cache_;
  const std::vector<SequenceNumber> snapshots_;
  const std::function<uint64_t()> new_file_number_;
  const std::atomic<bool>* const stop_;
  const std::string* begin_ = nullptr;
  const std::string* end_ = nullptr;
  size_t parts_ = 1;

  std::vector<std::unique_ptr<TableOutput>> outputs_;
  bool output_open_ = false;
  std::vector<uint64_t> abandoned_;
  std::shared_ptr<const RangeTombstoneSet> tombstones_;  // Null: none.
  std::optional<SurvivingRangeTombstones> surviving_tombstones_;
  bool prepared_ = false;
  std::vector<FileMetaData*> read_inputs_[2];
  // The lower bound of the open or the next output, if it has one.
  std::optional<std::string> output_begin_;
  size_t grandparent_index_ = 0;
  uint64_t grandparent_overlap_ = 0;
  uint64_t bytes_written_ = 0;
  uint64_t reported_bytes_ = 0;
  uint64_t bytes_skipped_[2] = {};
  uint64_t entries_read_ = 0;
  bool skipped_input_ = false;
  CompactionIterator::Drops drops_;
};

}  // namespace varve
