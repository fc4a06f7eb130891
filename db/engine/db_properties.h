// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Computes the properties of a column family, and of the database, for
// DB::GetProperty from the parts of the database.
// db_table_properties.cc has the properties computed from tables.
// Thread-safety: owned by one thread.

#include <cstdint>
#include <functional>
#include <string>

#include "db/family/column_family.h"
#include "db/jobs/background_scheduler.h"
#include "db/wal/wal_set.h"
#include "util/base/mutex.h"
#include "varve/options.h"
#include "varve/slice.h"

namespace varve {

class DbProperties {
 public:
  // Facts that no part knows. Requested with the mutex held.
  struct Facts {
    uint64_t background_errors = 0;
    bool is_read_only = false;
    bool deletes_files = true;
    bool compaction_is_due = false;
  };
  struct Sources {
    Env* env;
    StatisticsImpl* stats;  // May be null.
    ColumnFamily& family;
    VersionSet& versions;
    const WalSet& wals;
    const BackgroundScheduler& scheduler;
    Mutex& mutex;  // The DB's.
    std::function<Facts()> facts;
    std::function<std::string()> oldest_log;
    std::function<std::string()> families;
  };

  explicit DbProperties(Sources sources) : sources_(std::move(sources)) {}

  // As DB::GetProperty and DB::GetIntProperty. REQUIRES: the mutex is not held;
  // the database is open.
  bool Get(const Slice& property, std::string* value);
  bool GetInt(const Slice& property, uint64_t* value);

 private:
  // Calls visit(file, properties) for the tables of one level or of all levels.
  template <typename Visit>
  void VisitTables(int only_level, Visit visit);
  // Gets a property computed from tables, which may have to be opened. Returns
  // false if there is no property of that name.
  bool GetTableProperty(const Slice& name, std::string* value);
  uint64_t EstimateKeys();
  // Returns true if `name` is `prefix` followed by the number of a level.
  bool ParseLevelProperty(const Slice& name, const char* prefix,
                          int* level) const;
  bool GetIntLocked(const Slice& name, uint64_t* value);
  std::string LevelStatsLocked() const;
  std::string StatsLocked();
  void AppendCompactionTableLocked(std::string* out) const;
  void AppendDbStatsLocked(std::string* out) const;
  std::string TablesLocked() const;
  std::string OldestSnapshotLocked();

  const Sources sources_;
};

}  // namespace varve
