// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

#include <cstddef>

#include "varve/write_batch.h"

struct rocksdb_writebatch_t {
  varve::WriteBatch rep;
  // An update that would make the batch longer than this is left out. 0 is no
  // limit.
  size_t max_bytes = 0;
  // The program wants its updates protected by checksums, which Varve's batches
  // do not have.
  bool wants_protection = false;
};
