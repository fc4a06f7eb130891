// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

#include <string>

#include "compat/leveldb/abi.h"

namespace varve::compat {

// Gives access to the bytes of a batch. A batch with only puts and deletes has
// the same bytes for both engines, so it needs no conversion.
struct BatchBytes {
  static const std::string& Of(const leveldb::WriteBatch& batch) {
    return batch.bytes_;
  }
  static leveldb::WriteBatch Make(const std::string& bytes) {
    leveldb::WriteBatch batch;
    batch.bytes_ = bytes;
    return batch;
  }
};

}  // namespace varve::compat
