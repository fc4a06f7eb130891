// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

#include "env/descriptor_supply.h"
#include "varve/status.h"

namespace varve {

inline Status ClosedError() {
  return Status::ShutdownInProgress("the database was closed");
}

inline Status ReadOnlyError() {
  return Status::NotSupported("the database was opened for reading only");
}

// Whether the cause of an error may go away without a repair: a full device or
// quota, no free descriptor. The database then tries to become writable by
// itself.
inline bool MayPass(const Status& status) {
  return status.IsNoSpace() || IsOutOfDescriptors(status);
}

}  // namespace varve
