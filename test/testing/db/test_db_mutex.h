// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

#include "db/options/db_mutex.h"
#include "util/base/mutex.h"

namespace varve::test {

// The DB mutex of parts that a test has without a DbCore.
class TestDbMutex {
 public:
  Mutex* lockable() VARVE_RETURN_CAPABILITY(kDbMutex) { return &mutex_; }

 private:
  Mutex mutex_;
};

// For a test whose thread is the only one: it need not hold the mutex.
inline void IsOnlyThread() VARVE_ASSERT_HELD(kDbMutex) {}

}  // namespace varve::test
