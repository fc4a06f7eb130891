// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// The forms in which reads of one key return a value.

#include <cstddef>

#include "compat/rocksdb/base.h"
#include "compat/rocksdb/db/handles.h"
#include "varve/pinnable_slice.h"
#include "varve/status.h"

namespace varve::rocksdb_c {

// Returns whether a value was found. Stores the error of a read, except
// NotFound.
[[gnu::always_inline]] inline bool WasRead(const Status& status,
                                           char** errptr) {
  if (status.ok()) [[likely]]
    return true;
  if (!status.IsNotFound()) ReplaceError(errptr, status);
  return false;
}

// Returns a copy of the value that read(PinnableSlice*) gets, or null.
template <typename Function>
char* ReadCopy(Function read, size_t* vallen, char** errptr) {
  PinnableSlice value;
  if (!WasRead(read(&value), errptr)) return nullptr;
  char* const copy = CopyBytes(value);
  if (copy == nullptr) {
    ReplaceError(errptr, Status::Aborted("no memory for a value"));
    return nullptr;
  }
  *vallen = value.size();
  return copy;
}

// The same, without a copy.
template <typename Function>
rocksdb_pinnableslice_t* ReadPinned(Function read, char** errptr) {
  auto* const value = new rocksdb_pinnableslice_t;
  if (WasRead(read(&value->rep), errptr)) return value;
  delete value;
  return nullptr;
}

}  // namespace varve::rocksdb_c
