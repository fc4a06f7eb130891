// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

#include <string>

#include "varve/db.h"

namespace varve::compat {

// Writes the statistics and the traces that Settings asks for. Does nothing,
// and starts no thread, if it asks for none. Thread-safety: thread-safe.
class Observer {
 public:
  // Called after the database in `path` was opened, and before it is closed or
  // destroyed. Remove ignores others.
  static void Add(DB* db, const std::string& path);
  static void Remove(DB* db);
};

}  // namespace varve::compat
