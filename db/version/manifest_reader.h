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

// What CURRENT and the MANIFEST say of a database.
struct ManifestState {
  uint64_t manifest_number = 0;
  // Level 0 newest first, the others in key order. Owned by the state until
  // a version takes them over.
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
  // Of the last edit: see VersionEdit.
  std::optional<SequenceNumber> logs_end;
  // The last edit was cut off; the database is as it was before it.
  bool torn_tail = false;
  std::string torn_tail_message;

  // The first log to replay.
  uint64_t FirstLogNumber() const {
    return min_log_number_to_keep > log_number ? min_log_number_to_keep
                                               : log_number;
  }

  // Whether the log of that number is replayed.
  bool ReplaysLog(uint64_t number) const {
    return number >= FirstLogNumber() ||
           (number == prev_log_number && number != 0);
  }

  // For a log before FirstLogNumber(): whether RocksDB still needs it.
  bool KeepsLog(uint64_t number) const {
    return min_log_number_to_keep != 0 && number >= min_log_number_to_keep;
  }

  ManifestState() = default;
  ManifestState(const ManifestState&) = delete;
  ManifestState& operator=(const ManifestState&) = delete;
  ~ManifestState();  // Frees files that no version has taken over.
};

// Reads CURRENT and the MANIFEST that it names. Writes nothing.
// Corruption and NotSupported name the file; InvalidArgument is another
// comparator than the database's.
Status ReadManifest(Env* env, const std::string& db_path,
                    const InternalKeyComparator& comparator,
                    ManifestState* state);

}  // namespace varve
