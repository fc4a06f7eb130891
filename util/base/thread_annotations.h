// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Annotations that state which mutex guards which data, so that Clang's
// -Wthread-safety can check it. For other compilers they are empty.

#if defined(__clang__)
#define VARVE_THREAD_ATTRIBUTE(x) __attribute__((x))
#else
#define VARVE_THREAD_ATTRIBUTE(x)
#endif

// On a class: its objects can be held / hold something during their lifetime.
#define VARVE_CAPABILITY(name) VARVE_THREAD_ATTRIBUTE(capability(name))
#define VARVE_SCOPED_CAPABILITY VARVE_THREAD_ATTRIBUTE(scoped_lockable)

// On a member: it, or the object that it points to, is accessed only with the
// mutex held.
#define VARVE_GUARDED_BY(mu) VARVE_THREAD_ATTRIBUTE(guarded_by(mu))
#define VARVE_PT_GUARDED_BY(mu) VARVE_THREAD_ATTRIBUTE(pt_guarded_by(mu))

// On a function: the caller holds, or must not hold, the mutexes.
#define VARVE_REQUIRES(...) \
  VARVE_THREAD_ATTRIBUTE(requires_capability(__VA_ARGS__))
#define VARVE_EXCLUDES(...) VARVE_THREAD_ATTRIBUTE(locks_excluded(__VA_ARGS__))

// On a function: it locks the mutex, locks it if it returns `result`, unlocks
// it, or aborts unless it is held. No argument means the object itself.
#define VARVE_ACQUIRE(...) \
  VARVE_THREAD_ATTRIBUTE(acquire_capability(__VA_ARGS__))
#define VARVE_TRY_ACQUIRE(result) \
  VARVE_THREAD_ATTRIBUTE(try_acquire_capability(result))
#define VARVE_RELEASE(...) \
  VARVE_THREAD_ATTRIBUTE(release_capability(__VA_ARGS__))
#define VARVE_ASSERT_HELD(...) \
  VARVE_THREAD_ATTRIBUTE(assert_capability(__VA_ARGS__))

// On a function: it returns the mutex that is known by this name.
#define VARVE_RETURN_CAPABILITY(mu) VARVE_THREAD_ATTRIBUTE(lock_returned(mu))

// On a function: the locking is correct but the analysis cannot follow it.
// State the reason.
#define VARVE_NO_THREAD_SAFETY_ANALYSIS \
  VARVE_THREAD_ATTRIBUTE(no_thread_safety_analysis)
