// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Contexts: what a call needs besides its arguments (the tree of an iterator,
// buffers of keys, scratch of a MultiGet) lies in one piece of memory, which
// is handed out from front to back, and goes back as a whole to the thread
// that ends the use. The next use takes it from that thread's record, without
// asking the allocator.
//
// A context that is kept holds memory and nothing else: no pin, no reference.
// Its root may remember where it pointed to, by a number that tells whether
// that is still there.
//
// A thread keeps some contexts of each kind, each of a bounded size. One that
// had to take more pieces is fragmented: these are given back, and it gets one
// piece of the sum, or goes if that is beyond the bound.
//
// Thread-safety: a context is owned by one thread at a time; it may end its
// use on another one than it began, and is then that one's.

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

enum class ContextKind : uint8_t { kIterator, kMultiGet };

class ContextMemory {
 public:
  // Of one context that is kept, and how many a thread keeps of each kind.
  static constexpr size_t kMaxKeptBytes = size_t{256} << 10;
  static constexpr uint32_t kMaxKept = 4;

  // The newest that the calling thread keeps for which matches(root) is true.
  // If there is none: a new one, whose root is null, as long as it does not
  // keep its full number, else the oldest.
  template <typename Matches>
  static ContextMemory* Take(ContextKind kind, Matches matches);
  static ContextMemory* Take(ContextKind kind) {
    return Take(kind, [](const void*) { return true; });
  }

  // Ends the use: the calling thread keeps it, or it is freed; if the thread
  // keeps its full number, the oldest goes. REQUIRES: the root is ready to be
  // kept: it needs nobody else.
  void GiveBack();

  // Lives until Reset, or until the context is freed. Aligned to kAlignment.
  void* Allocate(size_t bytes) {
    const size_t rounded = (bytes + kAlignment - 1) & ~(kAlignment - 1);
    if (rounded > static_cast<size_t>(end_ - next_)) [[unlikely]] {
      return AllocateSlow(rounded);
    }
    char* const result = next_;
    next_ += rounded;
    return result;
  }

  // What is found again when the context is taken, and how to destroy it, for
  // when the context is not kept. It lies in the context, where Reset forgets
  // it.
  void* root() const { return root_; }
  void SetRoot(void* root, void (*destroy)(void*)) {
    root_ = root;
    destroy_ = destroy;
  }

  // Destroys the root, and takes all memory back.
  void Reset();

  // Of all its pieces.
  size_t bytes() const { return bytes_; }

  // Frees what the thread of the record keeps. REQUIRES: no other thread uses
  // the record.
  static void FreeKept(ThreadRecord* record);

  static constexpr size_t kAlignment = 16;

 private:
  friend class ContextLoan;

  struct Piece {
    Piece* next;
    MemoryAccount* account;
    size_t bytes;
  };
  static constexpr size_t kFirstBytes = size_t{8} << 10;

  explicit ContextMemory(ContextKind kind, size_t bytes)
      : kind_(kind),
        bytes_(bytes),
        own_bytes_(bytes),
        account_(NoteAllocated(MemoryKind::kIterator, bytes)) {
    Rewind();
  }
  ~ContextMemory() = default;
  static ContextMemory* Make(ContextKind kind, size_t bytes);
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
  const ContextKind kind_;
  size_t bytes_;
  const size_t own_bytes_;  // Of the first piece, which begins with this.
  MemoryAccount* const account_;
  Piece* pieces_ = nullptr;
  void* root_ = nullptr;
  void (*destroy_)(void*) = nullptr;
  ContextMemory* next_kept_ = nullptr;
};

inline constexpr size_t ContextMemory::kHeaderBytes =
    (sizeof(ContextMemory) + kAlignment - 1) & ~(kAlignment - 1);

template <typename Matches>
ContextMemory* ContextMemory::Take(ContextKind kind, Matches matches) {
  ThreadRecord::KeptContexts& kept =
      CurrentThreadRecord()->contexts[static_cast<int>(kind)];
  ContextMemory** link = &kept.newest;
  while (*link != nullptr && !matches((*link)->root_)) {
    link = &(*link)->next_kept_;
  }
  if (*link == nullptr) [[unlikely]] {
    if (kept.count < kMaxKept) return Make(kind, kFirstBytes);
    for (link = &kept.newest; (*link)->next_kept_ != nullptr;) {
      link = &(*link)->next_kept_;
    }
  }
  ContextMemory* const taken = *link;
  *link = taken->next_kept_;
  --kept.count;
  return taken;
}

// Lends a context without contents for a scope, or, if `fresh`, null.
class ContextLoan {
 public:
  ContextLoan(ContextKind kind, bool fresh)
      : memory_(fresh ? nullptr : ContextMemory::Take(kind)) {}
  ~ContextLoan() {
    if (memory_ == nullptr) return;
    memory_->Rewind();
    memory_->GiveBack();
  }
  ContextLoan(const ContextLoan&) = delete;
  ContextLoan& operator=(const ContextLoan&) = delete;

  ContextMemory* memory() const { return memory_; }

 private:
  ContextMemory* const memory_;
};

// Objects of these classes lie in a context, if `new` is given one, and then
// `delete` destroys them without giving memory back; else on the heap.
class InContext {
 public:
  static void* operator new(size_t size) { return New(size, nullptr); }
  static void* operator new(size_t size, ContextMemory* memory) {
    return New(size, memory);
  }
  static void operator delete(void* object) {
    char* const place = static_cast<char*>(object) - kHeaderBytes;
    if (*place == 0) FreeHeap(place);
  }
  static void operator delete(void* object, ContextMemory* /*memory*/) {
    operator delete(object);
  }

 private:
  static constexpr size_t kHeaderBytes = ContextMemory::kAlignment;

  // Not inline, or compilers take the header for a mismatch of new and delete.
  static void* AllocateHeap(size_t size);
  static void FreeHeap(void* place);

  static void* New(size_t size, ContextMemory* memory) {
    size += kHeaderBytes;
    char* const place = static_cast<char*>(
        memory != nullptr ? memory->Allocate(size) : AllocateHeap(size));
    *place = memory != nullptr;
    return place + kHeaderBytes;
  }
};

// For containers that lie in a context; in none (null) they use the heap.
template <typename T>
class ContextAllocator {
 public:
  using value_type = T;

  // NOLINTNEXTLINE: implicit, as a container takes it.
  ContextAllocator(ContextMemory* memory) : memory_(memory) {}
  template <typename U>
  // NOLINTNEXTLINE: as above.
  ContextAllocator(const ContextAllocator<U>& other)
      : memory_(other.memory()) {}

  T* allocate(size_t count) {
    const size_t bytes = count * sizeof(T);
    return static_cast<T*>(memory_ != nullptr ? memory_->Allocate(bytes)
                                              : ::operator new(bytes));
  }
  void deallocate(T* items, size_t /*count*/) {
    if (memory_ == nullptr) ::operator delete(items);
  }
  ContextMemory* memory() const { return memory_; }

  template <typename U>
  friend bool operator==(const ContextAllocator& a,
                         const ContextAllocator<U>& b) {
    return a.memory() == b.memory();
  }

 private:
  ContextMemory* memory_;
};

template <typename T>
using ContextVector = std::vector<T, ContextAllocator<T>>;

// Bytes that grow on demand: in a context, or, if there is none or they are
// many, on the heap.
class ContextBuffer {
 public:
  static constexpr size_t kMaxBytesInContext = size_t{32} << 10;

  ContextBuffer() = default;
  // `memory` may be null, and must outlive it.
  explicit ContextBuffer(ContextMemory* memory) : memory_(memory) {}
  ContextBuffer(ContextBuffer&& other) noexcept { *this = std::move(other); }
  ContextBuffer& operator=(ContextBuffer&& other) noexcept {
    std::swap(memory_, other.memory_);
    std::swap(data_, other.data_);
    std::swap(capacity_, other.capacity_);
    std::swap(heap_, other.heap_);
    other.Release();
    return *this;
  }
  ~ContextBuffer() = default;

  char* data() const { return data_; }
  size_t capacity() const { return capacity_; }

  // Makes room for so many bytes; what is there is lost if it must grow.
  char* Reserve(size_t bytes) {
    if (bytes > capacity_ || data_ == nullptr) Grow(bytes, nullptr, 0);
    return data_;
  }
  // The same, in new memory that begins with a copy of `kept`, which may lie
  // in the old.
  char* Grow(size_t bytes, const char* kept, size_t kept_bytes);

  // Gives up memory on the heap, and says whether there was some.
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

  ContextMemory* memory_ = nullptr;
  char* data_ = nullptr;
  size_t capacity_ = 0;
  std::unique_ptr<char[]> heap_;  // Null if the data are in the context.
};

}  // namespace varve
