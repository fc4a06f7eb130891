// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

#include <memory>

#include "varve/db.h"
#include "varve/options.h"

namespace varve {

// `db` itself, or for KeyCase::kInsensitive a DB that folds what callers hand
// over (util/bytes/key_fold.h) and leaves the rest to it: keys, the bounds of
// ranges and of iterators, targets of seeks, the keys of batches. A key that
// cannot be folded is InvalidArgument. So the engine below knows only bytes,
// and the keys of its memtables, logs and tables are folded already.
//
// Each call costs what folding does, and one more virtual call; an iterator
// costs one more for each step.
std::unique_ptr<DB> WithFolding(std::unique_ptr<DB> db, const Options& options);

}  // namespace varve
