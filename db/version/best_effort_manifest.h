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
  // A column family that was not dropped. The edit that adds it may be lost.
  struct Family {
    std::string name;         // Empty if unknown.
    std::string comparator;   // Empty if unknown.
    uint64_t log_number = 0;  // Its updates in logs before it are in tables.
    SequenceNumber tables_end = 0;  // The last one in tables; 0: unknown.
  };
  struct Table {
    uint32_t family = 0;  // The column family's id.
    FileMetaData file;
  };

  // Tables that an edit added and no later edit removed.
  std::map<uint64_t, Table> tables;
  // Tables that an edit removed, or whose family was dropped. Other tables have
  // their live entries.
  std::set<uint64_t> removed;
  // By id. The default family is always among them.
  std::map<uint32_t, Family> families = {{0, {"default", "", 0, 0}}};
  std::set<uint32_t> dropped_families;
  uint32_t max_column_family = 0;    // The largest id in an edit.
  uint64_t first_log_number = 0;     // No log before it is needed,
  uint64_t prev_log_number = 0;      // except this one.
  uint64_t manifest_number = 0;      // The MANIFEST that was read.
  uint64_t current_number = 0;       // The MANIFEST that CURRENT names.
  uint64_t next_file_number = 0;     // The largest one in an edit.
  SequenceNumber last_sequence = 0;  // Likewise.
  // The first log that is needed, also for transactions; 0 if it is not given.
  uint64_t min_log_number_to_keep = 0;
  std::string key_folding;
  std::string db_id;
  // No edit is missing before the last one that was read, and the edits that a
  // MANIFEST begins with, one or two for each family, are all there.
  bool has_all_families = false;

  // Returns whether the file belongs to the database, by the MANIFEST.
  bool Names(FileKind type, uint64_t number) const;
  // Returns whether all updates of the log are in tables, by the MANIFEST.
  bool IsObsoleteLog(uint64_t number) const {
    return number < first_log_number && number != prev_log_number;
  }
  // Returns whether all updates of that family in the log are in tables.
  bool IsObsoleteLog(uint64_t number, uint32_t family) const {
    const auto known = families.find(family);
    return IsObsoleteLog(number) ||
           (known != families.end() && number < known->second.log_number &&
            number != prev_log_number);
  }
  // Returns whether the column family was dropped, by the MANIFEST. Ids are
  // given out in order, and none is given out again.
  bool IsDropped(uint32_t family) const {
    return dropped_families.contains(family) ||
           (has_all_families && family <= max_column_family &&
            !families.contains(family));
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
