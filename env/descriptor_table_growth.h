// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Space for many file descriptors, made at once and beside other work. The
// kernel doubles a process's table of descriptors when it is full, and where
// threads share the table each doubling waits for a grace period of RCU, some
// ten milliseconds: who opens 5,000 files waits up to seven times, longer than
// all the opening takes. A descriptor behind the last one that will be needed
// lets it grow once; and where the process has one thread only, without a wait
// (fs/file.c of Linux, expand_fdtable).
//
// Thread-safety: one thread, as a local variable.

#include <pthread.h>

#include <cstddef>

namespace varve {

class DescriptorTableGrowth {
 public:
  // Begins to make space for `count` descriptors more, as far as the process's
  // limit goes; nothing for so few that it is not worth a thread. Never fails:
  // without space it takes longer, no more.
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
