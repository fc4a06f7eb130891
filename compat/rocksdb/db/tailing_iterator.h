// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

#include <memory>

#include "varve/column_family.h"
#include "varve/db.h"
#include "varve/iterator.h"
#include "varve/options.h"

namespace varve::rocksdb_c {

// Returns an iterator that sees writes of after its creation: each seek and
// Next see the newest state. `family` is null for the default one. `options`
// may refer to bounds that outlive the iterator.
std::unique_ptr<Iterator> NewTailingIterator(
    DB* db, std::shared_ptr<ColumnFamilyHandle> family,
    const ReadOptions& options);

}  // namespace varve::rocksdb_c
