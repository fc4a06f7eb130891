// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "util/threads/context_memory.h"

#include <algorithm>
#include <new>

namespace varve {

ContextMemory* ContextMemory::Make(ContextKind kind, size_t bytes) {
  return new (::operator new(bytes)) ContextMemory(kind, bytes);
}

void* ContextMemory::AllocateSlow(size_t bytes) {
  static_assert(sizeof(Piece) % kAlignment == 8);
  constexpr size_t kPieceHeader = sizeof(Piece) + 8;
  // As much as there is already, so that the number of pieces stays small.
  const size_t size = std::max(bytes + kPieceHeader, bytes_);
  auto* const piece = new (::operator new(size))
      Piece{pieces_, NoteAllocated(MemoryKind::kIterator, size), size};
  pieces_ = piece;
  bytes_ += size;
  next_ = reinterpret_cast<char*>(piece) + kPieceHeader;
  end_ = reinterpret_cast<char*>(piece) + size;
  char* const result = next_;
  next_ += bytes;
  return result;
}

void ContextMemory::FreePieces() {
  while (pieces_ != nullptr) {
    Piece* const piece = pieces_;
    pieces_ = piece->next;
    NoteFreed(piece->account, MemoryKind::kIterator, piece->bytes);
    ::operator delete(piece);
  }
  bytes_ = own_bytes_;
}

void ContextMemory::Reset() {
  if (root_ != nullptr) destroy_(root_);
  root_ = nullptr;
  FreePieces();
  Rewind();
}

void ContextMemory::Free() {
  Reset();
  NoteFreed(account_, MemoryKind::kIterator, own_bytes_);
  this->~ContextMemory();
  ::operator delete(this);
}

void ContextMemory::GiveBack() {
  ThreadRecord::KeptContexts& kept =
      CurrentThreadRecord()->contexts[static_cast<int>(kind_)];
  ContextMemory* keep = this;
  if (pieces_ != nullptr) [[unlikely]] {
    const size_t all_bytes = bytes_;
    const ContextKind kind = kind_;
    Free();
    if (all_bytes > kMaxKeptBytes) return;
    keep = Make(kind, all_bytes);
  }
  if (kept.count == kMaxKept) [[unlikely]] {
    ContextMemory** link = &kept.newest;
    while ((*link)->next_kept_ != nullptr) link = &(*link)->next_kept_;
    (*link)->Free();
    *link = nullptr;
    --kept.count;
  }
  keep->next_kept_ = kept.newest;
  kept.newest = keep;
  ++kept.count;
}

void ContextMemory::FreeKept(ThreadRecord* record) {
  for (ThreadRecord::KeptContexts& kept : record->contexts) {
    while (kept.newest != nullptr) {
      ContextMemory* const context = kept.newest;
      kept.newest = context->next_kept_;
      context->Free();
    }
    kept.count = 0;
  }
}

void* InContext::AllocateHeap(size_t size) { return ::operator new(size); }

void InContext::FreeHeap(void* place) { ::operator delete(place); }

char* ContextBuffer::Grow(size_t bytes, const char* kept, size_t kept_bytes) {
  std::unique_ptr<char[]> heap;
  char* data;
  if (memory_ != nullptr && bytes <= kMaxBytesInContext) {
    // What is left behind stays taken: so it doubles.
    bytes = std::bit_ceil(std::max<size_t>(bytes, 1));
    data = static_cast<char*>(memory_->Allocate(bytes));
  } else {
    heap.reset(new char[bytes]);
    data = heap.get();
  }
  if (kept_bytes != 0) memcpy(data, kept, kept_bytes);
  heap_ = std::move(heap);
  data_ = data;
  capacity_ = bytes;
  return data_;
}

}  // namespace varve
