// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "table/cache/readahead_buffer.h"

#include <algorithm>

#include "monitoring/span.h"

namespace varve {

namespace {

// Skipped parts (cached blocks or padding) of up to this size do not end a
// sequence.
constexpr uint64_t kMaxGapBytes = ReadaheadBuffer::kFirstReadaheadBytes;

}  // namespace

ReadaheadBuffer::ReadaheadBuffer(const RandomAccessFile* file,
                                 uint64_t file_size, size_t fixed_bytes)
    : file_(file), file_size_(file_size), fixed_bytes_(fixed_bytes) {}

void ReadaheadBuffer::Open(const RandomAccessFile* file, uint64_t file_size) {
  file_ = file;
  file_size_ = file_size;
  next_bytes_ = kFirstReadaheadBytes;
  reads_in_a_row_ = 0;
  last_end_ = 0;
  offset_ = 0;
  data_ = Slice();
}

Status ReadaheadBuffer::Fill(uint64_t offset, size_t least, size_t size) {
  const LocalSpan span("file read");
  data_ = Slice();
  Slice result;
  char* const scratch =
      file_->Mapping().data() == nullptr ? buffer_.Reserve(size) : nullptr;
  Status s = file_->ReadAtLeast(offset, least, size, &result, scratch);
  if (!s.ok()) return s;
  offset_ = offset;
  data_ = result;
  return s;
}

Status ReadaheadBuffer::Serve(uint64_t offset, size_t size, Slice* result) {
  *result = Slice(nullptr, 0);
  const bool backward = offset < last_end_;
  const bool in_a_row = !backward && offset - last_end_ <= kMaxGapBytes;
  last_end_ = offset + size;
  if (!Holds(offset, size)) {
    if (!in_a_row) {
      reads_in_a_row_ = 0;
      next_bytes_ = kFirstReadaheadBytes;
    }
    ++reads_in_a_row_;
    // After a step back, the following bytes were just read.
    const bool alone =
        fixed_bytes_ == 0 ? reads_in_a_row_ <= kReadsInARow : backward;
    if (alone) return Status();
    size_t ahead = fixed_bytes_;
    if (ahead == 0) {
      ahead = next_bytes_;
      next_bytes_ = std::min(2 * next_bytes_, kMaxReadaheadBytes);
    }
    const uint64_t wanted = std::max(size, ahead);
    const uint64_t left = file_size_ - offset;
    Status s = Fill(offset, static_cast<size_t>(std::min(wanted, left)));
    if (!s.ok()) return s;
    // The file is shorter than it should be. The caller will notice.
    if (!Holds(offset, size)) return s;
  }
  *result = Slice(data_.data() + (offset - offset_), size);
  return Status();
}

}  // namespace varve
