// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Cells of 64 bits that every processor has a set of, so that a thread adds to
// that of the processor it runs on and shares no cache line with threads that
// run elsewhere; a query sums the sets, however many threads there were.
//
// On x86-64 an addition is a restartable sequence: plain instructions, without
// a lock prefix, of which the kernel knows first and last (section __rseq_cs).
// If it takes the processor away in between, or delivers a signal, it sends the
// thread to the abort handler instead of back, and nothing was added.
// Thread-safety: thread-safe. A child of fork() has a copy.
//
// Words and states
//   Set i, one for each index that the kernel may give to a running thread: its
//   concurrency id, which is dense among the threads of a process, or else the
//   number of its processor. And one more set, the overflow.
//   Path rseq: set i is written by the thread that has index i now, and the
//   overflow by anybody. Path atomic: all are written by anybody.
// Transitions
//   T1 add, path rseq: in one sequence, read the index and add to the cell of
//      that set. The addition is the last instruction.
//   T2 record, path rseq: in one sequence, read the index, raise the two bounds
//      of that set, and add to the cell. The addition is the last instruction.
//   T3 after kAttempts aborts, or on path atomic: the same by atomic operations
//      on the overflow, or on the set of the current processor.
//   T4 query: load the cell of each set.
// Invariants
//   I1 each call adds once. A sequence that is aborted has not reached its last
//      instruction; one that has is not restarted.
//   I2 two threads never write to a set by T1 or T2 at a time: an index belongs
//      to one running thread, and who gets it next finds whom it was taken from
//      outside of the sequence, or sent to the abort handler.
//   I3 a bound is at least what a cell of its set counts: T2 raises it before
//      it adds. It may also be that of an attempt that was aborted and then
//      added elsewhere, which is a value that was recorded all the same.
// Why each order is needed
//   None is, but for the bounds: a query that sees a count sees the bound. x86
//   keeps the order of a processor's stores; T3 releases what the query
//   acquires. Otherwise a count orders nothing.
// Bad interleavings prevented
//   B1 a thread reads its index, moves to another processor, and adds to the
//      set of the former while another thread does: the kernel aborts it.
//   B2 a debugger steps through the sequence, or signals come without end, and
//      each trap aborts it: after kAttempts it goes to the overflow (T3).
//   B3 a set is written by T1 and by an atomic operation, which does not see a
//      plain addition that is under way: the overflow is a set of its own.
//   B4 the descriptor goes away with the library that it is in while a thread's
//      area still points to it: the library is linked so that it stays.
// Freshness and progress
//   A query sees all that happened before it. An addition waits for nobody and
//   takes a bounded number of steps.
// Reclamation
//   The memory goes with its owner, which nobody may use then.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include "util/base/check.h"

#if defined(__x86_64__) && defined(__linux__) && __has_include(<sys/rseq.h>)
#define VARVE_HAVE_RSEQ 1
#else
#define VARVE_HAVE_RSEQ 0
#endif

namespace varve {

// How a thread finds and changes the set that it adds to.
enum class PerCpuPath : uint8_t {
  kConcurrencyId,  // Restartable sequences, index: the concurrency id.
  kCpuId,          // Restartable sequences, index: the processor's number.
  kAtomic,         // The processor's number, and a relaxed atomic addition.
};

// Such as "rseq (concurrency id)".
const char* PerCpuPathName(PerCpuPath path);

// The first of those above that the C library, the kernel and the machine
// offer. The C library registers each thread unless it is told not to
// (GLIBC_TUNABLES=glibc.pthread.rseq=0); under valgrind it cannot.
PerCpuPath BestPerCpuPath();

// More than any index that a thread of this process can get: the processors
// that there are or may be plugged in.
size_t PossibleCpus();

// A restartable sequence, in the form that the kernel reads.
struct alignas(32) RseqSequence {
  uint32_t version;
  uint32_t flags;
  uint64_t start;
  uint64_t length;
  uint64_t abort_handler;
};
static_assert(sizeof(RseqSequence) == 32);

// All sequences of the library or program that this function is in.
std::span<const RseqSequence> TEST_RseqSequences();

// The sets, without the types: see PerCpuCells.
class PerCpuMemory {
 public:
  using Cell = std::atomic<uint64_t>;
  static_assert(sizeof(Cell) == 8 && Cell::is_always_lock_free);
  static constexpr int kAttempts = 4;

  // All cells are zero. Reserves address space for all sets; memory is used
  // where something was added. If there is no address space, there is one set
  // on path atomic. REQUIRES: the path is one that BestPerCpuPath() or the
  // machine offers; set_bytes is a multiple of kPageBytes.
  PerCpuMemory(PerCpuPath path, size_t set_bytes);
  ~PerCpuMemory();
  PerCpuMemory(const PerCpuMemory&) = delete;
  PerCpuMemory& operator=(const PerCpuMemory&) = delete;

  static constexpr size_t kPageBytes = 4096;

  PerCpuPath path() const { return path_; }
  // The overflow included.
  size_t set_count() const { return index_count_ + 1; }
  const Cell* set(size_t i) const { return SetAt(i); }
  Cell* set(size_t i) { return SetAt(i); }
  size_t reserved_bytes() const { return set_count() * set_bytes_; }
  // In pages of which something was read or written.
  size_t used_bytes() const;
  // How often T3 was taken on a path with sequences.
  uint64_t TEST_overflow_count() const {
    // relaxed: for a report.
    return overflow_count_.load(std::memory_order_relaxed);
  }

 protected:
  // T3.
  [[gnu::noinline]] void AddAtomically(size_t cell, uint64_t count);
  [[gnu::noinline]] void RecordAtomically(size_t bounds, size_t cell,
                                          uint64_t value);
  // After an abort: the rest of the attempts, then T3.
  [[gnu::noinline, gnu::cold]] void AddAgain(size_t cell, uint64_t count);
  [[gnu::noinline, gnu::cold]] void RecordAgain(size_t bounds, size_t cell,
                                                uint64_t value);

  Cell* SetAt(size_t i) const {
    return reinterpret_cast<Cell*>(base_ + i * set_bytes_);
  }
  // The set for atomic operations of the calling thread.
  Cell* AtomicSet();

#if VARVE_HAVE_RSEQ
  // One attempt each; false if it was aborted. Start and abort handler are
  // noted in __rseq_cs, in the group of the function, which may be discarded
  // with it. The range begins before the area is told of it: a trap that finds
  // a thread at `start` does not abort it, so that a test may run it from there
  // to its end. A fixed register and no output: GCC before 12.4 drops some
  // asm goto that have one. The handlers have a section of their own: this may
  // be inlined into a function in any other.
  [[gnu::always_inline]] static inline bool TryAdd(char* address,
                                                   size_t set_bytes,
                                                   ptrdiff_t area,
                                                   ptrdiff_t index,
                                                   uint64_t count) {
    asm volatile goto(
        ".pushsection __rseq_cs, \"aw?\"\n"
        ".balign 32\n"
        "9: .long 0, 0\n"
        ".quad 1f, 2f - 1f, 3f\n"
        ".popsection\n"
        "1: leaq 9b(%%rip), %%rax\n"
        "movq %%rax, %%fs:8(%[area])\n"
        "movl %%fs:(%[index]), %%eax\n"
        "imulq %[set_bytes], %%rax\n"
        "addq %[count], (%[address], %%rax)\n"
        "2:\n"
        ".pushsection .text.rseq_abort, \"ax?\"\n"
        ".byte 0x0f, 0xb9, 0x3d\n"
        ".long 0x53053053\n"
        "3: jmp %l[aborted]\n"
        ".popsection\n"
        :
        : [area] "r"(area), [index] "r"(index), [address] "r"(address),
          [set_bytes] "re"(set_bytes), [count] "re"(count)
        : "rax", "memory", "cc"
        : aborted);
    return true;
  aborted:
    return false;
  }

  [[gnu::always_inline]] static inline bool TryRecord(
      char* bounds, char* address, size_t set_bytes, ptrdiff_t area,
      ptrdiff_t index, uint64_t value) {
    asm volatile goto(
        ".pushsection __rseq_cs, \"aw?\"\n"
        ".balign 32\n"
        "9: .long 0, 0\n"
        ".quad 1f, 2f - 1f, 3f\n"
        ".popsection\n"
        "1: leaq 9b(%%rip), %%rax\n"
        "movq %%rax, %%fs:8(%[area])\n"
        "movl %%fs:(%[index]), %%eax\n"
        "imulq %[set_bytes], %%rax\n"
        "cmpq %[value], (%[bounds], %%rax)\n"
        "jae 4f\n"
        "movq %[value], (%[bounds], %%rax)\n"
        "4: cmpq %[complement], 8(%[bounds], %%rax)\n"
        "jae 5f\n"
        "movq %[complement], 8(%[bounds], %%rax)\n"
        "5: addq $1, (%[address], %%rax)\n"
        "2:\n"
        ".pushsection .text.rseq_abort, \"ax?\"\n"
        ".byte 0x0f, 0xb9, 0x3d\n"
        ".long 0x53053053\n"
        "3: jmp %l[aborted]\n"
        ".popsection\n"
        :
        : [area] "r"(area), [index] "r"(index), [bounds] "r"(bounds),
          [address] "r"(address), [set_bytes] "re"(set_bytes),
          [value] "r"(value), [complement] "r"(~value)
        : "rax", "memory", "cc"
        : aborted);
    return true;
  aborted:
    return false;
  }
#endif

  // Where the kernel keeps what it tells a thread, and of that, the index;
  // from the thread pointer. 0 on path atomic.
  ptrdiff_t area_ = 0;
  ptrdiff_t index_ = 0;
  char* base_ = nullptr;
  const size_t set_bytes_;
  size_t index_count_ = 0;
  PerCpuPath path_;
  bool mapped_ = false;
  std::atomic<uint64_t> overflow_count_{0};
};

// `kCells` cells for each processor. A pair of bounds is two cells: the largest
// value recorded, and the largest complement of one, so that zeros mean none.
template <size_t kCells>
class PerCpuCells final : public PerCpuMemory {
 public:
  static constexpr size_t kSetBytes =
      (kCells * sizeof(Cell) + kPageBytes - 1) / kPageBytes * kPageBytes;

  explicit PerCpuCells(PerCpuPath path = BestPerCpuPath())
      : PerCpuMemory(path, kSetBytes) {}

  // REQUIRES, of all cells: less than kCells.
  void Add(size_t cell, uint64_t count) {
    VARVE_DCHECK(cell < kCells);
#if VARVE_HAVE_RSEQ
    if (area_ != 0) [[likely]] {
      if (!TryAdd(base_ + cell * sizeof(Cell), kSetBytes, area_, index_, count))
          [[unlikely]] {
        AddAgain(cell, count);
      }
      return;
    }
#endif
    AddAtomically(cell, count);
  }

  // Adds 1 to `cell`, after it has taken account of `value` in the cells
  // `bounds` and `bounds + 1`.
  void Record(size_t bounds, size_t cell, uint64_t value) {
    VARVE_DCHECK(bounds + 1 < kCells && cell < kCells);
#if VARVE_HAVE_RSEQ
    if (area_ != 0) [[likely]] {
      if (!TryRecord(base_ + bounds * sizeof(Cell), base_ + cell * sizeof(Cell),
                     kSetBytes, area_, index_, value)) [[unlikely]] {
        RecordAgain(bounds, cell, value);
      }
      return;
    }
#endif
    RecordAtomically(bounds, cell, value);
  }

  // T4. Modulo 2^64.
  uint64_t Sum(size_t cell) const {
    uint64_t sum = 0;
    for (size_t i = 0; i < set_count(); ++i) {
      // relaxed: a count orders nothing.
      sum += SetAt(i)[cell].load(std::memory_order_relaxed);
    }
    return sum;
  }
};

// Zeroed memory that is used page by page; null if there is no address space.
void* ReserveZeroed(size_t bytes);
void ReleaseReserved(void* memory, size_t bytes);
// Of the pages of such memory, those that something was read from or written
// to, in bytes.
size_t ResidentBytes(const void* memory, size_t bytes);

}  // namespace varve
