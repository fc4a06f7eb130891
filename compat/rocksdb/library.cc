// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "compat/shared/library.h"

namespace varve::compat {

constinit const Library kLibrary{"varve-rocksdb", "VARVE_ROCKSDB_"};

}  // namespace varve::compat
