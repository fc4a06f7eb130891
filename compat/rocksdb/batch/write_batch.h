// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <memory>
#include <new>
#include <utility>

#include "varve/write_batch.h"
#include "varve/write_batch_with_index.h"

struct rocksdb_writebatch_t {
  varve::WriteBatch rep;
  // An update that would make the batch longer than this is left out. 0 is no
  // limit.
  size_t max_bytes = 0;
  // The program wants its updates protected by checksums, which Varve's batches
  // do not have.
  bool wants_protection = false;
};

// Comes from malloc, because programs free the batch of a transaction with
// rocksdb_free. That one has nothing for a destructor to free.
struct rocksdb_writebatch_wi_t {
  varve::WriteBatchWithIndex* rep;  // Never null.
  // The same, if it belongs to no transaction. Its iterators share it.
  std::shared_ptr<varve::WriteBatchWithIndex> owned;
};

inline rocksdb_writebatch_wi_t* NewIndexedBatch(
    varve::WriteBatchWithIndex* rep,
    std::shared_ptr<varve::WriteBatchWithIndex> owned) {
  return new (malloc(sizeof(rocksdb_writebatch_wi_t)))
      rocksdb_writebatch_wi_t{rep, std::move(owned)};
}
