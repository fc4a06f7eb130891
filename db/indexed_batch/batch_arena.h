// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// The memory of an indexed batch: an arena whose blocks are used again, and
// arrays that grow in it.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <new>
#include <type_traits>

#include "util/base/check.h"
#include "util/threads/memory_account.h"

namespace varve {

// A bump allocator for one thread. Reset makes all of its memory free, and
// keeps it as one block, so that the same work needs no allocation from the
// system the next time. Blocks double the arena's size.
// Thread-safety: owned by one thread at a time.
class BatchArena {
 public:
  BatchArena() = default;
  BatchArena(const BatchArena&) = delete;
  BatchArena& operator=(const BatchArena&) = delete;
  ~BatchArena() { FreeBlocks(); }

  // Returns `bytes` uninitialized bytes, aligned to kAlignment.
  void* Allocate(size_t bytes) {
    bytes = (bytes + kAlignment - 1) & ~(kAlignment - 1);
    if (static_cast<size_t>(end_ - next_) < bytes) [[unlikely]]
      AddBlock(bytes);
    char* const result = next_;
    next_ += bytes;
    return result;
  }

  // Frees what was allocated.
  void Reset() {
    if (blocks_ == nullptr) return;
    if (blocks_->next != nullptr) {
      const size_t bytes = total_bytes_;
      FreeBlocks();
      AddBlock(bytes);
    }
    next_ = reinterpret_cast<char*>(blocks_ + 1);
  }

  // Returns the bytes taken from the system, without headers of blocks.
  size_t total_bytes() const { return total_bytes_; }

 private:
  static constexpr size_t kAlignment = 8;
  static constexpr size_t kFirstBlockBytes = 1000;

  // At the start of its memory.
  struct Block {
    Block* next;
    size_t bytes;  // After this header.
    MemoryAccount* account;
  };

  [[gnu::noinline]] void AddBlock(size_t needed) {
    const size_t bytes = std::max({needed, total_bytes_, kFirstBlockBytes});
    void* const memory = ::operator new(sizeof(Block) + bytes);
    blocks_ =
        new (memory) Block{.next = blocks_,
                           .bytes = bytes,
                           .account = NoteAllocated(MemoryKind::kWriteBatch,
                                                    sizeof(Block) + bytes)};
    total_bytes_ += bytes;
    next_ = reinterpret_cast<char*>(blocks_ + 1);
    end_ = next_ + bytes;
  }
  void FreeBlocks() {
    while (blocks_ != nullptr) {
      Block* const block = blocks_;
      blocks_ = block->next;
      NoteFreed(block->account, MemoryKind::kWriteBatch,
                sizeof(Block) + block->bytes);
      ::operator delete(block);
    }
    total_bytes_ = 0;
    next_ = nullptr;
    end_ = nullptr;
  }

  Block* blocks_ = nullptr;  // The newest first.
  size_t total_bytes_ = 0;
  char* next_ = nullptr;  // In the newest block.
  char* end_ = nullptr;
};

// A growing array in an arena. Has no destructor: it ends with the arena's
// Reset. Thread-safety: owned by one thread at a time.
template <typename T>
class ArenaArray {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  uint32_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  T* data() { return data_; }
  T& operator[](size_t i) { return data_[i]; }
  const T& operator[](size_t i) const { return data_[i]; }
  T& back() { return data_[size_ - 1]; }
  T* begin() { return data_; }
  T* end() { return data_ + size_; }
  const T* begin() const { return data_; }
  const T* end() const { return data_ + size_; }

  void Append(BatchArena* arena, const T& item) {
    if (size_ == capacity_) [[unlikely]]
      Grow(arena, size_ + 1);
    data_[size_++] = item;
  }
  // Replaces the items in [first, last) by `count` others.
  void Replace(BatchArena* arena, uint32_t first, uint32_t last, const T* items,
               uint32_t count) {
    const uint32_t size = size_ - (last - first) + count;
    if (size > capacity_) Grow(arena, size);
    if (last != size_) {
      memmove(static_cast<void*>(data_ + first + count), data_ + last,
              (size_ - last) * sizeof(T));
    }
    std::copy_n(items, count, data_ + first);
    size_ = size;
  }
  // REQUIRES: size <= size().
  void Truncate(uint32_t size) {
    VARVE_DCHECK(size <= size_);
    size_ = size;
  }

 private:
  static constexpr uint32_t kFirstCapacity = 8;

  [[gnu::noinline]] void Grow(BatchArena* arena, uint32_t needed) {
    capacity_ = std::max({needed, 2 * capacity_, kFirstCapacity});
    T* const grown = static_cast<T*>(arena->Allocate(capacity_ * sizeof(T)));
    if (size_ != 0) {
      memcpy(static_cast<void*>(grown), data_, size_ * sizeof(T));
    }
    data_ = grown;
  }

  T* data_ = nullptr;
  uint32_t size_ = 0;
  uint32_t capacity_ = 0;
};

}  // namespace varve
