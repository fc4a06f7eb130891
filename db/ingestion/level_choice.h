// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Chooses the levels of tables that are newer than all entries of a family: as
// low as their keys allow. A table must be above each older entry of its range.
// In a level above 0, its range must be apart from the tables that are there
// and from the output of running compactions.

#include <cstddef>
#include <cstdint>
#include <set>
#include <utility>
#include <vector>

#include "db/compaction/compaction.h"
#include "db/compaction/compaction_policy.h"
#include "db/ingestion/external_table.h"
#include "db/version/version.h"
#include "varve/options.h"
#include "varve/status.h"

namespace varve {

// Thread-safety: owned by one thread. Choose and FitsBelow require the DB
// mutex, if other threads have the version's family.
class LevelChoice {
 public:
  struct Result {
    int level = 0;
    bool overlaps = false;  // Some table has an older entry in its range.
  };

  // `tables` are the tables to place. Both must outlive this object.
  LevelChoice(const Options& options, const std::vector<ExternalTable>& tables)
      : options_(options), tables_(tables) {}
  LevelChoice(const LevelChoice&) = delete;
  LevelChoice& operator=(const LevelChoice&) = delete;

  // Reads the version's tables to learn which of them have nothing in the
  // ranges of the tables to place. Choose takes others to have something.
  // REQUIRES: the caller holds the version, and not the DB mutex.
  Status Examine(const Version& version);

  // Returns the place of table i. `context` has the family's state; levels
  // between 0 and `base_level` stay empty.
  Result Choose(const CompactionContext& context, int base_level,
                size_t i) const;
  // Returns an error unless table i can be below all entries of the family, in
  // LastLevel.
  Status FitsBelow(const CompactionContext& context, size_t i) const;

  // Returns the level that ingest_behind uses, and others too if there is no
  // allow_ingest_behind.
  int LastLevel() const { return options_.num_levels - 1; }

 private:
  // Sets *has to whether the file has an entry in the range.
  static Status HasEntry(const Version& version, const FileMetaData& file,
                         const UserKeyRange& range, bool* has);

  const Options& options_;
  const std::vector<ExternalTable>& tables_;
  // Indexes of tables_, and numbers of tables without an entry in their range.
  std::set<std::pair<size_t, uint64_t>> apart_;
};

}  // namespace varve
