// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// The parts that read tables, for tests that build a database from its parts.

#include <memory>

#include "table/cache/block_cache.h"
#include "table/reader/table_cache.h"
#include "test/testing/db_helpers.h"

namespace varve::test {

struct TableParts {
  TableParts(const Options& options, Env* env)
      : comparator(options.comparator),
        reader_options([this] {
          TableReaderOptions reader;
          reader.comparator = &comparator;
          reader.block_cache = static_cast<BlockCache*>(block_cache.get());
          return reader;
        }()),
        table_cache("/db", env, FileOptions(), reader_options, 10, false,
                    nullptr) {}

  const InternalKeyComparator comparator;
  const std::shared_ptr<Cache> block_cache = NewTestCache(1 << 20);
  const TableReaderOptions reader_options;
  TableCache table_cache;
};

}  // namespace varve::test
