// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "db/version/version_edit.h"
#include "table/block/internal_key.h"
#include "varve/env.h"
#include "varve/status.h"

namespace varve {

// The state of a database, as read from CURRENT and the MANIFEST.
struct ManifestState {
  uint64_t manifest_number = 0;
  // Level 0 is sorted newest first, the other levels by key. The state owns the
  // files until a version takes them over.
  std::vector<FileMetaData*> levels[kNumLevels];
  uint64_t log_number = 0;
  uint64_t prev_log_number = 0;
  uint64_t min_log_number_to_keep = 0;
  uint64_t next_file_number = 0;
  SequenceNumber last_sequence = 0;
  uint32_t max_column_family = 0;
  std::string db_id;
  // See VersionEdit.
  std::string key_folding;
  bool logs_are_files = false;  // See VersionEdit.
  // The value in the last edit. See VersionEdit.
  std::optional<SequenceNumber> logs_end;
  // The last edit was truncated. The state is the one before that edit.
  bool torn_tail = false;
  std::string torn_tail_message;

  // Returns the number of the first log to replay.
  uint64_t FirstLogNumber() const {
    return min_log_number_to_keep > log_number ? min_log_number_to_keep
                                               : log_number;
  }

  // Returns whether the log of that number is replayed.
  bool ReplaysLog(uint64_t number) const {
    return number >= FirstLogNumber() ||
           (number == prev_log_number && number != 0);
  }

  // Returns whether RocksDB still needs a log before the first one to replay.
  bool KeepsLog(uint64_t number) const {
    return min_log_number_to_keep != 0 && number >= min_log_number_to_keep;
  }

  ManifestState() = default;
  ManifestState(const ManifestState&) = delete;
  ManifestState& operator=(const ManifestState&) = delete;
  ~ManifestState();  // Frees files that no version has taken over.
};

// Reads CURRENT and the MANIFEST that it names. Writes nothing. Returns
// Corruption or NotSupported, with the file's name. Returns InvalidArgument if
// the comparator is not the database's.
Status ReadManifest(Env* env, const std::string& db_path,
                    const InternalKeyComparator& comparator,
                    ManifestState* state);

}  // namespace varve
