// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

#include <memory>

#include "db/version/version_set.h"
#include "table/block/internal_key.h"
#include "varve/iterator.h"

namespace varve {

// Returns an iterator for ReadOptions::tailing: before each move it refreshes
// `base` if the database has updates that `base` does not see, all of which are
// above `seen`. `versions` must outlive it.
std::unique_ptr<Iterator> NewTailingIterator(std::unique_ptr<Iterator> base,
                                             const VersionSet* versions,
                                             SequenceNumber seen);

}  // namespace varve
