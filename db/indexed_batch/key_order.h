// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

#include <cstdint>

#include "db/indexed_batch/batch_arena.h"
#include "db/indexed_batch/batch_entries.h"

namespace varve {

// An ordered list of keys, each named by its oldest update: a tree of two
// levels, an array of chunks of entries' numbers. Compares no keys itself.
//
// A search takes about log2(size) comparisons. An insertion moves at most a
// chunk, and one insertion in kChunkSize / 2 moves the array of chunks, which
// has 4 bytes for a hundred keys or so.
// Thread-safety: owned by one thread at a time.
class KeyOrder {
 public:
  // A key's place, or the end. Changes invalidate it; see version().
  struct Place {
    uint32_t chunk = 0;
    uint32_t index = 0;
  };

  bool empty() const { return chunks_.empty(); }
  // Differs after each change.
  uint64_t version() const { return version_; }

  bool IsEnd(Place place) const { return place.chunk == chunks_.size(); }
  static bool IsFirst(Place place) {
    return place.chunk == 0 && place.index == 0;
  }
  // REQUIRES: !IsEnd(place).
  EntryId At(Place place) const {
    return chunks_[place.chunk]->ids[place.index];
  }
  Place Next(Place place) const {
    return place.index + 1 < chunks_[place.chunk]->count
               ? Place{place.chunk, place.index + 1}
               : Place{place.chunk + 1, 0};
  }
  // REQUIRES: !IsFirst(place).
  Place Previous(Place place) const {
    if (place.index != 0) return {place.chunk, place.index - 1};
    return {place.chunk - 1, chunks_[place.chunk - 1]->count - 1};
  }
  Place End() const { return {chunks_.size(), 0}; }

  // Returns the place of the first key for which is_before(id) is false.
  template <typename IsBefore>
  Place LowerBound(IsBefore is_before) const;

  // Inserts the key before that place.
  void Insert(BatchArena* arena, Place place, EntryId id);
  void Erase(BatchArena* arena, Place place);
  // Appends `count` keys.
  void AppendSorted(BatchArena* arena, const EntryId* ids, uint32_t count);

 private:
  static constexpr uint32_t kChunkSize = 126;
  struct Chunk {
    uint32_t count;
    EntryId ids[kChunkSize];
  };

  // Returns an empty chunk, which it adds before that place in chunks_.
  Chunk* AddChunk(BatchArena* arena, uint32_t place);

  ArenaArray<Chunk*> chunks_;  // None is empty.
  ArenaArray<Chunk*> free_;
  uint64_t version_ = 0;
};

template <typename IsBefore>
KeyOrder::Place KeyOrder::LowerBound(IsBefore is_before) const {
  // The first chunk whose first key is not before.
  uint32_t low = 0;
  uint32_t high = chunks_.size();
  while (low < high) {
    const uint32_t middle = low + (high - low) / 2;
    if (is_before(chunks_[middle]->ids[0])) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  if (low == 0) return {};
  const Chunk& chunk = *chunks_[low - 1];
  uint32_t from = 1;
  uint32_t to = chunk.count;
  while (from < to) {
    const uint32_t middle = from + (to - from) / 2;
    if (is_before(chunk.ids[middle])) {
      from = middle + 1;
    } else {
      to = middle;
    }
  }
  return from == chunk.count ? Place{low, 0} : Place{low - 1, from};
}

}  // namespace varve
