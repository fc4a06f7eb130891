// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "table/reader/block_batch.h"

#include "monitoring/measured_operation.h"

namespace varve {

void BlockBatch::Clear() {
  blocks_.clear();
  reads_.Clear();
}

BlockBatch::Added BlockBatch::Add(const ReadOptions& options,
                                  const TableCore& core, size_t i,
                                  size_t* index, BlockRef* cached) {
  for (*index = 0; *index < blocks_.size(); ++*index) {
    const Waiting& other = blocks_[*index];
    if (other.i == i && other.core == &core) return Added::kRead;
  }
  const BlockHandle& handle = core.index.handle(i);
  const RandomAccessFile& file = *core.file;
  if (!ReadBatch::CanHold(file, handle.size) ||
      !core.loader->CheckPlace(handle).ok()) {
    return Added::kRefused;
  }
  const size_t size = static_cast<size_t>(handle.size) + kBlockTrailerSize;
  if (!reads_.Fits(file, handle.offset, size)) return Added::kFull;
  if (core.FindCached(i, cached)) return Added::kCached;

  blocks_.push_back({.core = &core,
                     .i = i,
                     .verify = options.verify_checksums,
                     .keep = core.WillKeep(options, i)});
  reads_.Add(file, handle.offset, size);
  return Added::kRead;
}

void BlockBatch::Read(const std::function<void(size_t)>& arrived) {
  reads_.Read(blocks_[0].core->options.env, arrived);
}

Status BlockBatch::Take(size_t index, BlockRef* block, Slice* body) {
  const Waiting& waiting = blocks_[index];
  const TableCore& core = *waiting.core;
  const BlockHandle& handle = core.index.handle(waiting.i);
  if (!reads_.status(index).ok()) return reads_.status(index);
  if (PerfCounts()) [[unlikely]] {
    ++GetPerfContext()->block_read_count;
    GetPerfContext()->block_read_byte += handle.size + kBlockTrailerSize;
  }
  Status s = core.loader->TakeDataBody(handle, waiting.verify,
                                       reads_.bytes(index), &body_);
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
