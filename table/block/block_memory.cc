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

namespace varve {

namespace {

constexpr size_t kAlignment = 64;
constexpr size_t kChunkBytes = size_t{2} << 20;

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
  // Neighbors in the list of chunks of the class that have space.
  Chunk* previous = nullptr;
  Chunk* next = nullptr;
};

// Returns null if memory is exhausted.
Chunk* NewChunk() {
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
  madvise(memory, kChunkBytes, MADV_HUGEPAGE);  // A wish: it may be refused.
  // relaxed: only reported.
  chunk_bytes.fetch_add(kChunkBytes, std::memory_order_relaxed);
  auto* const chunk = new (memory) Chunk;
  chunk->fresh_at = sizeof(Chunk);
  return chunk;
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
    munmap(chunk, kChunkBytes);
    // relaxed: only reported.
    chunk_bytes.fetch_sub(kChunkBytes, std::memory_order_relaxed);
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
