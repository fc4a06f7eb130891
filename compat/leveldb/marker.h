// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

#include <string>

#include "varve/env.h"

namespace varve::compat {

// The file VARVE.txt in a database's directory. It says
// that LevelDB cannot open the database, and how to go back. LevelDB itself
// returns "Corruption: VersionEdit: unknown tag".
inline constexpr char kMarkerName[] = "VARVE.txt";

// Returns true if LevelDB wrote the directory and the engine never did.
bool IsLevelDbDirectory(Env* env, const std::string& path);

// Writes the file if it does not exist, and what stops the repair functions of
// LevelDB and goleveldb. `is_converted`: LevelDB wrote the directory.
Status WriteMarker(Env* env, const std::string& path, bool is_converted);

// Removes the file, and the directory if nothing else is in it. Does nothing if
// there is no such file.
void RemoveMarker(Env* env, const std::string& path);

}  // namespace varve::compat
