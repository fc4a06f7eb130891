// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Per-CPU counters by restartable sequences. Each processor has a set of 64-bit
// cells. A thread adds to the set of the processor on which it runs, and shares
// no cache line with threads on other processors. A query sums the sets. Its
// cost does not depend on the number of threads.
//
// On x86-64 an addition is a restartable sequence: plain instructions, without
// a lock prefix. The kernel knows the first and the last (section __rseq_cs).
// If it preempts the thread in between, or delivers a signal, it resumes the
// thread at the abort handler, and nothing was added.
// Thread-safety: thread-safe. A child of fork() has a copy.
//
// Words and states
//   Set i, one for each index that the kernel may give to a running thread. The
//   index is the thread's concurrency id, which is dense among the threads of a
//   process, or else the number of its processor. One more set is the overflow.
//   Path rseq: set i is written by the thread that has index i now, and the
//   overflow by any thread. Path atomic: all sets are written by any thread.
// Transitions
//   T1 add, path rseq: in one sequence, read the index and add to the cell of
//      that set. The addition is the last instruction.
//   T2 record, path rseq: in one sequence, read the index, raise the two bounds
//      of that set, and add to the cell. The addition is the last instruction.
//   T3 after kAttempts aborts, or on path atomic: the same by atomic operations
//      on the overflow, or on the set of the current processor.
//   T4 query: load the cell of each set.
// Invariants
//   I1 each call adds once. An aborted sequence has not reached its last
//      instruction. A sequence that has reached it is not restarted.
//   I2 two threads never write to a set by T1 or T2 at a time. An index belongs
//      to one running thread. When the next thread gets it, the previous thread
//      is outside of the sequence or was sent to the abort handler.
//   I3 a bound is at least the largest value that a cell of its set counts: T2
//      raises the bound before it adds. The bound may also come from an attempt
//      that was aborted and then added elsewhere. That value was recorded all
//      the same.
// Why each order is needed
//   None is needed. A query reads the bounds, then the cells between them. A
//   value that is recorded at the same time may be in its cell and not yet in a
//   bound, or the reverse: the query misses it, or a bound is a little off.
// Bad interleavings prevented
//   B1 a thread reads its index, moves to another processor, and adds to the
//      set of the former while another thread does: the kernel aborts it.
//   B2 a debugger steps through the sequence, or signals come without end, and
//      each trap aborts it: after kAttempts it goes to the overflow (T3).
//   B3 a set is written by T1 and by an atomic operation, which does not see a
//      plain addition that is under way: the overflow is a separate set.
//   B4 the library that contains the descriptor is unloaded while a thread's
//      area still points to it: the library is linked so that it stays loaded.
// Freshness and progress
//   A query sees every addition that happened before it. An addition waits for
//   no thread and takes a bounded number of steps.
// Reclamation
//   The memory is freed with its owner. No thread may use it then.

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

// How a thread finds and changes its set.
enum class PerCpuPath : uint8_t {
  kConcurrencyId,  // Restartable sequences, index: the concurrency id.
  kCpuId,          // Restartable sequences, index: the processor's number.
  kAtomic,         // The processor's number, and a relaxed atomic addition.
};

// Returns a name such as "rseq (concurrency id)".
const char* PerCpuPathName(PerCpuPath path);

// Returns the first path in the order of the enumeration that the C library,
// the kernel and the machine support. The C library registers each thread
// unless it is configured not to (GLIBC_TUNABLES=glibc.pthread.rseq=0). Under
// valgrind it cannot.
PerCpuPath BestPerCpuPath();

// Returns a number above every index that a thread of this process can get. It
// counts the processors that exist or may be plugged in.
size_t PossibleCpus();
// Replaces that number in this process, for a simulation of another machine.
// REQUIRES: PossibleCpus was not called before.
void PretendPossibleCpus(size_t count);

// A restartable sequence, in the kernel's format.
struct alignas(32) RseqSequence {
  uint32_t version;
  uint32_t flags;
  uint64_t start;
  uint64_t length;
  uint64_t abort_handler;
};
static_assert(sizeof(RseqSequence) == 32);

// Returns all sequences of the library or program that contains this function.
std::span<const RseqSequence> TEST_RseqSequences();

// The sets, without types. See PerCpuCells.
class PerCpuMemory {
 public:
  using Cell = std::atomic<uint64_t>;
  static_assert(sizeof(Cell) == 8 && Cell::is_always_lock_free);
  static constexpr int kAttempts = 4;

  // Sets all cells to zero. Reserves address space for all sets. Only pages
  // that are written use memory. If there is no address space, there is one set
  // on path atomic. REQUIRES: the path is one that BestPerCpuPath() or the
  // machine supports; set_bytes is a multiple of kPageBytes.
  PerCpuMemory(PerCpuPath path, size_t set_bytes);
  ~PerCpuMemory();
  PerCpuMemory(const PerCpuMemory&) = delete;
  PerCpuMemory& operator=(const PerCpuMemory&) = delete;

  static constexpr size_t kPageBytes = 4096;

  PerCpuPath path() const { return path_; }
  // Includes the overflow.
  size_t set_count() const { return index_count_ + 1; }
  const Cell* set(size_t i) const { return SetAt(i); }
  Cell* set(size_t i) { return SetAt(i); }
  size_t reserved_bytes() const { return set_count() * set_bytes_; }
  // Returns the size of the pages that were read or written.
  size_t used_bytes() const;
  // Returns the number of times that T3 ran on a path with sequences.
  uint64_t TEST_overflow_count() const {
    // relaxed: for a report.
    return overflow_count_.load(std::memory_order_relaxed);
  }

 protected:
  // T3.
  [[gnu::noinline]] void AddAtomically(size_t cell, uint64_t count);
  [[gnu::noinline]] void RecordAtomically(size_t bounds, size_t cell,
                                          uint64_t value);
  // Runs after an abort: the remaining attempts, then T3.
  [[gnu::noinline, gnu::cold]] void AddAgain(size_t cell, uint64_t count);
  [[gnu::noinline, gnu::cold]] void RecordAgain(size_t bounds, size_t cell,
                                                uint64_t value);

  Cell* SetAt(size_t i) const {
    return reinterpret_cast<Cell*>(base_ + i * set_bytes_);
  }
  // Returns the set for the calling thread's atomic operations.
  Cell* AtomicSet();

#if VARVE_HAVE_RSEQ
  // Makes one attempt. Returns false if it was aborted. Start and abort handler
  // are recorded in __rseq_cs, in the group of the function, so the linker may
  // discard them with it. The range begins before the area is set: a trap that
  // finds a thread at `start` does not abort it, so that a test may run it from
  // there to its end. A fixed register and no output: GCC before 12.4 drops
  // some asm goto statements that have outputs. The handlers have a section of
  // their own, since this may be inlined into a function in any other section.
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

  // Offsets from the thread pointer: of the area where the kernel keeps a
  // thread's data, and of the index in it. 0 on path atomic.
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

  // Adds 1 to `cell`, after it has raised the bounds in the cells `bounds` and
  // `bounds + 1` to cover `value`.
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

  // T4. Returns the sum modulo 2^64.
  uint64_t Sum(size_t cell) const {
    uint64_t sum = 0;
    for (size_t i = 0; i < set_count(); ++i) {
      // relaxed: a count orders nothing.
      sum += SetAt(i)[cell].load(std::memory_order_relaxed);
    }
    return sum;
  }
};

// Returns zeroed memory that is used page by page, or null if there is no
// address space.
void* ReserveZeroed(size_t bytes);
void ReleaseReserved(void* memory, size_t bytes);
// Returns the bytes of the pages of such memory that were read or written.
size_t ResidentBytes(const void* memory, size_t bytes);

}  // namespace varve
