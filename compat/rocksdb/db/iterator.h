// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

#include <memory>

#include "compat/rocksdb/db/handles.h"
#include "compat/rocksdb/options/options.h"
#include "varve/iterator.h"
#include "varve/status.h"

namespace varve::rocksdb_c {

// The parts that several iterators can share. They do not depend on the
// program's options any more.
struct IteratorParts {
  // `opt_in`: iterators ask filters for prefixes only if their options say so.
  IteratorParts(const rocksdb_readoptions_t& program, bool opt_in);

  // Returns an iterator without the engine's. `family` is null for the default
  // one.
  std::unique_ptr<rocksdb_iterator_t> NewHandle(
      DB* db, const rocksdb_column_family_handle_t* family) const;

  ReadOptions options;
  std::shared_ptr<KeptBounds> bounds;
};

// Returns an iterator that is never valid. The program gets the error from
// rocksdb_iter_get_error.
rocksdb_iterator_t* NewInvalid(const Status& status);

}  // namespace varve::rocksdb_c
