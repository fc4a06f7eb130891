// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "db/version/version.h"

namespace varve {

// The user keys of some files.
struct KeySpan {
  Slice smallest;
  Slice largest;
  bool end_is_exclusive = false;  // `largest` itself is not one.

  // Valid as long as this.
  UserKeyRange range() const { return {&smallest, &largest, end_is_exclusive}; }
};

// Returns the span of user keys of the files in the lists. REQUIRES: there are
// files.
KeySpan SpanOf(const InternalKeyComparator& comparator,
               std::span<const std::vector<FileMetaData*>> lists);

bool AnyBeingCompacted(const std::vector<FileMetaData*>& files);

// The inputs and the output of a compaction. Created by a CompactionPolicy.
struct Compaction {
  int level = 0;
  int output_level = 1;
  // Files of `level` and of `output_level` (empty if they are the same).
  std::vector<FileMetaData*> inputs[2];
  // Tables of level 0 that are older than the inputs. Only for a compaction
  // whose output is in level 0, too.
  std::vector<FileMetaData*> older;
  // Files of the level below the output's that overlap it.
  std::vector<FileMetaData*> grandparents;
  // The output is split at this many bytes.
  uint64_t max_output_file_size = 0;
  // Bytes of grandparents that an output file may overlap.
  uint64_t max_grandparent_overlap = 0;
  CompressionType compression = CompressionType::kNone;  // For the outputs.
  // Parts that may run in parallel.
  int max_parts = 1;
  const char* reason = "";
  bool is_manual = false;  // A part of DB::CompactRange.
  bool for_space = false;  // Picked to reclaim space.
  // Picked because readers walk over the dead entries in it.
  bool for_readers = false;
  // A reference is held while the compaction runs.
  Version* version = nullptr;
  // No level below the output's, and none of `older`, holds a key of the
  // inputs' range.
  bool bottommost = false;
  // The input files have no user key in common with each other, nor with the
  // output level.
  bool can_move = false;
  // The input files move to the output level without a rewrite.
  bool trivial_move = false;
  // The debt of compactions that this one removes. See CompactionPolicy.
  double relief_bytes = 0;
  // Bytes written to outputs so far. Null if nobody needs them.
  std::shared_ptr<std::atomic<uint64_t>> progress_bytes;

  // Returns the part of the work that is done, in [0, 1].
  double Progress() const {
    const uint64_t bytes = InputBytes();
    if (progress_bytes == nullptr || bytes == 0) return 0;
    // relaxed: used only for an estimate.
    const uint64_t done = progress_bytes->load(std::memory_order_relaxed);
    return done >= bytes
               ? 1
               : static_cast<double>(done) / static_cast<double>(bytes);
  }

  uint64_t InputBytes() const {
    return TotalFileSize(inputs[0]) + TotalFileSize(inputs[1]);
  }
  // Returns true if all tables of the version are inputs.
  bool IsFull() const {
    size_t files = 0;
    for (const auto& level_files : version->levels()) {
      files += level_files.size();
    }
    return files == inputs[0].size() + inputs[1].size();
  }
  // Adds the removal of the inputs to the edit.
  void RemoveInputs(VersionEdit* edit) const {
    for (int i = 0; i < 2; ++i) {
      for (const FileMetaData* file : inputs[i]) {
        edit->RemoveFile(i == 0 ? level : output_level, file->number);
      }
    }
  }
  // Sets being_compacted of every input.
  void MarkFilesLocked(bool being_compacted) const {
    for (const auto& files : inputs) {
      for (FileMetaData* file : files) file->being_compacted = being_compacted;
    }
  }
  // Returns the earliest known ancestor time of the inputs, or 0 if none is
  // known. See TableTimes.
  uint64_t OldestAncestorTime() const;
  // Returns the span of user keys of the inputs. REQUIRES: there are inputs.
  KeySpan KeyRange() const { return SpanOf(version->comparator(), inputs); }
  // Returns how many more bytes a compaction for space rewrote than it freed.
  // This happens, for example, when the deleted keys did not exist. Bytes that
  // its outputs promise to free in deeper levels count as freed. The next
  // compaction shows whether they were.
  uint64_t RewrittenInVain(uint64_t output_bytes,
                           uint64_t reclaimable_bytes) const;
};

}  // namespace varve
