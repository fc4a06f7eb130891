// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Grows the process's descriptor table once, on another thread, before many
// files are opened. The kernel doubles the table when it is full. If threads
// share the table, each doubling waits for an RCU grace period of some ten
// milliseconds. Opening 5,000 files thus waits up to seven times, longer than
// the opens themselves take. A descriptor above the last one that will be
// needed makes the table grow once. If the process has only one thread, there
// is no wait (fs/file.c of Linux, expand_fdtable).
//
// Thread-safety: one thread, as a local variable.

#include <pthread.h>

#include <cstddef>

namespace varve {

class DescriptorTableGrowth {
 public:
  // Starts to make space for `count` more descriptors, up to the process's
  // limit. Does nothing if `count` is too small to be worth a thread. Never
  // fails: without the space, opening only takes longer.
  explicit DescriptorTableGrowth(size_t count);
  DescriptorTableGrowth(const DescriptorTableGrowth&) = delete;
  DescriptorTableGrowth& operator=(const DescriptorTableGrowth&) = delete;
  // Waits for the thread to end.
  ~DescriptorTableGrowth();

 private:
  static void* ThreadMain(void* self);

  const size_t count_;
  bool has_thread_ = false;
  pthread_t thread_{};
};

}  // namespace varve
