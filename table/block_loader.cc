// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "table/block_loader.h"

#include <cstdio>
#include <cstring>
#include <utility>

#include "util/coding.h"
#include "util/compression.h"

namespace varve {

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
                                  ReadaheadBuffer* readahead,
                                  std::unique_ptr<Block>* block) const {
  RawBlock raw;
  Status s = ReadRaw(handle, readahead, &raw);
  if (s.ok() && verify) s = CompareChecksum(handle, raw.bytes);
  if (!s.ok()) return s;
  BlockContents contents;
  s = Uncompress(handle, dictionary_, &raw, &contents);
  if (!s.ok()) return s;
  s = Block::Create(std::move(contents), block);
  return s.ok() ? s : s.Annotate(Describe(handle));
}

Status BlockLoader::ReadMetaBlock(const BlockHandle& handle,
                                  ReadaheadBuffer* readahead,
                                  BlockContents* contents) const {
  RawBlock raw;
  Status s = ReadRaw(handle, readahead, &raw);
  if (s.ok()) s = CompareChecksum(handle, raw.bytes);
  if (s.ok()) s = Uncompress(handle, Slice(), &raw, contents);
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
  s = Uncompress(handle, Slice(), &raw, &contents);
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
                               const Slice& dictionary, RawBlock* raw,
                               BlockContents* contents) const {
  const Slice body(raw->bytes.data(), static_cast<size_t>(handle.size));
  const auto type = static_cast<CompressionType>(raw->bytes[body.size()]);
  if (type == CompressionType::kNone && body.data() == raw->heap.get()) {
    contents->data = std::move(raw->heap);
    contents->size = body.size();
    contents->allocated_bytes = raw->bytes.size();
    return Status();
  }
  Status s;
  size_t size = body.size();
  if (type != CompressionType::kNone) {
    s = UncompressedLength(type, format_version_, body, &size);
    if (!s.ok()) return s.Annotate(Describe(handle));
  }
  contents->data.reset(new char[size]);
  contents->size = contents->allocated_bytes = size;
  if (type == CompressionType::kNone) {
    memcpy(contents->data.get(), body.data(), size);
    return s;
  }
  s = UncompressInto(type, format_version_, body, contents->data.get(), size,
                     dictionary);
  return s.ok() ? s : s.Annotate(Describe(handle));
}

}  // namespace varve
