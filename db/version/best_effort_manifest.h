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

// What a MANIFEST still says of which edits may be lost. For a repair, which
// needs none of it, but would else bring back what was deleted.
struct BestEffortManifest {
  // Tables that an edit added, and none removed.
  std::map<uint64_t, FileMetaData> tables;
  // Tables whose entries live on in others.
  std::set<uint64_t> removed;
  uint64_t first_log_number = 0;  // Updates of those before it are in tables.
  uint64_t prev_log_number = 0;   // But not of this one.
  uint64_t manifest_number = 0;   // Of the one that was read.
  uint64_t current_number = 0;    // Of the one that CURRENT names.
  uint64_t next_file_number = 0;  // The largest that an edit gives.
  // RocksDB keeps those from here on for transactions; 0 if it does not say.
  uint64_t min_log_number_to_keep = 0;
  std::string comparator;
  std::string key_folding;
  std::string db_id;
  std::map<uint32_t, std::string> families;  // Living ones but the default.

  // Whether the MANIFEST says that the file is the database's.
  bool Names(FileType type, uint64_t number) const;
  bool IsObsoleteLog(uint64_t number) const {
    return number < first_log_number && number != prev_log_number;
  }
};

// Reads the MANIFEST that CURRENT names or, without a CURRENT, the newest of
// `names` that holds an edit. What cannot be read is passed over. Never fails:
// at worst nothing is known.
void ReadBestEffortManifest(Env* env, const std::string& db_path,
                            std::vector<std::string> names,
                            BestEffortManifest* manifest);

}  // namespace varve
