// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// File descriptors as a resource that the process shares: who gives some back
// when they run short, and how many are left to the program.
//
// Files that are open only to save another open (those of a
// table/reader/file_pool.h) belong to a DescriptorOwner. All calls in env that
// create a descriptor go through OpenDescriptor, which asks the owners
// - for the reserve, if the new descriptor is in the reserve: the top quarter
//   of the soft RLIMIT_NOFILE, at least 8 and at most 256, which is for the
//   program. The kernel gives out the lowest free number, so a descriptor N
//   says that all numbers below N are in use; no system call is needed to know
//   it;
// - for the call, if it failed with EMFILE or ENFILE. The call is then tried
//   again: at once if an owner has closed something, else after a pause. It
//   fails for good after kTimeoutUs without an owner that expects to close
//   something soon, and after kLongTimeoutUs in any case.
//
// The limit is read at the first use, by RefreshDescriptorLimit (a FilePool
// calls it when it is created and now and then later), and after EMFILE.
//
// Locks. An owner is called without the registry's mutex, in the thread that
// opens, which may hold any lock of the layers above: a database's mutex, a
// catalog's, the table of locks. So GiveBack takes only leaf locks of its own,
// opens nothing, and waits for nobody; work that needs more is handed to
// another thread and reported as `more_soon`. Waiting ends by itself, so a
// thread that holds a lock which such work needs is delayed and never stuck.
// An owner counts the calls under way; RemoveDescriptorOwner waits for them.
//
// Progress. Of the threads that wait here none is needed by another to close a
// file: a read pins one file and opens none while it has it pinned. A batch of
// reads pins many, and opens them under a NoDescriptorWait.
//
// Thread-safety: thread-safe.

#include <cerrno>
#include <climits>
#include <cstddef>
#include <cstdint>
#include <functional>

#include <atomic>

#include "varve/status.h"

namespace varve {

class DescriptorOwner {
 public:
  struct CloseResult {
    size_t closed = 0;
    bool more_soon = false;  // More are closed when reads or a thread end.
  };

  virtual ~DescriptorOwner() = default;
  // Descriptors that GiveBack might close, for choosing whom to ask first. May
  // be out of date.
  virtual size_t Held() const = 0;
  // Closes up to `count` descriptors, but keeps `keep` of them. See Locks.
  virtual CloseResult GiveBack(size_t count, size_t keep) = 0;
};

void AddDescriptorOwner(DescriptorOwner* owner);
// The owner is not called any more when this returns.
void RemoveDescriptorOwner(DescriptorOwner* owner);

// The first number of the reserve under a limit.
int DescriptorReserveBegin(uint64_t limit);
// Under the limit that was read last; that of no limit is INT_MAX.
int CurrentReserveBegin();
void RefreshDescriptorLimit();
// Times that an open found descriptors short: it grows while they are.
uint64_t DescriptorShortages();

// Whether an error that FromErrno made says EMFILE or ENFILE.
bool IsOutOfDescriptors(const Status& status);

// While one is in scope, calls of this thread ask the owners, and do not wait.
class NoDescriptorWait {
 public:
  NoDescriptorWait() { ++depth_; }
  ~NoDescriptorWait() { --depth_; }
  NoDescriptorWait(const NoDescriptorWait&) = delete;
  NoDescriptorWait& operator=(const NoDescriptorWait&) = delete;

  static bool Active() { return depth_ > 0; }

 private:
  static constinit thread_local int depth_;
};

namespace internal {

extern std::atomic<int> reserve_begin;

// What OpenDescriptor does out of line: `descriptor` is in the reserve, or the
// call has failed with errno.
int SettleDescriptor(int descriptor, const std::function<int()>& call);

}  // namespace internal

// Makes a descriptor by call(), which returns it, or -1 with errno set; so does
// this. May call it several times.
template <typename Call>
int OpenDescriptor(const Call& call) {
  const int descriptor = call();
  // relaxed: any value that it had is right enough.
  if (descriptor >= 0 && descriptor < internal::reserve_begin.load(
                                          std::memory_order_relaxed)) [[likely]]
    return descriptor;
  if (descriptor < 0 && errno != EMFILE && errno != ENFILE) return descriptor;
  return internal::SettleDescriptor(descriptor, call);
}

}  // namespace varve
