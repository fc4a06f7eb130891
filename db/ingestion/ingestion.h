// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// One call of DB::IngestExternalFiles (docs/ingestion.md). Its steps:
//   1. Examine the files (AddFamily). No lock is held, and nothing changes.
//   2. Give the files names in the directory (Prepare, TakenFiles).
//   3. Flush the memtables that have keys of the files, beside other writes
//      (OverlappedFamilies), and learn where the files fit (ExamineLevels).
//   4. As leader of the write queue: flush what was written since, sync the
//      logs, choose the levels, take sequence numbers, write one edit for all
//      families, install their SuperVersions, and only then publish the
//      numbers (Commit). So a reader at a number before them sees nothing of
//      the files, and one at a later number has SuperVersions with all of them.
//
// A number is taken even if the files keep 0: dead ranges (db/dead_entries) are
// learned only by readers to whom nothing newer is visible.
//
// Thread-safety: owned by one thread.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "db/family/column_family.h"
#include "db/ingestion/external_table.h"
#include "db/ingestion/level_choice.h"
#include "db/ingestion/taken_files.h"
#include "db/jobs/db_core.h"
#include "db/jobs/flusher.h"
#include "db/options/db_mutex.h"
#include "varve/external_files.h"
#include "varve/status.h"

namespace varve {

class Ingestion {
 public:
  // Both must outlive this object.
  Ingestion(DbCore& core, Flusher& flusher)
      : core_(core), flusher_(flusher), files_(core) {}
  Ingestion(const Ingestion&) = delete;
  Ingestion& operator=(const Ingestion&) = delete;

  // Adds a family and its files, each family once. The caller holds a
  // reference to it.
  Status AddFamily(ColumnFamily* family, const std::vector<std::string>& files,
                   const IngestExternalFileOptions& options);
  Status Prepare() VARVE_EXCLUDES(kDbMutex);
  // Returns the families whose memtables must be flushed. Sets *status to an
  // error if the options forbid it.
  std::vector<ColumnFamily*> OverlappedFamilies(Status* status)
      VARVE_EXCLUDES(kDbMutex);
  Status ExamineLevels() VARVE_EXCLUDES(kDbMutex);
  Status Commit() VARVE_EXCLUDES(kDbMutex);
  // After Commit: removes the other names of files that move.
  void RemoveOriginals() { files_.RemoveOriginals(); }

 private:
  struct Part {
    Part(ColumnFamily* its_family, const IngestExternalFileOptions& its_options)
        : family(its_family), options(its_options) {}

    bool OverlapsItself() const {
      return std::find(overlaps.begin(), overlaps.end(), true) !=
             overlaps.end();
    }

    ColumnFamily* const family;
    const IngestExternalFileOptions options;
    std::vector<ExternalTable> tables;
    std::unique_ptr<LevelChoice> levels;
    std::vector<bool> overlaps;  // Whether each table overlaps another one.
    size_t on_level0 = 0;        // Tables that go there.
    VersionEdit edit;
  };

  Status CommitLocked(const std::vector<ColumnFamily*>& overlapped,
                      bool has_snapshots) VARVE_REQUIRES(kDbMutex);
  // Sets the level and the numbers of each table, and fills in the edits.
  Status PlaceLocked(bool has_snapshots) VARVE_REQUIRES(kDbMutex);
  Status PlaceTableLocked(Part* part, size_t i, bool has_snapshots)
      VARVE_REQUIRES(kDbMutex);
  void InstallLocked() VARVE_REQUIRES(kDbMutex);
  void NoteLocked(const Part& part, size_t i) VARVE_REQUIRES(kDbMutex);

  DbCore& core_;
  Flusher& flusher_;
  std::vector<std::unique_ptr<Part>> parts_;
  TakenFiles files_;
  SequenceNumber last_sequence_ = 0;  // The last number taken.
};

}  // namespace varve
