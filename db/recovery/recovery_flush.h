// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "db/compaction/compaction_iterator.h"
#include "db/compaction/table_output.h"
#include "db/memtable/memtable.h"
#include "db/version/version_edit.h"
#include "db/version/version_set.h"
#include "varve/status.h"

namespace varve {

// Writes the memtables that recovery fills from the logs to tables of level 0,
// one by one, so that only one of them is in memory at a time.
//
// A table has a temporary name until Publish, so that an Open after a crash
// removes it and reads the logs again. The destructor removes the tables unless
// Commit was called: a recovery that fails leaves the database as it was.
// Thread-safety: owned by one thread.
class RecoveryFlush {
 public:
  // The parts of a column family that are needed. They must outlive the flush,
  // and need not be initialized before the first Add.
  struct Family {
    const TableOutputContext* context;
    FamilyVersions* versions;
  };

  // `versions` must outlive it.
  RecoveryFlush(std::vector<Family> families, VersionSet* versions);
  RecoveryFlush(const RecoveryFlush&) = delete;
  RecoveryFlush& operator=(const RecoveryFlush&) = delete;
  ~RecoveryFlush() { Abandon(); }

  // Sets the names of temporary files that earlier processes left in the
  // directory. The first Add removes them, since tables need the space.
  void SetLeftovers(std::vector<std::string> names) {
    leftovers_ = std::move(names);
  }

  // Writes a memtable of a family, and drops the caller's reference to it, also
  // on failure.
  Status Add(size_t family, MemTable* memtable);

  // Gives the tables their final names and adds them to their families' edits.
  Status Publish(std::span<VersionEdit> edits);
  // The tables belong to the edit from now on.
  void Commit() { tables_.assign(families_.size(), {}); }
  // Removes the tables.
  void Abandon();

  size_t flush_count() const { return flush_count_; }
  uint64_t micros() const { return micros_; }  // The sum for all flushes.
  const CompactionIterator::Drops& drops() const { return drops_; }

 private:
  void RemoveLeftovers();
  // The same for all families. REQUIRES: Add was called.
  const std::string& db_path() const { return families_[0].context->db_path; }
  Env* env() const { return families_[0].context->env; }

  const std::vector<Family> families_;
  VersionSet* const versions_;
  std::vector<std::string> leftovers_;
  std::vector<std::vector<FileMetaData>> tables_;  // Parallel to families_.
  bool published_ = false;
  size_t flush_count_ = 0;
  uint64_t micros_ = 0;
  CompactionIterator::Drops drops_;
};

}  // namespace varve
