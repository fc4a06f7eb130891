// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// The DB mutex, for the compiler's analysis of locks.
//
// The parts of a database share one mutex, and each reaches it by a pointer or
// a reference of its own. The analysis cannot tell that these are one mutex. So
// all of them stand for one name, kDbMutex: a part takes the mutex by an
// accessor that is marked VARVE_RETURN_CAPABILITY(kDbMutex), and a function
// that needs it is marked VARVE_REQUIRES(kDbMutex).
//
// The mutexes of two databases have the same name. No thread holds two of them.

#include "util/base/mutex.h"
#include "util/base/thread_annotations.h"

namespace varve {

class VARVE_CAPABILITY("DB mutex") DbMutexRole {};

inline constexpr DbMutexRole kDbMutex;

// The DB mutex of parts that work without a DbCore.
class LoneDbMutex {
 public:
  Mutex* lockable() VARVE_RETURN_CAPABILITY(kDbMutex) { return &mutex_; }

 private:
  Mutex mutex_;
};

}  // namespace varve
