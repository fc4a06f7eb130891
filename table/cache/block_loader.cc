// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "table/cache/block_loader.h"

#include <cstdio>
#include <cstring>
#include <utility>

#include "monitoring/measured_operation.h"
#include "monitoring/span.h"
#include "util/base/probe.h"
#include "util/bytes/coding.h"
#include "util/bytes/compression.h"
#include "util/threads/thread_scratch.h"

namespace varve {

namespace {

// A larger scratch buffer is freed after use.
constexpr size_t kMaxKeptScratchBytes = 1 << 20;

// Bounds of the size of an index once decompressed. A table is opened with its
// whole index in memory. Separators are short, so valid indexes are far
// smaller.
constexpr size_t kMaxIndexRatio = 1024;
constexpr size_t kAlwaysAllowedIndexBytes = size_t{64} << 20;

// Compression types of LevelDB's forks, stored on disk.
constexpr uint8_t kLevelDbZlib = 2;  // ZSTD since LevelDB 1.24.
constexpr uint8_t kLevelDbRawDeflate = 4;
constexpr char kZstdMagic[] = {0x28, '\xB5', 0x2F, '\xFD'};

// Removes what zlib's format has around a raw stream of deflate: two bytes in
// front, and a checksum, which the block's own makes unnecessary. Returns false
// if the bytes are not in that format.
bool RemoveZlibFrame(Slice* body) {
  constexpr size_t kHeaderBytes = 2;
  constexpr size_t kChecksumBytes = 4;
  constexpr unsigned kMethodMask = 0x0F;
  constexpr unsigned kDeflate = 8;
  constexpr unsigned kHasDictionary = 0x20;
  if (body->size() < kHeaderBytes + kChecksumBytes) return false;
  const unsigned method = static_cast<uint8_t>((*body)[0]);
  const unsigned flags = static_cast<uint8_t>((*body)[1]);
  if ((method & kMethodMask) != kDeflate || (method << 8 | flags) % 31 != 0 ||
      (flags & kHasDictionary) != 0) {
    return false;
  }
  *body = Slice(body->data() + kHeaderBytes,
                body->size() - kHeaderBytes - kChecksumBytes);
  return true;
}

}  // namespace

BlockLoader::BlockLoader(const RandomAccessFile* file,
                         const std::string& file_name, uint64_t file_size,
                         const Footer& footer)
    : file_(file),
      mapping_(file->Mapping()),
      file_name_(file_name),
      file_size_(file_size),
      checksum_type_(footer.checksum),
      checksum_base_(footer.checksum_base),
      format_version_(footer.format_version),
      leveldb_compression_(footer.format_version == 0) {}

Status BlockLoader::ReadDataBlock(const BlockHandle& handle, bool verify,
                                  const BlockBuildOptions& build_options,
                                  ReadaheadBuffer* readahead,
                                  BlockRef* block) const {
  const ThreadScratch<FileBody, BlockLoader> lent;
  Status s = ReadDataBody(handle, verify, readahead, &*lent);
  if (!s.ok()) return s;
  return MakeDataBlock(handle, build_options, &*lent, block);
}

Status BlockLoader::MakeDataBlock(const BlockHandle& handle,
                                  const BlockBuildOptions& build_options,
                                  FileBody* body, BlockRef* block) const {
  const LocalSpan span(LocalSpan::Shared(), "block build", TraceBlocks());
  Block* made = nullptr;
  Status s = Block::Create(body->contents, build_options, &made);
  for (BlockContents* scratch : {&body->uncompressed, &body->heap}) {
    if (scratch->buffer.capacity() > kMaxKeptScratchBytes) {
      scratch->buffer.Trim();
    }
  }
  if (!s.ok()) return s.Annotate(Describe(handle));
  *block = BlockRef(made);
  return s;
}

Status BlockLoader::ReadDataBody(const BlockHandle& handle, bool verify,
                                 ReadaheadBuffer* readahead,
                                 FileBody* body) const {
  Status s;
  {
    const LocalSpan span("block read", TraceBlocks());
    s = ReadRaw(handle, readahead, body);
  }
  VARVE_PROBE(block_read, file_name_.c_str(), handle.offset, handle.size,
              s.ok());
  if (s.ok()) s = TakeDataBody(handle, verify, body->raw, body);
  return s;
}

Status BlockLoader::TakeDataBody(const BlockHandle& handle, bool verify,
                                 const Slice& raw, FileBody* body) const {
  body->raw = raw;
  Status s = CheckLength(handle, raw);
  LocalSpan step(LocalSpan::Shared(), verify ? "checksum" : "decompress",
                 TraceBlocks());
  if (s.ok() && verify) {
    s = CompareChecksum(handle, raw);
    step.Next("decompress");
  }
  if (s.ok()) s = Uncompress(handle, dictionary_, body);
  return s;
}

Status BlockLoader::ReadMetaBlock(MetaKind kind, const BlockHandle& handle,
                                  ReadaheadBuffer* readahead,
                                  FileBody* body) const {
  Status s = ReadRaw(handle, readahead, body);
  if (s.ok()) s = CompareChecksum(handle, body->raw);
  if (s.ok()) s = CheckMetaCompression(kind, handle, body->raw);
  if (s.ok()) s = Uncompress(handle, Slice(), body);
  return s;
}

Status BlockLoader::ReadProperties(const BlockHandle& handle,
                                   ReadaheadBuffer* readahead,
                                   OtherProperties others,
                                   PropertiesBlock* properties) const {
  FileBody body;
  Status s = ReadRaw(handle, readahead, &body);
  if (!s.ok()) return s;
  s = CompareChecksum(handle, body.raw);
  if (s.IsCorruption()) {
    std::string before = body.raw.ToString();
    const Slice suspect_body(before.data(), static_cast<size_t>(handle.size));
    PropertiesBlock suspect;
    if (DecodeProperties(suspect_body, file_name_, &suspect,
                         OtherProperties::kLeftOut)
            .ok() &&
        suspect.has_global_sequence) {
      EncodeFixed64(before.data() + suspect.global_sequence_offset, 0);
      if (CompareChecksum(handle, before).ok()) s = Status();
    }
  }
  if (s.ok()) s = CheckMetaCompression(MetaKind::kOther, handle, body.raw);
  if (s.ok()) s = Uncompress(handle, Slice(), &body);
  if (!s.ok()) return s;
  return DecodeProperties(body.contents, file_name_, properties, others);
}

Status BlockLoader::CheckBlock(const BlockHandle& handle,
                               ReadaheadBuffer* readahead) const {
  FileBody body;
  Status s = ReadRaw(handle, readahead, &body);
  return s.ok() ? CompareChecksum(handle, body.raw) : s;
}

std::string BlockLoader::Describe(const BlockHandle& handle) const {
  return file_name_ + " offset " + std::to_string(handle.offset) + " size " +
         std::to_string(handle.size);
}

Status BlockLoader::CheckPlace(const BlockHandle& handle) const {
  if (handle.FitsIn(file_size_)) return Status();
  return Status::Corruption(Describe(handle),
                            "the block handle points beyond the file");
}

Status BlockLoader::CheckLength(const BlockHandle& handle,
                                const Slice& raw) const {
  const auto size = static_cast<size_t>(handle.size) + kBlockTrailerSize;
  if (raw.size() == size) return Status();
  return Status::Corruption(
      Describe(handle), "truncated read: got " + std::to_string(raw.size()) +
                            " bytes of " + std::to_string(size));
}

Status BlockLoader::ReadRaw(const BlockHandle& handle,
                            ReadaheadBuffer* readahead, FileBody* body) const {
  Status s = CheckPlace(handle);
  if (!s.ok()) return s;
  const auto size = static_cast<size_t>(handle.size) + kBlockTrailerSize;
  body->raw = Slice(nullptr, 0);
  if (readahead != nullptr) {
    s = readahead->Serve(handle.offset, size, &body->raw);
    if (!s.ok()) return s;
  }
  if (PerfCounts()) [[unlikely]] {
    ++GetPerfContext()->block_read_count;
    GetPerfContext()->block_read_byte += size;
  }
  PerfTimer timer(Env::Default(), &GetPerfContext()->block_read_time);
  if (body->raw.data() == nullptr) {
    char* scratch = body->inline_bytes;
    if (size > FileBody::kInlineBytes && mapping_.data() == nullptr) {
      scratch = body->heap.buffer.Reserve(size);
    }
    s = file_->Read(handle.offset, size, &body->raw, scratch);
    if (!s.ok()) return s;
  }
  return CheckLength(handle, body->raw);
}

Status BlockLoader::CompareChecksum(const BlockHandle& handle,
                                    const Slice& raw) const {
  if (checksum_type_ == ChecksumType::kNone) return Status();
  RecordTick(statistics_, Ticker::kBlocksChecked);
  const PerfTimer timer(Env::Default(), &GetPerfContext()->block_checksum_time);
  const auto size = static_cast<size_t>(handle.size);
  const uint32_t stored = DecodeFixed32(raw.data() + size + 1);
  const uint32_t computed = BlockChecksum(checksum_type_, raw.data(), size) +
                            ChecksumContext(checksum_base_, handle.offset);
  if (stored == computed) return Status();
  char text[128];
  snprintf(text, sizeof(text),
           "block checksum mismatch: stored = 0x%08x, computed = 0x%08x, "
           "type = %u in ",
           stored, computed, static_cast<unsigned>(checksum_type_));
  return Status::Corruption(text + Describe(handle));
}

Status BlockLoader::FindCompression(const BlockHandle& handle, const Slice& raw,
                                    CompressionType* type,
                                    Slice* stored) const {
  *stored = Slice(raw.data(), static_cast<size_t>(handle.size));
  const auto byte = static_cast<uint8_t>(raw[stored->size()]);
  *type = static_cast<CompressionType>(byte);
  if (!leveldb_compression_) return Status();
  if (byte == kLevelDbRawDeflate) {
    // RocksDB's Zlib of format version 0.
    *type = CompressionType::kZlib;
  } else if (byte == kLevelDbZlib && !RemoveZlibFrame(stored)) {
    if (!stored->starts_with(Slice(kZstdMagic, sizeof(kZstdMagic)))) {
      return Status::Corruption(Describe(handle), "no stream of zlib");
    }
    return Status::NotSupported(Describe(handle), "ZSTD in a table of LevelDB");
  }
  return Status();
}

Status BlockLoader::CheckMetaCompression(MetaKind kind,
                                         const BlockHandle& handle,
                                         const Slice& raw) const {
  CompressionType type;
  Slice stored;
  Status s = FindCompression(handle, raw, &type, &stored);
  if (!s.ok() || type == CompressionType::kNone) return s;
  if (kind == MetaKind::kIndex || kind == MetaKind::kIndexPartition) {
    // A file has one index, but any number of partitions.
    const size_t always =
        kind == MetaKind::kIndex ? kAlwaysAllowedIndexBytes : 0;
    size_t size = 0;
    s = UncompressedLength(type, format_version_, stored, &size);
    if (s.ok() && size > always + kMaxIndexRatio * stored.size()) {
      s = Status::Corruption("an index with an impossible raw size");
    }
    return s.ok() ? s : s.Annotate(Describe(handle));
  }
  if (kind == MetaKind::kMetaindex && leveldb_compression_ &&
      (type == CompressionType::kSnappy || type == CompressionType::kZlib)) {
    return Status();
  }
  return Status::Corruption(Describe(handle),
                            "a compressed block of a kind that never is");
}

Status BlockLoader::Uncompress(const BlockHandle& handle,
                               const Slice& dictionary, FileBody* body) const {
  CompressionType type;
  Slice stored;
  Status s = FindCompression(handle, body->raw, &type, &stored);
  body->contents = stored;
  if (!s.ok() || type == CompressionType::kNone) return s;
  RecordTick(statistics_, Ticker::kBlocksDecompressed);
  const PerfTimer timer(Env::Default(),
                        &GetPerfContext()->block_decompress_time);
  BlockContents* const target = &body->uncompressed;
  size_t size = 0;
  s = UncompressedLength(type, format_version_, stored, &size);
  if (s.ok()) {
    char* const data = target->buffer.Reserve(size);
    target->size = size;
    s = UncompressInto(type, format_version_, stored, data, size, dictionary);
  }
  if (!s.ok()) return s.Annotate(Describe(handle));
  body->contents = target->AsSlice();
  return s;
}

BlockContents FileBody::TakeContents() {
  BlockContents result;
  if (contents.data() == uncompressed.buffer.data()) {
    result = std::move(uncompressed);
  } else if (contents.data() == heap.buffer.data()) {
    result = std::move(heap);
  } else {
    memcpy(result.buffer.Reserve(contents.size()), contents.data(),
           contents.size());
  }
  result.size = contents.size();
  return result;
}

}  // namespace varve
