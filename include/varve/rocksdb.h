// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Helps a C++ program move from RocksDB: include this header in the place of
// RocksDB's, and most of the program compiles as it is. docs/from_rocksdb.md
// lists what must still be changed by hand.
//
// Names, and the meaning of options, are RocksDB's; defaults are Varve's, and
// docs/from_rocksdb.md lists those that differ. An option that would change
// only the speed of RocksDB, and that Varve does not have, can be set and has
// no effect. One that would change results is not there, so that its use does
// not compile. Everything is inline and uses Varve's public interface only.
//
// The namespace is `rocksdb`. Define VARVE_ROCKSDB_NAMESPACE as another name
// for a program that includes RocksDB's headers, too.
//
// Thread-safety and lifetime: as the classes of Varve that a class holds
// or is derived from.

#include "varve/rocksdb/backup_engine.h"   // IWYU pragma: export
#include "varve/rocksdb/convert.h"         // IWYU pragma: export
#include "varve/rocksdb/db.h"              // IWYU pragma: export
#include "varve/rocksdb/db_ttl.h"          // IWYU pragma: export
#include "varve/rocksdb/external_files.h"  // IWYU pragma: export
#include "varve/rocksdb/files.h"           // IWYU pragma: export
#include "varve/rocksdb/listener.h"        // IWYU pragma: export
#include "varve/rocksdb/options.h"         // IWYU pragma: export
#include "varve/rocksdb/statistics.h"      // IWYU pragma: export
#include "varve/rocksdb/transactions.h"    // IWYU pragma: export
