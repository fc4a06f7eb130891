// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "table/reader/partition_run.h"

#include <algorithm>

namespace varve {

namespace {

// A run of at most this size is read at once, however few blocks are in it.
constexpr uint64_t kAlwaysReadBytes = uint64_t{64} << 10;

}  // namespace

Status PartitionRun::Read(uint64_t begin, uint64_t end) {
  if (begin >= end || end - begin > kMaxBytes) return Status();
  const auto size = static_cast<size_t>(end - begin);
  if (tail_.Holds(begin, size) || run_.Holds(begin, size)) return Status();
  return run_.Fill(begin, size);
}

Status PartitionRun::Read(std::span<const BlockHandle> handles) {
  uint64_t begin = UINT64_MAX;
  uint64_t end = 0;
  uint64_t bytes = 0;
  for (const BlockHandle& handle : handles) {
    const uint64_t size = handle.size + kBlockTrailerSize;
    begin = std::min(begin, handle.offset);
    end = std::max(end, handle.offset + size);
    bytes += size;
  }
  if (begin < end && end - begin > kAlwaysReadBytes &&
      (end - begin) / 2 > bytes) {
    return Status();
  }
  return Read(begin, end);
}

ReadaheadBuffer* PartitionRun::SourceOf(const BlockHandle& handle) {
  // The reader of the block reports a handle that is wrong.
  const bool in_tail =
      handle.FitsIn(file_size_) &&
      tail_.Holds(handle.offset,
                  static_cast<size_t>(handle.size + kBlockTrailerSize));
  return in_tail ? &tail_ : &run_;
}

}  // namespace varve
