// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "table/block/block_memory.h"

#include <sys/mman.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <new>

#include "util/base/mutex.h"
#include "util/base/process_wide.h"
#include "util/threads/fork_watch.h"
#include "util/threads/thread_pool.h"

namespace varve {

namespace {

constexpr size_t kAlignment = 64;
constexpr size_t kChunkBytes = size_t{2} << 20;
constexpr size_t kSmallPageBytes = size_t{4} << 10;

// Sizes of places: multiples of the fine step, and above it of the coarse step.
constexpr size_t kFineStep = 128;
constexpr size_t kMaxFine = size_t{8} << 10;
constexpr size_t kCoarseStep = 1024;
constexpr size_t kMaxPlace = size_t{64} << 10;
constexpr size_t kFineClasses = kMaxFine / kFineStep;
constexpr size_t kClasses = kFineClasses + (kMaxPlace - kMaxFine) / kCoarseStep;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kChunksUsed = false;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
constexpr bool kChunksUsed = false;
#else
constexpr bool kChunksUsed = true;
#endif
#else
constexpr bool kChunksUsed = true;
#endif

size_t ClassOf(size_t size) {
  if (size <= kMaxFine) return (size + kFineStep - 1) / kFineStep - 1;
  return kFineClasses + (size - kMaxFine + kCoarseStep - 1) / kCoarseStep - 1;
}
size_t PlaceBytes(size_t size_class) {
  if (size_class < kFineClasses) return (size_class + 1) * kFineStep;
  return kMaxFine + (size_class - kFineClasses + 1) * kCoarseStep;
}

std::atomic<size_t> chunk_bytes{0};

struct FreePlace {
  FreePlace* next;
};

// Located at the beginning of its memory. Guarded by the mutex of its class.
struct alignas(kAlignment) Chunk {
  size_t used_places = 0;
  size_t fresh_at = 0;  // Nothing after this was ever allocated.
  FreePlace* free = nullptr;
  bool is_touched = false;  // All of its pages are in memory.
  // Neighbors in the list of chunks of the class that have space.
  Chunk* previous = nullptr;
  Chunk* next = nullptr;
};

// Returns kChunkBytes at a multiple of that, or null if memory is exhausted.
// `advice` is about huge pages; the kernel may ignore it.
void* MapChunk(int advice) {
  // Maps twice the size, and trims it to the alignment of a huge page.
  void* const mapped = mmap(nullptr, 2 * kChunkBytes, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) return nullptr;
  const auto begin = reinterpret_cast<uintptr_t>(mapped);
  const uintptr_t aligned = (begin + kChunkBytes - 1) & ~(kChunkBytes - 1);
  if (aligned > begin) munmap(mapped, aligned - begin);
  munmap(reinterpret_cast<void*>(aligned + kChunkBytes),
         begin + kChunkBytes - aligned);
  void* const memory = reinterpret_cast<void*>(aligned);
  madvise(memory, kChunkBytes, advice);
  return memory;
}

// Memory for chunks whose pages were touched already. `chunks_` are null, or
// memory that the thread owns whose exchange finds it. release in Fill and Give
// pairs with acquire in Take: what was written there happens before its reuse.
class ReadyChunks final : private ForkWatch {
 public:
  ReadyChunks() : registration_(this) {}

  // Returns null if none is ready. Has the taken one replaced.
  void* Take() {
    void* memory = nullptr;
    for (std::atomic<void*>& chunk : chunks_) {
      // acquire: see above.
      memory = chunk.exchange(nullptr, std::memory_order_acquire);
      if (memory != nullptr) break;
    }
    // relaxed: a thread that sees true leaves the work to the job, which looks
    // at all places after it has set false.
    if (!is_filling_.exchange(true, std::memory_order_relaxed) &&
        !pool_.Schedule([this] { Fill(); }).ok()) {
      // relaxed: the next call tries again.
      is_filling_.store(false, std::memory_order_relaxed);
    }
    return memory;
  }

  // Takes the memory over, if a place is free.
  bool Give(void* memory) {
    for (std::atomic<void*>& chunk : chunks_) {
      void* none = nullptr;
      // release: see above. relaxed: another thread's memory is not accessed.
      if (chunk.compare_exchange_strong(none, memory, std::memory_order_release,
                                        std::memory_order_relaxed)) {
        return true;
      }
    }
    return false;
  }

  size_t WaitForCount() {
    pool_.WaitForIdle();
    size_t count = 0;
    for (const std::atomic<void*>& chunk : chunks_) {
      // relaxed: only counted.
      if (chunk.load(std::memory_order_relaxed) != nullptr) ++count;
    }
    return count;
  }

 private:
  bool IsFull() const {
    for (const std::atomic<void*>& chunk : chunks_) {
      // relaxed: only counted.
      if (chunk.load(std::memory_order_relaxed) == nullptr) return false;
    }
    return true;
  }

  void Fill() {
    while (!IsFull()) {
      auto* const memory = static_cast<volatile char*>(MapChunk(MADV_HUGEPAGE));
      if (memory == nullptr) break;
      // If it is not one huge page, each page is touched.
      for (size_t i = 0; i < kChunkBytes; i += kSmallPageBytes) memory[i] = 0;
      void* const whole = const_cast<char*>(memory);
      if (!Give(whole)) munmap(whole, kChunkBytes);
    }
    // relaxed: see Take. A chunk taken since the last look is replaced after
    // the next call of Take.
    is_filling_.store(false, std::memory_order_relaxed);
  }

  // The pool has dropped the job.
  void InForkedChild() override {
    // relaxed: the child has one thread.
    is_filling_.store(false, std::memory_order_relaxed);
  }

  std::array<std::atomic<void*>, kReadyChunks> chunks_{};
  std::atomic<bool> is_filling_{false};
  // It must not take the processor from the read that had it woken.
  ThreadPool pool_{{.name = "varve:pages", .lower_cpu_priority = true}};
  const Registration registration_;
};

// Never destroyed, as the classes below.
ReadyChunks& Ready() {
  static constinit ProcessWide<ReadyChunks> ready;
  return ready.Get();
}

// Returns null if memory is exhausted.
Chunk* NewChunk() {
  void* memory = Ready().Take();
  const bool is_touched = memory != nullptr;
  if (!is_touched) memory = MapChunk(MADV_NOHUGEPAGE);
  if (memory == nullptr) return nullptr;
  // relaxed: only reported.
  chunk_bytes.fetch_add(kChunkBytes, std::memory_order_relaxed);
  auto* const chunk = new (memory) Chunk;
  chunk->fresh_at = sizeof(Chunk);
  chunk->is_touched = is_touched;
  return chunk;
}

void FreeChunk(Chunk* chunk) {
  // relaxed: only reported.
  chunk_bytes.fetch_sub(kChunkBytes, std::memory_order_relaxed);
  if (chunk->is_touched && Ready().Give(chunk)) return;
  munmap(chunk, kChunkBytes);
}

// The chunks of one size of places.
class SizeClass {
 public:
  void* Allocate(size_t place_bytes) {
    MutexLock lock(&mu_);
    if (with_space_ == nullptr) {
      Chunk* const chunk = NewChunk();
      if (chunk == nullptr) return nullptr;
      AddToList(chunk);
    }
    Chunk* const chunk = with_space_;
    if (chunk == kept_) kept_ = nullptr;
    void* place = chunk->free;
    if (place != nullptr) {
      chunk->free = chunk->free->next;
    } else {
      place = reinterpret_cast<char*>(chunk) + chunk->fresh_at;
      chunk->fresh_at += place_bytes;
    }
    ++chunk->used_places;
    if (IsFull(*chunk, place_bytes)) RemoveFromList(chunk);
    return place;
  }

  void Free(void* memory, size_t place_bytes) {
    auto* const chunk = reinterpret_cast<Chunk*>(
        reinterpret_cast<uintptr_t>(memory) & ~(kChunkBytes - 1));
    {
      MutexLock lock(&mu_);
      if (IsFull(*chunk, place_bytes)) AddToList(chunk);
      auto* const place = new (memory) FreePlace;
      place->next = chunk->free;
      chunk->free = place;
      if (--chunk->used_places > 0) return;
      // One empty chunk is kept, so that repeated allocations and frees of one
      // block do not each cost a system call.
      if (kept_ == nullptr) {
        kept_ = chunk;
        return;
      }
      RemoveFromList(chunk);
    }
    FreeChunk(chunk);
  }

 private:
  static bool IsFull(const Chunk& chunk, size_t place_bytes) {
    return chunk.free == nullptr && chunk.fresh_at + place_bytes > kChunkBytes;
  }
  void AddToList(Chunk* chunk) VARVE_REQUIRES(mu_) {
    chunk->previous = nullptr;
    chunk->next = with_space_;
    if (with_space_ != nullptr) with_space_->previous = chunk;
    with_space_ = chunk;
  }
  void RemoveFromList(Chunk* chunk) VARVE_REQUIRES(mu_) {
    if (chunk->next != nullptr) chunk->next->previous = chunk->previous;
    if (chunk->previous != nullptr) {
      chunk->previous->next = chunk->next;
    } else {
      with_space_ = chunk->next;
    }
  }

  Mutex mu_;
  Chunk* with_space_ VARVE_GUARDED_BY(mu_) = nullptr;
  Chunk* kept_ VARVE_GUARDED_BY(mu_) = nullptr;  // Empty, and in the list.
};

// Never destroyed: blocks may be freed after everything else.
std::array<SizeClass, kClasses>& Classes() {
  static constinit ProcessWide<std::array<SizeClass, kClasses>> classes;
  return classes.Get();
}

bool InChunk(size_t size, bool huge_pages) {
  return kChunksUsed && huge_pages && size > 0 && size <= kMaxPlace;
}

}  // namespace

size_t TEST_BlockChunkBytes() {
  // relaxed: only reported.
  return chunk_bytes.load(std::memory_order_relaxed);
}

size_t TEST_WaitForReadyChunks() { return Ready().WaitForCount(); }

void* AllocateBlockMemory(size_t size, bool huge_pages) {
  if (!InChunk(size, huge_pages)) {
    return ::operator new(size, std::align_val_t{kAlignment});
  }
  const size_t size_class = ClassOf(size);
  void* const memory = Classes()[size_class].Allocate(PlaceBytes(size_class));
  if (memory == nullptr) std::abort();  // Like operator new without exceptions.
  return memory;
}

void FreeBlockMemory(void* memory, size_t size, bool huge_pages) {
  if (!InChunk(size, huge_pages)) {
    ::operator delete(memory, std::align_val_t{kAlignment});
    return;
  }
  const size_t size_class = ClassOf(size);
  Classes()[size_class].Free(memory, PlaceBytes(size_class));
}

}  // namespace varve
