// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

#include <memory>

#include "varve/db.h"
#include "varve/options.h"

namespace varve {

// Returns `db` itself for KeyCase::kSensitive. For KeyCase::kInsensitive it
// returns a DB that folds the caller's keys (util/bytes/key_fold.h) and
// forwards all calls to `db`. It folds keys, the bounds of ranges and
// iterators, the targets of seeks, and the keys of batches. It returns
// InvalidArgument for a key that cannot be folded. The engine thus sees bytes
// only, and the keys of its memtables, logs and tables are folded.
//
// The cost of a call is the folding and one virtual call. An iterator step
// costs one more virtual call.
std::unique_ptr<DB> WithFolding(std::unique_ptr<DB> db, const Options& options);

}  // namespace varve
