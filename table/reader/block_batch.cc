// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "table/reader/block_batch.h"

#include <algorithm>

#include "monitoring/measured_operation.h"

namespace varve {

namespace {

// Maximum bytes of a batch, which a thread keeps allocated.
constexpr size_t kMaxBytes = size_t{1} << 20;

}  // namespace

void BlockBatch::Clear() {
  blocks_.clear();
  reads_.clear();
  alignment_ = 1;
  bytes_ = 0;
}

BlockBatch::Added BlockBatch::Add(const ReadOptions& options,
                                  const TableCore& core, size_t i,
                                  size_t* index, BlockRef* cached) {
  for (*index = 0; *index < blocks_.size(); ++*index) {
    const Waiting& other = blocks_[*index];
    if (other.i == i && other.core == &core) return Added::kRead;
  }
  // Some files must be read in larger units. Then the units around the block
  // are read in full, which saves a copy.
  const BlockHandle& handle = core.index.handle(i);
  const size_t alignment = core.file->RequiredAlignment();
  const size_t mask = alignment - 1;
  if (handle.size > kMaxBytes / 2 || mask > kMaxBytes / 8 ||
      !core.loader->CheckPlace(handle).ok()) {
    return Added::kRefused;
  }
  const size_t lead = handle.offset & mask;
  const size_t size = static_cast<size_t>(handle.size) + kBlockTrailerSize;
  const size_t length = (lead + size + mask) & ~mask;
  const size_t memory = (bytes_ + mask) & ~mask;
  if (memory + length > kMaxBytes) return Added::kFull;
  if (core.FindCached(i, cached)) return Added::kCached;

  blocks_.push_back({.core = &core,
                     .i = i,
                     .verify = options.verify_checksums,
                     .keep = core.WillKeep(options, i),
                     .lead = lead,
                     .memory = memory});
  FileReadRequest& request = reads_.emplace_back();
  request.file = core.file.get();
  request.read.offset = handle.offset - lead;
  request.read.length = length;
  bytes_ = memory + length;
  alignment_ = std::max(alignment_, alignment);
  return Added::kRead;
}

void BlockBatch::Read(const std::function<void(size_t)>& arrived) {
  const size_t mask = alignment_ - 1;
  char* const memory = memory_.Reserve(alignment_, (bytes_ + mask) & ~mask);
  for (size_t index = 0; index < blocks_.size(); ++index) {
    ReadRequest& read = reads_[index].read;
    if (memory != nullptr) {
      read.scratch = memory + blocks_[index].memory;
    } else {
      read.status = Status::IOError("out of memory");
      arrived(index);
    }
  }
  if (memory == nullptr) return;
  const PerfTimer timer(Env::Default(), &GetPerfContext()->block_read_time);
  blocks_[0].core->options.env->MultiRead(
      reads_.data(), reads_.size(), [&](const FileReadRequest* request) {
        arrived(static_cast<size_t>(request - reads_.data()));
      });
}

Status BlockBatch::Take(size_t index, BlockRef* block, Slice* body) {
  const Waiting& waiting = blocks_[index];
  const TableCore& core = *waiting.core;
  const BlockHandle& handle = core.index.handle(waiting.i);
  FileReadRequest& request = reads_[index];
  if (!request.read.status.ok()) return request.read.status;
  if (PerfCounts()) [[unlikely]] {
    ++GetPerfContext()->block_read_count;
    GetPerfContext()->block_read_byte += handle.size + kBlockTrailerSize;
  }
  Slice raw = request.read.result;
  raw.remove_prefix(std::min(waiting.lead, raw.size()));
  const size_t size = static_cast<size_t>(handle.size) + kBlockTrailerSize;
  raw = Slice(raw.data(), std::min(raw.size(), size));
  Status s = core.loader->TakeDataBody(handle, waiting.verify, raw, &body_);
  if (!s.ok()) return s;
  *body = body_.contents;
  if (!waiting.keep) return s;
  s = core.loader->MakeDataBlock(handle, core.BuildOptions(true), &body_,
                                 block);
  if (s.ok()) core.Keep(waiting.i, block);
  return s;
}

bool BlockBatch::TakeAgain(size_t index, BlockRef* block) const {
  const Waiting& waiting = blocks_[index];
  return !waiting.keep || waiting.core->FindCached(waiting.i, block);
}

}  // namespace varve
