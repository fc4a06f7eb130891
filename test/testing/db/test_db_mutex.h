// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

#include "db/options/db_mutex.h"

namespace varve::test {

// For a test whose thread is the only one: it need not hold the mutex.
inline void IsOnlyThread() VARVE_ASSERT_HELD(kDbMutex) {}

}  // namespace varve::test
