// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "table/block_loader.h"

#include <cstdio>
#include <cstring>
#include <utility>

#include "util/coding.h"
#include "util/compression.h"
#include "util/thread_scratch.h"

namespace varve {

namespace {

// A scratch buffer larger than this is given back after use.
constexpr size_t kMaxKeptScratchBytes = 1 << 20;

}  // namespace

// Body and trailer as they stand in the file.
struct BlockLoader::RawBlock {
  // Enough for a compressed block of the usual size, and most raw ones.
  static constexpr size_t kStackBytes = 8192;

  Slice bytes;  // In the stack, the heap, or memory of readahead or file.
  std::unique_ptr<char[]> heap;
  char stack[kStackBytes];
};

BlockLoader::BlockLoader(const RandomAccessFile* file, std::string file_name,
                         uint64_t file_size, const Footer& footer)
    : file_(file),
      file_name_(std::move(file_name)),
      file_size_(file_size),
      checksum_type_(footer.checksum),
      format_version_(footer.format_version) {}

Status BlockLoader::ReadDataBlock(const BlockHandle& handle, bool verify,
                                  const BlockBuildOptions& build_options,
                                  ReadaheadBuffer* readahead,
                                  BlockRef* block) const {
  // Where blocks are uncompressed, on their way to the form they get.
  const ThreadScratch<BlockContents, BlockLoader> lent;
  BlockContents& scratch = *lent;
  RawBlock raw;
  Status s = ReadRaw(handle, readahead, &raw);
  if (s.ok() && verify) s = CompareChecksum(handle, raw.bytes);
  Slice body;
  if (s.ok()) s = Uncompress(handle, dictionary_, raw, &scratch, &body);
  if (!s.ok()) return s;
  Block* made = nullptr;
  s = Block::Create(body, build_options, &made);
  if (scratch.allocated_bytes > kMaxKeptScratchBytes) {
    scratch = BlockContents();
  }
  if (!s.ok()) return s.Annotate(Describe(handle));
  *block = BlockRef(made);
  return s;
}

Status BlockLoader::ReadMetaBlock(const BlockHandle& handle,
                                  ReadaheadBuffer* readahead,
                                  BlockContents* contents) const {
  RawBlock raw;
  Status s = ReadRaw(handle, readahead, &raw);
  if (s.ok()) s = CompareChecksum(handle, raw.bytes);
  if (s.ok()) s = TakeContents(handle, &raw, contents);
  return s;
}

Status BlockLoader::ReadProperties(const BlockHandle& handle,
                                   ReadaheadBuffer* readahead,
                                   TableProperties* properties) const {
  RawBlock raw;
  Status s = ReadRaw(handle, readahead, &raw);
  if (!s.ok()) return s;
  s = CompareChecksum(handle, raw.bytes);
  if (s.IsCorruption()) {
    std::string before = raw.bytes.ToString();
    const Slice body(before.data(), static_cast<size_t>(handle.size));
    TableProperties suspect;
    if (DecodeProperties(body, file_name_, &suspect).ok() &&
        suspect.has_global_sequence) {
      EncodeFixed64(before.data() + suspect.global_sequence_offset, 0);
      if (CompareChecksum(handle, before).ok()) s = Status();
    }
  }
  if (!s.ok()) return s;
  BlockContents contents;
  s = TakeContents(handle, &raw, &contents);
  if (!s.ok()) return s;
  return DecodeProperties(contents.AsSlice(), file_name_, properties);
}

Status BlockLoader::CheckBlock(const BlockHandle& handle,
                               ReadaheadBuffer* readahead) const {
  RawBlock raw;
  Status s = ReadRaw(handle, readahead, &raw);
  return s.ok() ? CompareChecksum(handle, raw.bytes) : s;
}

std::string BlockLoader::Describe(const BlockHandle& handle) const {
  return file_name_ + " offset " + std::to_string(handle.offset) + " size " +
         std::to_string(handle.size);
}

Status BlockLoader::ReadRaw(const BlockHandle& handle,
                            ReadaheadBuffer* readahead, RawBlock* raw) const {
  if (!handle.FitsIn(file_size_)) {
    return Status::Corruption(Describe(handle),
                              "the block handle points beyond the file");
  }
  const auto size = static_cast<size_t>(handle.size) + kBlockTrailerSize;
  raw->bytes = Slice(nullptr, 0);
  if (readahead != nullptr) {
    Status s = readahead->Serve(handle.offset, size, &raw->bytes);
    if (!s.ok()) return s;
  }
  if (raw->bytes.data() == nullptr) {
    char* scratch = raw->stack;
    if (size > RawBlock::kStackBytes) {
      raw->heap.reset(new char[size]);
      scratch = raw->heap.get();
    }
    Status s = file_->Read(handle.offset, size, &raw->bytes, scratch);
    if (!s.ok()) return s;
  }
  if (raw->bytes.size() != size) {
    return Status::Corruption(
        Describe(handle), "truncated read: got " +
                              std::to_string(raw->bytes.size()) + " bytes of " +
                              std::to_string(size));
  }
  return Status();
}

Status BlockLoader::CompareChecksum(const BlockHandle& handle,
                                    const Slice& raw) const {
  if (checksum_type_ == ChecksumType::kNone) return Status();
  const auto size = static_cast<size_t>(handle.size);
  const uint32_t stored = DecodeFixed32(raw.data() + size + 1);
  const uint32_t computed = BlockChecksum(checksum_type_, raw.data(), size);
  if (stored == computed) return Status();
  char text[128];
  snprintf(text, sizeof(text),
           "block checksum mismatch: stored = 0x%08x, computed = 0x%08x, "
           "type = %u in ",
           stored, computed, static_cast<unsigned>(checksum_type_));
  return Status::Corruption(text + Describe(handle));
}

Status BlockLoader::Uncompress(const BlockHandle& handle,
                               const Slice& dictionary, const RawBlock& raw,
                               BlockContents* scratch, Slice* body) const {
  *body = Slice(raw.bytes.data(), static_cast<size_t>(handle.size));
  const auto type = static_cast<CompressionType>(raw.bytes[body->size()]);
  if (type == CompressionType::kNone) return Status();
  size_t size = 0;
  Status s = UncompressedLength(type, format_version_, *body, &size);
  if (s.ok()) {
    if (scratch->allocated_bytes < size) {
      scratch->data.reset(new char[size]);
      scratch->allocated_bytes = size;
    }
    scratch->size = size;
    s = UncompressInto(type, format_version_, *body, scratch->data.get(), size,
                       dictionary);
  }
  if (!s.ok()) return s.Annotate(Describe(handle));
  *body = scratch->AsSlice();
  return s;
}

Status BlockLoader::TakeContents(const BlockHandle& handle, RawBlock* raw,
                                 BlockContents* contents) const {
  Slice body;
  Status s = Uncompress(handle, Slice(), *raw, contents, &body);
  if (!s.ok() || body.data() == contents->data.get()) return s;
  if (body.data() == raw->heap.get()) {
    contents->data = std::move(raw->heap);
    contents->allocated_bytes = raw->bytes.size();
  } else {
    contents->data.reset(new char[body.size()]);
    contents->allocated_bytes = body.size();
    memcpy(contents->data.get(), body.data(), body.size());
  }
  contents->size = body.size();
  return s;
}

}  // namespace varve
