// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "table/reader/read_batch.h"

#include <algorithm>

#include "monitoring/measured_operation.h"

namespace varve {

void ReadBatch::Clear() {
  ranges_.clear();
  reads_.clear();
  alignment_ = 1;
  bytes_ = 0;
}

size_t ReadBatch::Add(const RandomAccessFile& file, uint64_t offset,
                      size_t size) {
  const Placed placed = Place(file, offset, size);
  ranges_.push_back(
      {.lead = placed.lead, .size = size, .memory = placed.begin});
  FileReadRequest& request = reads_.emplace_back();
  request.file = &file;
  request.read.offset = offset - placed.lead;
  request.read.length = placed.end - placed.begin;
  bytes_ = placed.end;
  alignment_ = std::max(alignment_, file.RequiredAlignment());
  return ranges_.size() - 1;
}

void ReadBatch::Read(Env* env, const std::function<void(size_t)>& arrived) {
  const size_t mask = alignment_ - 1;
  char* const memory = memory_.Reserve(alignment_, (bytes_ + mask) & ~mask);
  for (size_t index = 0; index < ranges_.size(); ++index) {
    ReadRequest& read = reads_[index].read;
    if (memory != nullptr) {
      read.scratch = memory + ranges_[index].memory;
    } else {
      read.status = Status::IOError("out of memory");
      arrived(index);
    }
  }
  if (memory == nullptr) return;
  const PerfTimer timer(Env::Default(), &GetPerfContext()->block_read_time);
  env->MultiRead(reads_.data(), reads_.size(),
                 [&](const FileReadRequest* request) {
                   arrived(static_cast<size_t>(request - reads_.data()));
                 });
}

Slice ReadBatch::bytes(size_t index) const {
  const Range& range = ranges_[index];
  Slice raw = reads_[index].read.result;
  raw.remove_prefix(std::min(range.lead, raw.size()));
  return Slice(raw.data(), std::min(raw.size(), range.size));
}

}  // namespace varve
