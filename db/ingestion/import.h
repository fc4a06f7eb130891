// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// The tables of a family that Checkpoint::ExportColumnFamily made, of Varve or
// RocksDB, for a new family. They keep their levels and sequence numbers.

#include <string>
#include <vector>

#include "db/ingestion/external_table.h"
#include "db/ingestion/taken_files.h"
#include "db/jobs/db_core.h"
#include "db/version/version_edit.h"
#include "varve/external_files.h"
#include "varve/metadata.h"
#include "varve/status.h"

namespace varve {

// Thread-safety: owned by one thread.
class Import {
 public:
  // `core` must outlive this object.
  explicit Import(DbCore& core) : core_(core), files_(core) {}
  Import(const Import&) = delete;
  Import& operator=(const Import&) = delete;

  // Examines the files, and takes them in. Returns InvalidArgument if they
  // cannot be a family with these options.
  Status Prepare(const ColumnFamilyOptions& options,
                 const ImportColumnFamilyOptions& how,
                 const ExportImportFilesMetaData& metadata);
  // The edit that adds the tables to the new family. The database must reach
  // its sequence number.
  VersionEdit* edit() { return &edit_; }
  // The edit may be in the MANIFEST.
  void Keep() { files_.Keep(); }
  // Removes the files' other names, for move_files.
  void RemoveOriginals() { files_.RemoveOriginals(); }

 private:
  Status Examine(const InternalKeyComparator& comparator, int num_levels,
                 bool moves, const LiveFileMetaData& wanted);
  // Returns an error if the tables do not fit together.
  Status CheckLevels(const InternalKeyComparator& comparator) const;

  DbCore& core_;
  TakenFiles files_;
  std::vector<ExternalTable> tables_;
  std::vector<int> levels_;  // Parallel to tables_.
  VersionEdit edit_;
};

}  // namespace varve
