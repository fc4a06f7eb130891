// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Checks of the program's own invariants. Bytes from disk and arguments of
// callers are never checked with it. They get a Status.

#include <cstdio>
#include <cstdlib>

// Stops a debug build if the invariant is broken. A release build does not
// evaluate the condition.
#ifdef NDEBUG
#define VARVE_DCHECK(condition) static_cast<void>(sizeof(condition))
#else
#define VARVE_DCHECK(condition)                                            \
  do {                                                                     \
    if (!(condition)) {                                                    \
      fprintf(stderr, "%s:%d: broken invariant: %s\n", __FILE__, __LINE__, \
              #condition);                                                 \
      abort();                                                             \
    }                                                                      \
  } while (false)
#endif
