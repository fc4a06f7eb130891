// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

#include <cstddef>

#include "util/bytes/short_copy.h"
#include "util/threads/thread_arena.h"
#include "varve/slice.h"

namespace varve {

// A copy of a key or value; short ones need no further memory.
// Thread-safety: owned by one thread at a time.
class KeyBuffer {
 public:
  explicit KeyBuffer(ThreadArena* memory) : large_(memory) {}
  KeyBuffer(const KeyBuffer&) = delete;
  KeyBuffer& operator=(const KeyBuffer&) = delete;

  // Returns space for `size` bytes. The previous bytes are lost.
  char* Reserve(size_t size) {
    if (size > capacity_) [[unlikely]] {
      data_ = large_.Grow(2 * size, nullptr, 0);
      capacity_ = large_.capacity();
    }
    return data_;
  }
  void Assign(const Slice& key) {
    ShortCopy(Reserve(key.size()), key.data(), key.size());
    size_ = key.size();
  }
  Slice slice() const { return Slice(data_, size_); }
  // Frees memory on the heap, and with it the bytes there.
  void Trim() {
    if (!large_.Trim()) return;
    data_ = inline_;
    size_ = 0;
    capacity_ = sizeof(inline_);
  }

 private:
  char inline_[64];
  char* data_ = inline_;
  size_t size_ = 0;
  size_t capacity_ = sizeof(inline_);
  ArenaBuffer large_;
};

}  // namespace varve
