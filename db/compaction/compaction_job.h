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
#include "db/version/version_edit.h"
#include "varve/status.h"

namespace varve {

// Merges the inputs of a compaction, or one range of them, into new tables.
// Thread-safety: owned by one thread; takes no lock.
class CompactionJob {
 public:
  // `new_file_number` is thread-safe. `stop` ends the job early with
  // ShutdownInProgress. All arguments must outlive the job.
  CompactionJob(const TableOutputContext& context, const Compaction& compaction,
                TableCache* table_cache, std::vector<SequenceNumber> snapshots,
                std::function<uint64_t()> new_file_number,
                const std::atomic<bool>* stop);

  // Finds out which inputs are to be read. Run does it if nobody has.
  Status Prepare();
  // After Prepare: of the inputs of either level.
  const std::vector<FileMetaData*>& read_inputs(int i) const {
    return read_inputs_[i];
  }

  // Only user keys from *begin on and before *end; null for no bound. To be
  // called before Run. Both must outlive the job.
  void SetRange(const std::string* begin, const std::string* end) {
    begin_ = begin;
    end_ = end;
  }

  // Sets how many jobs work on the compaction at the same time, this one among
  // them: they share the memory for reading ahead. Default: 1.
  void SetParts(size_t parts) { parts_ = parts; }

  // On success the outputs are whole, and safe but for their directory
  // entries. After an error they are gone.
  Status Run();
  // Adds the outputs. After a Run that succeeded.
  void AddOutputs(VersionEdit* edit) const;
  // Removes the outputs, of which `abandoned` has the numbers then.
  void Abandon();
  const std::vector<uint64_t>& abandoned() const { return abandoned_; }

  uint64_t bytes_written() const { return bytes_written_; }
  // Of the inputs of either level, bytes of files that were not read since a
  // range deletion hides all that is in them.
  uint64_t bytes_skipped(int i) const { return bytes_skipped_[i]; }
  uint64_t entries_read() const { return entries_read_; }
  const CompactionIterator::Drops& drops() const { return drops_; }

 private:
  std::unique_ptr<InternalIterator> NewInput() const;
  // Into tombstones_ and surviving_tombstones_.
  Status CollectRangeTombstones();
  // Whether one range deletion or several hide all of the file, from all who
  // may read.
  bool IsHidden(const FileMetaData& file) const;
  Status Merge(CompactionIterator* iterator);
  // Begins an output.
  Status OpenOutput();
  // Moves on among the grandparents, and counts those passed.
  void PassGrandparents(const Slice& user_key);
  // Whether the output should end before this key.
  bool ShouldCutBefore(const Slice& user_key);
  // `end` is the first user key that is no more the output's.
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
  // The first user key that is the open or the next output's, if there is a
  // bound.
  std::optional<std::string> output_begin_;
  size_t grandparent_index_ = 0;
  uint64_t grandparent_overlap_ = 0;
  uint64_t bytes_written_ = 0;
  uint64_t bytes_skipped_[2] = {};
  uint64_t entries_read_ = 0;
  CompactionIterator::Drops drops_;
};

}  // namespace varve
