// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "db/version/version_edit.h"
#include "env/file_names.h"
#include "varve/env.h"
#include "varve/status.h"

namespace varve {

// The content of a MANIFEST from which edits may be lost. A repair can do
// without it, but would then bring back deleted entries.
struct BestEffortManifest {
  // Tables that an edit added and no later edit removed.
  std::map<uint64_t, FileMetaData> tables;
  // Tables that an edit removed. Other tables have their live entries.
  std::set<uint64_t> removed;
  uint64_t first_log_number = 0;  // Updates of logs before it are in tables.
  uint64_t prev_log_number = 0;   // Except the updates of this log.
  uint64_t manifest_number = 0;   // The MANIFEST that was read.
  uint64_t current_number = 0;    // The MANIFEST that CURRENT names.
  uint64_t next_file_number = 0;  // The largest one in an edit.
  // The first log that RocksDB keeps for transactions; 0 if it is not given.
  uint64_t min_log_number_to_keep = 0;
  std::string comparator;
  std::string key_folding;
  std::string db_id;
  std::map<uint32_t, std::string> families;  // Live ones without the default.

  // Returns whether the file belongs to the database, by the MANIFEST.
  bool Names(FileType type, uint64_t number) const;
  // Returns whether all updates of the log are in tables, by the MANIFEST.
  bool IsObsoleteLog(uint64_t number) const {
    return number < first_log_number && number != prev_log_number;
  }
};

// Reads the MANIFEST that CURRENT names. If there is no CURRENT, or that
// MANIFEST has no readable edit, reads the newest MANIFEST in `names` that has
// one. Skips what it cannot read. Never fails; at worst *manifest remains
// empty.
void ReadBestEffortManifest(Env* env, const std::string& db_path,
                            std::vector<std::string> names,
                            BestEffortManifest* manifest);

}  // namespace varve
