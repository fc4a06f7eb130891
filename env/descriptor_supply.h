// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// File descriptors are a resource that the whole process shares. This file
// decides which descriptors are closed when they run short, and how many are
// reserved for the program.
//
// Files that are open only to save another open (as in
// table/reader/file_pool.h) belong to a DescriptorOwner. All calls in env that
// create a descriptor go through OpenDescriptor. It asks the owners to close
// files in two cases:
// - The new descriptor is in the reserve. The reserve is the top half of the
//   soft RLIMIT_NOFILE, at least 8, and is for the program. The kernel assigns
//   the lowest free number, so a descriptor N means that all numbers below N
//   are in use. No system call is needed.
// - The call failed with EMFILE or ENFILE. It is then retried, at once if an
//   owner has closed a file, else after a pause. It fails for good after
//   kTimeoutUs without an owner that expects to close a file soon, and after
//   kLongTimeoutUs in any case.
//
// The limit is read at the first use, by RefreshDescriptorLimit (a FilePool
// calls it when it is created, for each new file and at intervals), and after
// EMFILE.
//
// Locks. An owner is called without the registry's mutex, in the thread that
// opens. That thread may hold any lock of the layers above: a database's mutex,
// a catalog's, the table of locks. So GiveBack takes only leaf locks of its
// own, opens nothing, and does not wait. Work that needs more is passed to
// another thread and reported as `more_soon`. Waiting is bounded, so a thread
// that holds a lock which such work needs is delayed but never deadlocked. An
// owner counts the calls under way. RemoveDescriptorOwner waits for them.
//
// Progress. No thread that waits here is needed by another to close a file: a
// read pins one file and opens none while it has it pinned. A batch of reads
// pins many, and opens them under a NoDescriptorWait.
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
  // Returns the number of descriptors that GiveBack might close. It is used to
  // choose the first owner to ask, and may be out of date.
  virtual size_t Held() const = 0;
  // Closes up to `count` descriptors, but keeps `keep` of them. See Locks.
  virtual CloseResult GiveBack(size_t count, size_t keep) = 0;
};

void AddDescriptorOwner(DescriptorOwner* owner);
// The owner is not called any more after this returns.
void RemoveDescriptorOwner(DescriptorOwner* owner);

// Returns the first number of the reserve under a limit.
int DescriptorReserveBegin(uint64_t limit);
// Returns the same for the limit that was read last. INT_MAX if there is none.
int CurrentReserveBegin();
void RefreshDescriptorLimit();
// Returns the number of opens that found descriptors short. It grows while they
// are short.
uint64_t DescriptorShortages();

// Returns true if a status of FromErrno was created from EMFILE or ENFILE.
bool IsOutOfDescriptors(const Status& status);

// While one is in scope, opens of this thread ask the owners but do not wait.
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

// The slow path of OpenDescriptor: `descriptor` is in the reserve, or the call
// has failed with errno.
int SettleDescriptor(int descriptor, const std::function<int()>& call);

}  // namespace internal

// Creates a descriptor by call(), which returns it, or -1 with errno set. May
// call it several times. Returns the last result, with its errno.
template <typename Call>
int OpenDescriptor(const Call& call) {
  const int descriptor = call();
  // relaxed: any value that it ever had is good enough.
  if (descriptor >= 0 && descriptor < internal::reserve_begin.load(
                                          std::memory_order_relaxed)) [[likely]]
    return descriptor;
  if (descriptor < 0 && errno != EMFILE && errno != ENFILE) return descriptor;
  return internal::SettleDescriptor(descriptor, call);
}

}  // namespace varve
