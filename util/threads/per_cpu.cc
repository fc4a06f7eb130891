// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "util/threads/per_cpu.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <new>
#include <vector>

#include "util/base/process_wide.h"
#include "util/threads/stay_loaded.h"

#if VARVE_HAVE_RSEQ
#include <sys/rseq.h>

// The linker's names for the two ends of the section.
extern "C" {
[[gnu::visibility(
    "hidden")]] extern const varve::RseqSequence __start___rseq_cs[];
[[gnu::visibility(
    "hidden")]] extern const varve::RseqSequence __stop___rseq_cs[];
}
#endif

namespace varve {

namespace {

// More than Linux can be built for.
constexpr size_t kMaxCpus = 1 << 15;

#if VARVE_HAVE_RSEQ
// An entry of the kernel's auxiliary vector, as in <linux/auxvec.h> since 6.3:
// the number of bytes of a thread's area that the kernel fills.
constexpr unsigned long kFeatureSizeEntry = 27;
constexpr ptrdiff_t kCpuIdOffset = 4;
constexpr ptrdiff_t kConcurrencyIdOffset = 24;
#endif

// Returns one more than the last number of a list such as "0-3,8-11", or 0 if
// there is none.
size_t ListedCpus(const char* path) {
  const int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return 0;
  char text[1024];
  const ssize_t size = read(fd, text, sizeof(text));
  close(fd);
  size_t number = 0;
  bool in_number = false;
  for (ssize_t i = 0; i < size && size < ssize_t{sizeof(text)}; ++i) {
    const bool is_digit = text[i] >= '0' && text[i] <= '9';
    if (is_digit && !in_number) number = 0;
    if (is_digit) number = number * 10 + static_cast<size_t>(text[i] - '0');
    in_number = is_digit;
    if (number >= kMaxCpus) return 0;
    if (text[i] == '\n') return number + 1;
  }
  return 0;
}

// The kernel's masks have a bit for each possible processor, rounded up, and
// report their length.
size_t CpusOfMask() {
  std::vector<unsigned long> mask(kMaxCpus / (8 * sizeof(unsigned long)));
  const long length =
      syscall(SYS_sched_getaffinity, 0, kMaxCpus / 8, mask.data());
  return length > 0 ? static_cast<size_t>(length) * 8 : kMaxCpus;
}

size_t pretended_cpus = 0;  // 0: as the system says.

// T3: raises `bound` to `value`.
void RaiseBound(PerCpuMemory::Cell* bound, uint64_t value) {
  // relaxed, all: no order is needed.
  uint64_t seen = bound->load(std::memory_order_relaxed);
  while (seen < value && !bound->compare_exchange_weak(
                             seen, value, std::memory_order_relaxed)) {
  }
}

}  // namespace

const char* PerCpuPathName(PerCpuPath path) {
  switch (path) {
    case PerCpuPath::kConcurrencyId:
      return "rseq (concurrency id)";
    case PerCpuPath::kCpuId:
      return "rseq (cpu id)";
    case PerCpuPath::kAtomic:
      return "atomic (cpu id)";
  }
  return "";
}

PerCpuPath BestPerCpuPath() {
#if VARVE_HAVE_RSEQ
  if (__rseq_size != 0) {
    // The C library registers 32 bytes or more, even if it reports 20. The
    // kernel fills the fields of a registered area that it knows.
    return getauxval(kFeatureSizeEntry) >= kConcurrencyIdOffset + 4
               ? PerCpuPath::kConcurrencyId
               : PerCpuPath::kCpuId;
  }
#endif
  return PerCpuPath::kAtomic;
}

void PretendPossibleCpus(size_t count) { pretended_cpus = count; }

size_t PossibleCpus() {
  static constinit ProcessWide<const size_t> count;
  return count.Get([] {
    size_t cpus = pretended_cpus;
    if (cpus == 0) cpus = ListedCpus("/sys/devices/system/cpu/possible");
    if (cpus == 0) cpus = CpusOfMask();
    return std::make_unique<const size_t>(cpus);
  });
}

std::span<const RseqSequence> TEST_RseqSequences() {
#if VARVE_HAVE_RSEQ
  return {__start___rseq_cs, __stop___rseq_cs};
#else
  return {};
#endif
}

void* ReserveZeroed(size_t bytes) {
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return nullptr;
  // A huge page would be resident as a whole.
  madvise(memory, bytes, MADV_NOHUGEPAGE);
  return memory;
}

void ReleaseReserved(void* memory, size_t bytes) { munmap(memory, bytes); }

size_t ResidentBytes(const void* memory, size_t bytes) {
  const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  std::vector<unsigned char> resident((bytes + page - 1) / page);
  if (mincore(const_cast<void*>(memory), bytes, resident.data()) != 0) return 0;
  return page * static_cast<size_t>(
                    std::count_if(resident.begin(), resident.end(),
                                  [](unsigned char c) { return c & 1; }));
}

PerCpuMemory::PerCpuMemory(PerCpuPath path, size_t set_bytes)
    : set_bytes_(set_bytes), index_count_(PossibleCpus()), path_(path) {
  base_ = static_cast<char*>(ReserveZeroed(reserved_bytes()));
  mapped_ = base_ != nullptr;
  if (!mapped_) {
    path_ = PerCpuPath::kAtomic;
    index_count_ = 0;
    base_ = static_cast<char*>(
        ::operator new(set_bytes, std::align_val_t{kPageBytes}));
    std::fill_n(base_, set_bytes, char{0});
  }
#if VARVE_HAVE_RSEQ
  if (path_ == PerCpuPath::kAtomic) return;
  StayLoaded();
  area_ = __rseq_offset;
  index_ = area_ + (path_ == PerCpuPath::kConcurrencyId ? kConcurrencyIdOffset
                                                        : kCpuIdOffset);
#else
  path_ = PerCpuPath::kAtomic;
#endif
}

PerCpuMemory::~PerCpuMemory() {
  if (mapped_) {
    ReleaseReserved(base_, reserved_bytes());
  } else {
    ::operator delete(base_, std::align_val_t{kPageBytes});
  }
}

size_t PerCpuMemory::used_bytes() const {
  return mapped_ ? ResidentBytes(base_, reserved_bytes()) : set_bytes_;
}

PerCpuMemory::Cell* PerCpuMemory::AtomicSet() {
  if (area_ == 0) {
    const int cpu = sched_getcpu();
    if (cpu >= 0 && static_cast<size_t>(cpu) < index_count_) {
      return SetAt(static_cast<size_t>(cpu));
    }
  }
  return SetAt(index_count_);
}

void PerCpuMemory::AddAtomically(size_t cell, uint64_t count) {
  // relaxed: a count orders nothing.
  AtomicSet()[cell].fetch_add(count, std::memory_order_relaxed);
}

void PerCpuMemory::RecordAtomically(size_t bounds, size_t cell,
                                    uint64_t value) {
  Cell* const set = AtomicSet();
  RaiseBound(&set[bounds], value);
  RaiseBound(&set[bounds + 1], ~value);
  // relaxed: a count orders nothing.
  set[cell].fetch_add(1, std::memory_order_relaxed);
}

void PerCpuMemory::AddAgain(size_t cell, uint64_t count) {
#if VARVE_HAVE_RSEQ
  for (int i = 1; i < kAttempts; ++i) {
    if (TryAdd(base_ + cell * sizeof(Cell), set_bytes_, area_, index_, count)) {
      return;
    }
  }
#endif
  // relaxed: for a report.
  overflow_count_.fetch_add(1, std::memory_order_relaxed);
  AddAtomically(cell, count);
}

void PerCpuMemory::RecordAgain(size_t bounds, size_t cell, uint64_t value) {
#if VARVE_HAVE_RSEQ
  for (int i = 1; i < kAttempts; ++i) {
    if (TryRecord(base_ + bounds * sizeof(Cell), base_ + cell * sizeof(Cell),
                  set_bytes_, area_, index_, value)) {
      return;
    }
  }
#endif
  // relaxed: for a report.
  overflow_count_.fetch_add(1, std::memory_order_relaxed);
  RecordAtomically(bounds, cell, value);
}

}  // namespace varve
