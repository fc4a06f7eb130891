// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

#include <string>

#include "env/descriptor_supply.h"
#include "varve/status.h"

namespace varve {

inline Status ClosedError() {
  return Status::ShutdownInProgress("the database was closed");
}

inline Status FamilyDroppedError(const std::string& name) {
  return Status::InvalidArgument("column family " + name, "was dropped");
}

inline Status DroppedFamilyError() {
  return Status::InvalidArgument(
      "the batch updates a column family that was dropped or never existed");
}

inline Status ForeignHandleError() {
  return Status::InvalidArgument(
      "the column family's handle is of another DB, or its DB was destroyed");
}

inline Status ReadOnlyError() {
  return Status::NotSupported("the database was opened for reading only");
}

// Returns true if a file found no space: the device or the quota is full, or
// the bound of the database's SstFileManager is reached.
inline bool IsSpaceError(const Status& status) {
  return status.IsNoSpace() || status.IsSpaceLimit();
}

// Returns true if the cause of the error may end without a repair: a lack
// of space, or no free descriptor. The database then tries to become
// writable by itself.
inline bool IsTransientError(const Status& status) {
  return IsSpaceError(status) || IsOutOfDescriptors(status);
}

}  // namespace varve
