// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "util/threads/thread_arena.h"

#include <algorithm>
#include <new>

namespace varve {

ThreadArena* ThreadArena::Make(ArenaKind kind, size_t bytes) {
  return new (::operator new(bytes)) ThreadArena(kind, bytes);
}

void* ThreadArena::AllocateSlow(size_t bytes) {
  static_assert(sizeof(Piece) % kAlignment == 8);
  constexpr size_t kPieceHeader = sizeof(Piece) + 8;
  // At least the size of all pieces so far, so that their number stays small.
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

void ThreadArena::FreePieces() {
  while (pieces_ != nullptr) {
    Piece* const piece = pieces_;
    pieces_ = piece->next;
    NoteFreed(piece->account, MemoryKind::kIterator, piece->bytes);
    ::operator delete(piece);
  }
  bytes_ = own_bytes_;
}

void ThreadArena::Reset() {
  if (root_ != nullptr) destroy_(root_);
  root_ = nullptr;
  FreePieces();
  Rewind();
}

void ThreadArena::Free() {
  Reset();
  NoteFreed(account_, MemoryKind::kIterator, own_bytes_);
  this->~ThreadArena();
  ::operator delete(this);
}

void ThreadArena::GiveBack() {
  ThreadRecord::KeptArenas& kept =
      CurrentThreadRecord()->arenas[static_cast<int>(kind_)];
  ThreadArena* keep = this;
  if (pieces_ != nullptr) [[unlikely]] {
    const size_t all_bytes = bytes_;
    const ArenaKind kind = kind_;
    Free();
    if (all_bytes > kMaxKeptBytes) return;
    keep = Make(kind, all_bytes);
  }
  if (kept.count == kMaxKept) [[unlikely]] {
    ThreadArena** link = &kept.newest;
    while ((*link)->next_kept_ != nullptr) link = &(*link)->next_kept_;
    (*link)->Free();
    *link = nullptr;
    --kept.count;
  }
  keep->next_kept_ = kept.newest;
  kept.newest = keep;
  ++kept.count;
}

void ThreadArena::FreeKept(ThreadRecord* record) {
  for (ThreadRecord::KeptArenas& kept : record->arenas) {
    while (kept.newest != nullptr) {
      ThreadArena* const arena = kept.newest;
      kept.newest = arena->next_kept_;
      arena->Free();
    }
    kept.count = 0;
  }
}

void* InArena::AllocateHeap(size_t size) { return ::operator new(size); }

void InArena::FreeHeap(void* place) { ::operator delete(place); }

char* ArenaBuffer::Grow(size_t bytes, const char* kept, size_t kept_bytes) {
  std::unique_ptr<char[]> heap;
  char* data;
  if (memory_ != nullptr && bytes <= kMaxBytesInArena) {
    // The old buffer stays allocated, so the size doubles.
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
