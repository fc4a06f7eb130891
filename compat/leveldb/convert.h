// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Slices and statuses of the two interfaces, each from the other.

#include "compat/leveldb/abi.h"
#include "varve/slice.h"
#include "varve/status.h"

namespace varve::compat {

inline Slice ToVarve(const leveldb::Slice& slice) {
  return Slice(slice.data(), slice.size());
}
inline leveldb::Slice ToLevelDb(const Slice& slice) {
  return leveldb::Slice(slice.data(), slice.size());
}

// LevelDB has fewer codes. Those that it does not have become IOError.
leveldb::Status FailureToLevelDb(const Status& status);
inline leveldb::Status ToLevelDb(const Status& status) {
  if (status.ok()) [[likely]]
    return leveldb::Status();
  return FailureToLevelDb(status);
}
Status FailureToVarve(const leveldb::Status& status);
inline Status ToVarve(const leveldb::Status& status) {
  if (status.ok()) [[likely]]
    return Status::OK();
  return FailureToVarve(status);
}

// Create errors of LevelDB's interface.
inline leveldb::Status NotFound(const Slice& message) {
  return {leveldb::Status::kNotFound, ToLevelDb(message), leveldb::Slice()};
}
inline leveldb::Status Corruption(const Slice& message) {
  return {leveldb::Status::kCorruption, ToLevelDb(message), leveldb::Slice()};
}
inline leveldb::Status InvalidArgument(const Slice& message,
                                       const Slice& detail = Slice()) {
  return {leveldb::Status::kInvalidArgument, ToLevelDb(message),
          ToLevelDb(detail)};
}
inline leveldb::Status IOError(const Slice& message,
                               const Slice& detail = Slice()) {
  return {leveldb::Status::kIOError, ToLevelDb(message), ToLevelDb(detail)};
}

}  // namespace varve::compat
