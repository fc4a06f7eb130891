// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// The names that tables from outside get in the database's directory. Their
// numbers are reserved by an edit. So if no edit names them before a crash, the
// next open removes them, and does not keep them as the tables of an edit that
// was lost.

#include <string>
#include <vector>

#include "db/ingestion/external_table.h"
#include "db/jobs/db_core.h"
#include "db/options/db_mutex.h"
#include "varve/status.h"

namespace varve {

// Returns whether the path may be a name of a table in the directory, which a
// move would take away. Another file may have its name and its size, too.
bool MayBeOwnTable(const DbDirectory& directory, const std::string& path);

// Thread-safety: owned by one thread.
class TakenFiles {
 public:
  struct Request {
    ExternalTable* table;  // Its number is set.
    bool link = false;     // Else it is copied.
    bool copies_if_not_linked = true;
    bool moves = false;  // RemoveOriginals removes its other name.
  };

  // `core` must outlive this object.
  explicit TakenFiles(DbCore& core) : core_(core) {}
  TakenFiles(const TakenFiles&) = delete;
  TakenFiles& operator=(const TakenFiles&) = delete;
  // Removes the names, unless Keep was called.
  ~TakenFiles();

  // Gives all of the tables names, and makes names and contents durable.
  // Called at most once.
  Status Take(const std::vector<Request>& requests) VARVE_EXCLUDES(kDbMutex);
  // An edit may name the tables.
  void Keep() { names_.clear(); }
  // Removes the other names of the files that move. LOG tells of those that
  // stay.
  void RemoveOriginals();

 private:
  Status Reserve(const std::vector<Request>& requests) VARVE_EXCLUDES(kDbMutex);
  Status TakeOne(const Request& request);

  DbCore& core_;
  std::vector<std::string> names_;
  std::vector<std::string> originals_;  // Of the files that move.
};

}  // namespace varve
