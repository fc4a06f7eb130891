// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "compat/shared/library.h"

namespace varve::compat {

constinit const Library kLibrary{"varve-leveldb", "VARVE_LEVELDB_"};

}  // namespace varve::compat
