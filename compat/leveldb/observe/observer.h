// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

#include "compat/leveldb/database.h"

namespace varve::compat {

// Writes the statistics and the traces that Settings asks for. Does nothing,
// and starts no thread, if it asks for none. Thread-safety: thread-safe.
class Observer {
 public:
  // Called after a database was opened, and before the program's DB is deleted.
  static void Add(Database* database);
  static void Remove(Database* database);
};

}  // namespace varve::compat
