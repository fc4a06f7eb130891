// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "db/version/edit_rules.h"
#include "db/version/version_edit.h"
#include "table/block/internal_key.h"
#include "varve/env.h"
#include "varve/status.h"

namespace varve {

// A column family, as read from the MANIFEST.
struct FamilyManifest {
  FamilyManifest() = default;
  FamilyManifest(const FamilyManifest&) = delete;
  FamilyManifest& operator=(const FamilyManifest&) = delete;
  ~FamilyManifest();  // Frees files that no version has taken over.

  uint32_t id = 0;
  std::string name = "default";
  std::string comparator_name;  // Empty if no edit has it.
  // Its logs before this one are in tables.
  uint64_t log_number = 0;
  // See VersionEdit. Not set if no edit has it.
  std::optional<SequenceNumber> tables_end;
  // Null if the caller does not open the family. `levels` is empty then.
  const InternalKeyComparator* comparator = nullptr;
  // Level 0 is sorted newest first, the other levels by key. Owned until a
  // version takes them over.
  LevelFiles levels;

  bool HasNoTables() const {
    return std::all_of(std::begin(levels), std::end(levels),
                       [](const auto& files) { return files.empty(); });
  }
};

// The values in the edits of a MANIFEST that are not of one family.
struct ManifestCounters {
  uint64_t manifest_number = 0;
  uint64_t min_log_number_to_keep = 0;
  uint64_t next_file_number = 0;
  SequenceNumber last_sequence = 0;
  uint32_t max_column_family = 0;
  std::string db_id;
  bool logs_are_files = false;  // See VersionEdit.
  // The value in the last edit. See VersionEdit.
  std::optional<SequenceNumber> logs_end;
};

// The state of a database, as read from CURRENT and the MANIFEST.
struct ManifestState : ManifestCounters {
  ManifestState();
  ManifestState(const ManifestState&) = delete;
  ManifestState& operator=(const ManifestState&) = delete;

  // The live column families by increasing id. The first is the default one.
  std::vector<std::unique_ptr<FamilyManifest>> families;
  uint64_t prev_log_number = 0;
  // See VersionEdit.
  std::string key_folding;
  // The updates up to this number are older than the first log to replay.
  SequenceNumber logs_begin = 0;
  // The last edit, or group of edits, adds or drops a family.
  bool ends_with_families = false;
  // Where the last edit of this state ends in the MANIFEST, in bytes. An atomic
  // group that is not complete comes after it.
  uint64_t manifest_end = 0;
  // The last edit was truncated. The state is the one before that edit.
  bool torn_tail = false;
  std::string torn_tail_message;

  FamilyManifest& default_family() { return *families.front(); }
  const FamilyManifest& default_family() const { return *families.front(); }
  // Returns the live family with that id or name, or null.
  const FamilyManifest* FindFamily(uint32_t id) const;
  FamilyManifest* FindFamily(const std::string& name) const;

  // Returns the number of the first log to replay. A family ignores the updates
  // of logs before its own log number.
  uint64_t FirstLogNumber() const;
  // Returns the number of the first log whose updates are not all in tables.
  uint64_t FirstLogOfFamilies() const;
  // Returns whether the log of that number is replayed.
  bool ReplaysLog(uint64_t number) const {
    return number >= FirstLogNumber() ||
           (number == prev_log_number && number != 0);
  }
  // Calls visit(file) for every table of the families that are opened.
  template <typename Visit>
  void ForEachFile(Visit visit) const {
    for (const auto& family : families) {
      for (const auto& files : family->levels) {
        for (FileMetaData* file : files) visit(file);
      }
    }
  }
};

// Returns the comparator to read a column family's tables with, or null if the
// family is not to be opened.
using FamilyComparator =
    std::function<const InternalKeyComparator*(const std::string& name)>;

// Returns the given comparator for each family.
FamilyComparator ForAllFamilies(const InternalKeyComparator* comparator);

// Reads CURRENT and the MANIFEST that it names. Writes nothing. Returns
// Corruption or NotSupported, with the file's name. Returns InvalidArgument if
// the comparator is not a family's. Of a family, only its state at the end
// counts: neither its comparator nor an unsupported feature matters if it was
// dropped, or is not opened.
Status ReadManifest(Env* env, const std::string& db_path,
                    const FamilyComparator& comparator_of,
                    ManifestState* state);

}  // namespace varve
