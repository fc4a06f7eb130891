// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

#include "compat/leveldb/abi.h"
#include "varve/pinnable_slice.h"

namespace varve::compat {

// Every leveldb::DB of this library, open or closed.
class OwnDb : public leveldb::DB {
 public:
  // As Get. Saves a copy of the value.
  virtual leveldb::Status GetPinned(const leveldb::ReadOptions& options,
                                    const leveldb::Slice& key,
                                    PinnableSlice* value) = 0;
};

}  // namespace varve::compat
