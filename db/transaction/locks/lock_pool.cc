// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "db/transaction/locks/lock_pool.h"

#include <algorithm>
#include <cstdint>
#include <new>

#include "util/base/check.h"

namespace varve {

LockPool::~LockPool() { VARVE_DCHECK(out_ == 0); }

void* LockPool::Take(size_t bytes) {
  ++out_;
  if (bytes > kMaxPooledBytes) return ::operator new(bytes);
  Free*& first = free_[ClassOf(bytes)];
  if (first == nullptr) return TakeNew(ClassOf(bytes) * kStep);
  Free* const block = first;
  first = block->next;
  return block;
}

char* LockPool::TakeNew(size_t bytes) {
  if (left_bytes_ < bytes) {
    // The rest of the old chunk is lost until Trim.
    constexpr size_t kLeast = 2 << 10;
    constexpr size_t kMost = 64 << 10;
    left_bytes_ = std::clamp(chunk_bytes_, kLeast, kMost);
    chunks_.emplace_back(new char[left_bytes_]);
    chunk_bytes_ += left_bytes_;
    next_ = chunks_.back().get();
  }
  char* const block = next_;
  next_ += bytes;
  left_bytes_ -= bytes;
  return block;
}

void LockPool::Give(void* block, size_t bytes) {
  --out_;
  if (bytes > kMaxPooledBytes) return ::operator delete(block);
  auto* const free = static_cast<Free*>(block);
  free->next = free_[ClassOf(bytes)];
  free_[ClassOf(bytes)] = free;
}

void LockPool::Trim() {
  VARVE_DCHECK(out_ == 0);
  if (chunk_bytes_ <= kKeptBytes) return;
  std::fill(std::begin(free_), std::end(free_), nullptr);
  chunks_.clear();
  next_ = nullptr;
  left_bytes_ = 0;
  chunk_bytes_ = 0;
}

}  // namespace varve
