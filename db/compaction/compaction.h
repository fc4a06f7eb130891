// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

#include <cstdint>
#include <memory>
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

// What a compaction reads and where it writes to. Made by the picker.
struct Compaction {
  int level = 0;
  int output_level = 1;
  // Files of `level` and of `output_level` (empty if they are the same).
  std::vector<FileMetaData*> inputs[2];
  // Files of the level below the output's that overlap it.
  std::vector<FileMetaData*> grandparents;
  // Bytes at which an output file is cut.
  uint64_t max_output_file_size = 0;
  // Bytes of grandparents that an output file may overlap.
  uint64_t max_grandparent_overlap = 0;
  CompressionType compression = CompressionType::kNone;  // Of the outputs.
  // Parts that may be done at the same time.
  int max_parts = 1;
  const char* reason = "";
  bool for_space = false;  // The reason is what deletions hide.
  // A reference is held while the compaction runs.
  Version* version = nullptr;
  // No level below the output's holds a key of the inputs' range.
  bool bottommost = false;
  // Moving the input files to the output level does it all.
  bool trivial_move = false;

  uint64_t InputBytes() const {
    return TotalFileSize(inputs[0]) + TotalFileSize(inputs[1]);
  }
  // Adds the end of the inputs to the edit.
  void RemoveInputs(VersionEdit* edit) const {
    for (int i = 0; i < 2; ++i) {
      for (const FileMetaData* file : inputs[i]) {
        edit->RemoveFile(i == 0 ? level : output_level, file->number);
      }
    }
  }
  // Every input's mark in FileMetaData. DB mutex held.
  void MarkFilesLocked(bool being_compacted) const {
    for (const auto& files : inputs) {
      for (FileMetaData* file : files) file->being_compacted = being_compacted;
    }
  }
  // The least of the inputs' that is known; 0 if none is.
  uint64_t OldestAncestorTime() const;
  // The user keys of the inputs, which must not be empty.
  KeySpan KeyRange() const;
};

}  // namespace varve
