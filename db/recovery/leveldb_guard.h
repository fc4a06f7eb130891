// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Guards a directory against programs that take it for LevelDB's own.
//
// Such a program cannot read the MANIFEST, and may then call its library's
// repair function. LevelDB's moves tables and logs that it cannot read to
// lost/. goleveldb's removes them. The guard makes both functions fail, by
// names that RocksDB and Varve do not use:
// - CURRENT.1, a directory. goleveldb would read the file, and the error is
//   none that programs take for corruption.
// - +0.ldb, a file. goleveldb's repair takes it for table 0, cannot find
//   000000.ldb, and returns before it changes anything.
// - 000001.dbtmp, a directory. LevelDB's repair would write its MANIFEST there.
//   It has moved files by then, but CURRENT stays, and LevelDB cannot open the
//   database. What it moved comes back by a repair, see below.

#include <string>

#include "db/version/manifest_reader.h"
#include "varve/env.h"
#include "varve/status.h"

namespace varve {

// Creates the guard. Does nothing where it exists.
Status AddLevelDbGuard(Env* env, const std::string& path);

// Returns whether `name`, an entry of the directory, is the directory
// 000001.dbtmp, whose name is also one of the engine's.
bool IsLevelDbGuard(Env* env, const std::string& path, const std::string& name);

// Removes the guard, if there is one.
void RemoveLevelDbGuard(Env* env, const std::string& path);

// Returns whether LevelDB wrote the MANIFEST. It records neither an identity
// nor the tables' sequence numbers. REQUIRES: none were searched for yet.
bool IsLevelDbManifest(const ManifestState& manifest);

// Returns Corruption if LevelDB's repair function has moved files of the
// database to lost/: files that the MANIFEST names, or an engine's MANIFEST
// that LevelDB has replaced by its own.
Status CheckMovedByLevelDb(Env* env, const std::string& path,
                           const ManifestState& manifest);

// Moves these files back, and sets CURRENT to the engine's MANIFEST. Does
// nothing if there are none. REQUIRES: the database is locked.
Status MoveBackFromLost(Env* env, const std::string& path);

}  // namespace varve
