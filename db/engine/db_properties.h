// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Computes the properties of a column family, and of the database, for
// DB::GetProperty from the parts of the database.
// Thread-safety: owned by one thread.

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "db/jobs/db_core.h"
#include "db/options/db_mutex.h"
#include "varve/slice.h"

namespace varve {

class DbProperties {
 public:
  // All must outlive this object.
  DbProperties(DbCore& core, ColumnFamily& family)
      : core_(core), family_(family) {}

  // As DB::GetProperty and DB::GetIntProperty. REQUIRES: the mutex is not held;
  // the database is open.
  bool Get(const Slice& property, std::string* value);
  bool GetInt(const Slice& property, uint64_t* value);
  // As DB::GetMapProperty.
  bool GetMap(const Slice& property, std::map<std::string, std::string>* value);

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
  bool GetIntLocked(const Slice& name, uint64_t* value)
      VARVE_REQUIRES(kDbMutex);
  std::string LevelStatsLocked() const VARVE_REQUIRES(kDbMutex);
  std::string StatsLocked() VARVE_REQUIRES(kDbMutex);
  // Returns the levels, and at the end their sum.
  struct LevelRow;
  std::vector<LevelRow> LevelRowsLocked() const VARVE_REQUIRES(kDbMutex);
  void AppendCompactionTableLocked(std::string* out) const
      VARVE_REQUIRES(kDbMutex);
  void AppendDbStatsLocked(std::string* out) const VARVE_REQUIRES(kDbMutex);
  std::string TablesLocked() const VARVE_REQUIRES(kDbMutex);
  std::string OldestSnapshotLocked() VARVE_REQUIRES(kDbMutex);

  DbCore& core_;
  ColumnFamily& family_;
};

}  // namespace varve
