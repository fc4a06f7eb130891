// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

#include <string>

#include "compat/leveldb/database.h"

namespace varve::compat {

// Stores a property in *value. Returns false if there is none of that name. The
// four properties of LevelDB have its format. The names of the engine's own
// begin with "varve.".
bool GetLevelDbProperty(const Database& database, const Slice& name,
                        std::string* value);

}  // namespace varve::compat
