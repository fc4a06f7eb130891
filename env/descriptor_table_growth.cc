// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "env/descriptor_table_growth.h"

#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>

// Only glibc has it.
#if __has_include(<sys/single_threaded.h>)
#include <sys/single_threaded.h>
#define VARVE_IS_SINGLE_THREADED() (__libc_single_threaded != 0)
#else
#define VARVE_IS_SINGLE_THREADED() false
#endif

#include "util/threads/background_thread.h"

namespace varve {

namespace {

// Fewer descriptors grow the table of a new process, of 64 or 256, once or
// twice.
constexpr size_t kMinCount = 512;

// Opens and closes a descriptor with a high number. The table keeps its size.
void GrowTable(size_t count) {
  // The kernel assigns descriptors from the lowest free one on.
  const int lowest = eventfd(0, EFD_CLOEXEC);
  if (lowest < 0) return;
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0 &&
      static_cast<rlim_t>(lowest) + 1 < limit.rlim_cur) {
    const auto highest =
        static_cast<int>(std::min<rlim_t>(limit.rlim_cur - 1, lowest + count));
    const int high = fcntl(lowest, F_DUPFD_CLOEXEC, highest);
    if (high >= 0) close(high);
  }
  close(lowest);
}

}  // namespace

DescriptorTableGrowth::DescriptorTableGrowth(size_t count) : count_(count) {
  if (count < kMinCount) return;
  if (VARVE_IS_SINGLE_THREADED()) {
    GrowTable(count);
    return;
  }
  has_thread_ = StartBackgroundThread(&thread_, &ThreadMain, this) == 0;
}

DescriptorTableGrowth::~DescriptorTableGrowth() {
  if (has_thread_) pthread_join(thread_, nullptr);
}

void* DescriptorTableGrowth::ThreadMain(void* self) {
  GrowTable(static_cast<DescriptorTableGrowth*>(self)->count_);
  return nullptr;
}

}  // namespace varve
