// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Says in the code which mutex guards what, so that Clang's -Wthread-safety
// can check it. Other compilers see nothing.

#if defined(__clang__)
#define VARVE_THREAD_ATTRIBUTE(x) __attribute__((x))
#else
#define VARVE_THREAD_ATTRIBUTE(x)
#endif

// On a class: its objects can be held / hold something while they live.
#define VARVE_CAPABILITY(name) VARVE_THREAD_ATTRIBUTE(capability(name))
#define VARVE_SCOPED_CAPABILITY VARVE_THREAD_ATTRIBUTE(scoped_lockable)

// On a member: it, or what it points to, is touched only with the mutex held.
#define VARVE_GUARDED_BY(mu) VARVE_THREAD_ATTRIBUTE(guarded_by(mu))
#define VARVE_PT_GUARDED_BY(mu) VARVE_THREAD_ATTRIBUTE(pt_guarded_by(mu))

// On a function: the caller holds, or must not hold, the mutexes.
#define VARVE_REQUIRES(...) \
  VARVE_THREAD_ATTRIBUTE(requires_capability(__VA_ARGS__))
#define VARVE_EXCLUDES(...) VARVE_THREAD_ATTRIBUTE(locks_excluded(__VA_ARGS__))

// On a function: it takes the mutex, takes it if it returns `result`, gives it
// back, or dies unless it is held. No argument means the object itself.
#define VARVE_ACQUIRE(...) \
  VARVE_THREAD_ATTRIBUTE(acquire_capability(__VA_ARGS__))
#define VARVE_TRY_ACQUIRE(result) \
  VARVE_THREAD_ATTRIBUTE(try_acquire_capability(result))
#define VARVE_RELEASE(...) \
  VARVE_THREAD_ATTRIBUTE(release_capability(__VA_ARGS__))
#define VARVE_ASSERT_HELD(...) \
  VARVE_THREAD_ATTRIBUTE(assert_capability(__VA_ARGS__))

// On a function: the locking is right but cannot be followed. Say why.
#define VARVE_NO_THREAD_SAFETY_ANALYSIS \
  VARVE_THREAD_ATTRIBUTE(no_thread_safety_analysis)
