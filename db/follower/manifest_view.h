// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// A follower's knowledge of the MANIFEST: the families and the counters, after
// each edit that it has read, and the edits of the families that it has opened
// since they were last applied. It can be copied, so that edits are tried
// first.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "db/version/manifest_reader.h"
#include "db/version/version_edit.h"
#include "varve/slice.h"
#include "varve/status.h"

namespace varve {

class ColumnFamily;

// Thread-safety: thread-compatible.
class ManifestView : public ManifestCounters {
 public:
  struct Family {
    std::string name;
    uint64_t log_number = 0;
    SequenceNumber tables_end = 0;
    // Null if the follower has not opened it.
    ColumnFamily* opened = nullptr;
    std::vector<VersionEdit> edits;
  };

  // The live families by id.
  const std::map<uint32_t, Family>& families() const { return families_; }
  std::map<uint32_t, Family>* mutable_families() { return &families_; }

  // The error for LevelDB's edits, which lack the numbers of updates.
  static Status LevelDbError();
  // Takes the counters and the families of a state, without their tables.
  void Assign(const ManifestState& state);
  // Takes a record of the MANIFEST. The edits of an atomic group are applied
  // when the group is complete. Returns Corruption or NotSupported for an edit
  // that a MANIFEST cannot have here.
  Status Add(const Slice& record);
  // Returns whether the edit adds or removes entries, as an ingestion does. A
  // flush does not, since a log has its entries, nor does a compaction.
  static bool BringsEntries(const VersionEdit& edit);
  // Whether an edit since ForgetEdits does so. The tables then have entries
  // between the entries of the logs.
  bool brings_entries() const { return brings_entries_; }
  // Forgets the edits, which have been applied.
  void ForgetEdits();

  // Returns the number of the first log that is needed.
  uint64_t FirstLog() const;
  // Returns the largest number of a log that a family names.
  uint64_t NewestNamedLog() const;

 private:
  Status Apply(VersionEdit edit, const Status& unsupported);

  std::map<uint32_t, Family> families_;
  // The edits of a group that is not complete.
  std::vector<std::pair<VersionEdit, Status>> group_;
  bool brings_entries_ = false;
};

}  // namespace varve
