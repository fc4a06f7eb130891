// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

#include <string>

#include "compat/leveldb/abi.h"

namespace varve::compat {

// Gives access to the bytes of a batch. Those of a batch with puts and deletes
// only are the same for both engines, so a batch needs no conversion.
struct BatchBytes {
  static const std::string& Of(const leveldb::WriteBatch& batch) {
    return batch.bytes_;
  }
};

}  // namespace varve::compat
