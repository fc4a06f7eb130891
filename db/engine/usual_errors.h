// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

#include "varve/status.h"

namespace varve {

inline Status ClosedError() {
  return Status::ShutdownInProgress("the database was closed");
}

inline Status ReadOnlyError() {
  return Status::NotSupported("the database was opened for reading only");
}

}  // namespace varve
