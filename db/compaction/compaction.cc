// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "db/compaction/compaction.h"

#include <algorithm>

namespace varve {

namespace {

// Compares the ends of two key ranges. An exclusive end comes first.
int CompareEnds(const InternalKeyComparator& comparator, const Slice& a,
                bool a_is_exclusive, const Slice& b, bool b_is_exclusive) {
  const int r = comparator.CompareUser(a, b);
  if (r != 0) return r;
  return static_cast<int>(b_is_exclusive) - static_cast<int>(a_is_exclusive);
}

}  // namespace

KeySpan SpanOf(const InternalKeyComparator& comparator,
               std::span<const std::vector<FileMetaData*>> lists) {
  KeySpan span;
  bool set = false;
  for (const auto& files : lists) {
    for (const FileMetaData* file : files) {
      if (!set || comparator.CompareUser(file->smallest_user_key(),
                                         span.smallest) < 0) {
        span.smallest = file->smallest_user_key();
      }
      if (!set || CompareEnds(comparator, file->largest_user_key(),
                              file->EndIsExclusive(), span.largest,
                              span.end_is_exclusive) > 0) {
        span.largest = file->largest_user_key();
        span.end_is_exclusive = file->EndIsExclusive();
      }
      set = true;
    }
  }
  return span;
}

bool AnyBeingCompacted(const std::vector<FileMetaData*>& files) {
  return std::any_of(files.begin(), files.end(),
                     [](const FileMetaData* f) { return f->being_compacted; });
}

uint64_t Compaction::OldestAncestorTime() const {
  uint64_t oldest = 0;
  for (const auto& files : inputs) {
    for (const FileMetaData* file : files) {
      const uint64_t time_s = file->FindTimes().oldest_ancestor_s;
      if (time_s != 0 && (oldest == 0 || time_s < oldest)) oldest = time_s;
    }
  }
  return oldest;
}

uint64_t Compaction::RewrittenInVain(uint64_t output_bytes,
                                     uint64_t reclaimable_bytes) const {
  // Each byte that is freed is worth as many. See Version::reclaim_candidates.
  constexpr uint64_t kWorth = 4;
  const uint64_t lower_bytes = TotalFileSize(inputs[1]);
  const uint64_t input_bytes = InputBytes();
  const uint64_t rewritten = std::min(lower_bytes, output_bytes);
  const uint64_t freed = input_bytes - std::min(input_bytes, output_bytes);
  const uint64_t gained =
      std::min(freed, rewritten) + std::min(reclaimable_bytes, rewritten);
  return rewritten - std::min(rewritten, kWorth * gained);
}

}  // namespace varve
