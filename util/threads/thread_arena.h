// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Per-thread arenas. A call needs memory besides its arguments: the iterator
// tree, key buffers, MultiGet scratch. All of it comes from one arena, which
// allocates by advancing an offset. When the use ends, the whole arena goes to
// the thread that ended it. The next use takes it from that thread's record and
// does not call the allocator.
//
// An arena that is kept holds only memory: no pin and no reference. Its root
// may remember an object that it pointed to, with a number that tells whether
// the object still exists.
//
// A thread keeps some arenas of each kind, each of a bounded size. An arena
// that needed several pieces is fragmented. Its pieces are freed. It then gets
// one piece of their total size, or is freed if that is above the bound.
//
// Thread-safety: an arena is owned by one thread at a time. Its use may end on
// another thread than it began. It then belongs to that thread.

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "util/threads/memory_account.h"
#include "util/threads/thread_record.h"

namespace varve {

enum class ArenaKind : uint8_t { kIterator, kMultiGet };

class ThreadArena {
 public:
  // The size limit of one kept arena, and how many a thread keeps of each kind.
  static constexpr size_t kMaxKeptBytes = size_t{256} << 10;
  static constexpr uint32_t kMaxKept = 4;

  // Returns the newest arena kept by the calling thread for which matches(root)
  // is true. If there is none, it returns a new one, whose root is null. If the
  // thread keeps its full number, it returns the oldest one instead.
  template <typename Matches>
  static ThreadArena* Take(ArenaKind kind, Matches matches);
  static ThreadArena* Take(ArenaKind kind) {
    return Take(kind, [](const void*) { return true; });
  }

  // Ends the use. The calling thread keeps the arena, or it is freed. If the
  // thread keeps its full number, the oldest is freed. REQUIRES: the root is
  // ready to be kept: it depends on no other object.
  void GiveBack();

  // Lives until Reset, or until the arena is freed. Aligned to kAlignment.
  void* Allocate(size_t bytes) {
    const size_t rounded = (bytes + kAlignment - 1) & ~(kAlignment - 1);
    if (rounded > static_cast<size_t>(end_ - next_)) [[unlikely]] {
      return AllocateSlow(rounded);
    }
    char* const result = next_;
    next_ += rounded;
    return result;
  }

  // The object that is found again when the arena is taken, and how to destroy
  // it if the arena is not kept. It is allocated in the arena, and Reset
  // discards it.
  void* root() const { return root_; }
  void SetRoot(void* root, void (*destroy)(void*)) {
    root_ = root;
    destroy_ = destroy;
  }

  // Destroys the root, and frees all allocations for reuse.
  void Reset();

  // Returns the total size of its pieces.
  size_t bytes() const { return bytes_; }

  // Frees the arenas that the thread of the record keeps. REQUIRES: no other
  // thread uses the record.
  static void FreeKept(ThreadRecord* record);

  static constexpr size_t kAlignment = 16;

 private:
  friend class ScopedArena;

  struct Piece {
    Piece* next;
    MemoryAccount* account;
    size_t bytes;
  };
  static constexpr size_t kFirstBytes = size_t{8} << 10;

  explicit ThreadArena(ArenaKind kind, size_t bytes)
      : kind_(kind),
        bytes_(bytes),
        own_bytes_(bytes),
        account_(NoteAllocated(MemoryKind::kIterator, bytes)) {
    Rewind();
  }
  ~ThreadArena() = default;
  static ThreadArena* Make(ArenaKind kind, size_t bytes);
  void Free();
  void FreePieces();
  void Rewind() {
    next_ = reinterpret_cast<char*>(this) + kHeaderBytes;
    end_ = reinterpret_cast<char*>(this) + own_bytes_;
  }
  [[gnu::noinline]] void* AllocateSlow(size_t bytes);

  static const size_t kHeaderBytes;

  char* next_;
  char* end_;
  const ArenaKind kind_;
  size_t bytes_;
  const size_t own_bytes_;  // The first piece, which holds this.
  MemoryAccount* const account_;
  Piece* pieces_ = nullptr;
  void* root_ = nullptr;
  void (*destroy_)(void*) = nullptr;
  ThreadArena* next_kept_ = nullptr;
};

inline constexpr size_t ThreadArena::kHeaderBytes =
    (sizeof(ThreadArena) + kAlignment - 1) & ~(kAlignment - 1);

template <typename Matches>
ThreadArena* ThreadArena::Take(ArenaKind kind, Matches matches) {
  ThreadRecord::KeptArenas& kept =
      CurrentThreadRecord()->arenas[static_cast<int>(kind)];
  ThreadArena** link = &kept.newest;
  while (*link != nullptr && !matches((*link)->root_)) {
    link = &(*link)->next_kept_;
  }
  if (*link == nullptr) [[unlikely]] {
    if (kept.count < kMaxKept) return Make(kind, kFirstBytes);
    for (link = &kept.newest; (*link)->next_kept_ != nullptr;) {
      link = &(*link)->next_kept_;
    }
  }
  ThreadArena* const taken = *link;
  *link = taken->next_kept_;
  --kept.count;
  return taken;
}

// Lends an empty arena for a scope, or null if `fresh`.
class ScopedArena {
 public:
  ScopedArena(ArenaKind kind, bool fresh)
      : memory_(fresh ? nullptr : ThreadArena::Take(kind)) {}
  ~ScopedArena() {
    if (memory_ == nullptr) return;
    memory_->Rewind();
    memory_->GiveBack();
  }
  ScopedArena(const ScopedArena&) = delete;
  ScopedArena& operator=(const ScopedArena&) = delete;

  ThreadArena* memory() const { return memory_; }

 private:
  ThreadArena* const memory_;
};

// A base class for objects that are allocated in an arena if `new` is given
// one. Then `delete` destroys them without freeing memory. Otherwise they are
// on the heap.
class InArena {
 public:
  static void* operator new(size_t size) { return New(size, nullptr); }
  static void* operator new(size_t size, ThreadArena* memory) {
    return New(size, memory);
  }
  static void operator delete(void* object) {
    char* const place = static_cast<char*>(object) - kHeaderBytes;
    if (*place == 0) FreeHeap(place);
  }
  static void operator delete(void* object, ThreadArena* /*memory*/) {
    operator delete(object);
  }

 private:
  static constexpr size_t kHeaderBytes = ThreadArena::kAlignment;

  // Not inline, or compilers take the header for a mismatch of new and delete.
  static void* AllocateHeap(size_t size);
  static void FreeHeap(void* place);

  static void* New(size_t size, ThreadArena* memory) {
    size += kHeaderBytes;
    char* const place = static_cast<char*>(
        memory != nullptr ? memory->Allocate(size) : AllocateHeap(size));
    *place = memory != nullptr;
    return place + kHeaderBytes;
  }
};

// An allocator for containers in an arena. With null they use the heap.
template <typename T>
class ArenaAllocator {
 public:
  using value_type = T;

  // NOLINTNEXTLINE: implicit, as a container takes it.
  ArenaAllocator(ThreadArena* memory) : memory_(memory) {}
  template <typename U>
  // NOLINTNEXTLINE: as above.
  ArenaAllocator(const ArenaAllocator<U>& other) : memory_(other.memory()) {}

  T* allocate(size_t count) {
    const size_t bytes = count * sizeof(T);
    return static_cast<T*>(memory_ != nullptr ? memory_->Allocate(bytes)
                                              : ::operator new(bytes));
  }
  void deallocate(T* items, size_t /*count*/) {
    if (memory_ == nullptr) ::operator delete(items);
  }
  ThreadArena* memory() const { return memory_; }

  template <typename U>
  friend bool operator==(const ArenaAllocator& a, const ArenaAllocator<U>& b) {
    return a.memory() == b.memory();
  }

 private:
  ThreadArena* memory_;
};

template <typename T>
using ArenaVector = std::vector<T, ArenaAllocator<T>>;

// A byte buffer that grows on demand. It is in an arena. It is on the heap if
// there is no arena or the buffer is large.
class ArenaBuffer {
 public:
  static constexpr size_t kMaxBytesInArena = size_t{32} << 10;

  ArenaBuffer() = default;
  // `memory` may be null, and must outlive it.
  explicit ArenaBuffer(ThreadArena* memory) : memory_(memory) {}
  ArenaBuffer(ArenaBuffer&& other) noexcept { *this = std::move(other); }
  ArenaBuffer& operator=(ArenaBuffer&& other) noexcept {
    std::swap(memory_, other.memory_);
    std::swap(data_, other.data_);
    std::swap(capacity_, other.capacity_);
    std::swap(heap_, other.heap_);
    other.Release();
    return *this;
  }
  ~ArenaBuffer() = default;

  char* data() const { return data_; }
  size_t capacity() const { return capacity_; }

  // Makes space for `bytes` bytes. The contents are lost if the buffer must
  // grow.
  char* Reserve(size_t bytes) {
    if (bytes > capacity_ || data_ == nullptr) Grow(bytes, nullptr, 0);
    return data_;
  }
  // Makes space in new memory that begins with a copy of `kept`, which may
  // point into the old memory.
  char* Grow(size_t bytes, const char* kept, size_t kept_bytes);

  // Frees memory on the heap. Returns true if there was some.
  bool Trim() {
    if (heap_ == nullptr) return false;
    Release();
    return true;
  }

 private:
  void Release() {
    heap_.reset();
    data_ = nullptr;
    capacity_ = 0;
  }

  ThreadArena* memory_ = nullptr;
  char* data_ = nullptr;
  size_t capacity_ = 0;
  std::unique_ptr<char[]> heap_;  // Null if the data are in the arena.
};

}  // namespace varve
