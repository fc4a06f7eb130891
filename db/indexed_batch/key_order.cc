// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "db/indexed_batch/key_order.h"

#include <algorithm>
#include <cstring>

namespace varve {

KeyOrder::Chunk* KeyOrder::AddChunk(BatchArena* arena, uint32_t place) {
  Chunk* chunk;
  if (free_.empty()) {
    chunk = static_cast<Chunk*>(arena->Allocate(sizeof(Chunk)));
  } else {
    chunk = free_.back();
    free_.Truncate(free_.size() - 1);
  }
  chunk->count = 0;
  chunks_.Replace(arena, place, place, &chunk, 1);
  return chunk;
}

void KeyOrder::Insert(BatchArena* arena, Place place, EntryId id) {
  ++version_;
  if (place.index == 0 && place.chunk != 0) {
    // The end of the chunk before, if that has space.
    Chunk* const before = chunks_[place.chunk - 1];
    if (before->count < kChunkSize) {
      before->ids[before->count++] = id;
      return;
    }
  }
  // At the end, a chunk of its own: keys that come in order fill the chunks.
  Chunk* chunk =
      IsEnd(place) ? AddChunk(arena, place.chunk) : chunks_[place.chunk];
  if (chunk->count == kChunkSize) {
    constexpr uint32_t kHalf = kChunkSize / 2;
    Chunk* const upper = AddChunk(arena, place.chunk + 1);
    memcpy(upper->ids, chunk->ids + kHalf, kHalf * sizeof(EntryId));
    upper->count = kHalf;
    chunk->count = kHalf;
    if (place.index > kHalf) {
      chunk = upper;
      place.index -= kHalf;
    }
  }
  EntryId* const at = chunk->ids + place.index;
  memmove(at + 1, at, (chunk->count - place.index) * sizeof(EntryId));
  *at = id;
  ++chunk->count;
}

void KeyOrder::Erase(BatchArena* arena, Place place) {
  ++version_;
  Chunk* const chunk = chunks_[place.chunk];
  EntryId* const at = chunk->ids + place.index;
  --chunk->count;
  memmove(at, at + 1, (chunk->count - place.index) * sizeof(EntryId));
  if (chunk->count != 0) return;
  chunks_.Replace(arena, place.chunk, place.chunk + 1, nullptr, 0);
  free_.Append(arena, chunk);
}

void KeyOrder::AppendSorted(BatchArena* arena, const EntryId* ids,
                            uint32_t count) {
  // Space for later keys.
  constexpr uint32_t kFilled = kChunkSize / 4 * 3;
  ++version_;
  while (count != 0) {
    Chunk* const chunk = AddChunk(arena, chunks_.size());
    chunk->count = std::min(count, kFilled);
    memcpy(chunk->ids, ids, chunk->count * sizeof(EntryId));
    ids += chunk->count;
    count -= chunk->count;
  }
}

}  // namespace varve
