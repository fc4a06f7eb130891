// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Brings blocks of one table from its file into memory: reads, compares
// checksums, uncompresses and, for data blocks, checks every entry. Sizes are
// held against the file's before anything is allocated for them.
//
// Errors: Corruption names file, offset and size; so does NotSupported for a
// compression that is not built in or a feature that an entry needs.
// Thread-safety: thread-safe after SetDictionary.

#include <cstdint>
#include <memory>
#include <string>

#include "table/block/block.h"
#include "table/block/format.h"
#include "table/block/properties.h"
#include "table/cache/readahead_buffer.h"
#include "varve/env.h"
#include "varve/slice.h"
#include "varve/status.h"

namespace varve {

class StatisticsImpl;

// The body of a data block as it stands in the file but for its compression.
struct FileBody : public InArena {
  // `memory` may be null.
  explicit FileBody(ThreadArena* memory = nullptr)
      : heap{ArenaBuffer(memory)}, uncompressed{ArenaBuffer(memory)} {}
  // Gives up memory on the heap.
  void Trim() {
    heap.buffer.Trim();
    uncompressed.buffer.Trim();
  }

  // Enough for a compressed block of the usual size, and most raw ones.
  static constexpr size_t kInlineBytes = 8192;

  // In this object, or memory of the readahead or the file; valid until the
  // next read with either.
  Slice contents;

  Slice raw;  // With the block's trailer.
  BlockContents heap;
  BlockContents uncompressed;
  char inline_bytes[kInlineBytes];

  // The contents in memory of their own.
  BlockContents TakeContents();
};

class BlockLoader {
 public:
  // `file` and `file_name` must outlive this. The footer says how blocks are
  // checked and compressed.
  BlockLoader(const RandomAccessFile* file, const std::string& file_name,
              uint64_t file_size, const Footer& footer);
  BlockLoader(const BlockLoader&) = delete;
  BlockLoader& operator=(const BlockLoader&) = delete;

  const std::string& file_name() const { return file_name_; }

  // What data blocks are compressed with, if the table has it.
  void SetDictionary(std::string dictionary) {
    dictionary_ = std::move(dictionary);
  }

  // Counts what it does, if not null.
  void SetStatistics(StatisticsImpl* statistics) { statistics_ = statistics; }

  // In all of these, `readahead` may be null, else may serve the read.

  // A data block. Without `verify` the checksum is not compared.
  Status ReadDataBlock(const BlockHandle& handle, bool verify,
                       const BlockBuildOptions& build_options,
                       ReadaheadBuffer* readahead, BlockRef* block) const;
  // The same, left in the file's form, of which only the checksum is known
  // to be right.
  Status ReadDataBody(const BlockHandle& handle, bool verify,
                      ReadaheadBuffer* readahead, FileBody* body) const;

  // The steps of these two, for who reads the bytes himself: whether the block
  // with its trailer lies in the file, what was read there turned into the
  // body, and the body into the block.
  Status CheckPlace(const BlockHandle& handle) const;
  Status TakeDataBody(const BlockHandle& handle, bool verify, const Slice& raw,
                      FileBody* body) const;
  Status MakeDataBlock(const BlockHandle& handle,
                       const BlockBuildOptions& build_options, FileBody* body,
                       BlockRef* block) const;

  // Any other block; its body is valid as a data block's is. Corruption if it
  // is compressed as blocks of its kind never are: else a few KiB could be any
  // number of times a GiB.
  enum class MetaKind : uint8_t {
    kIndex,      // As data blocks are, if far less tightly.
    kMetaindex,  // By LevelDB, with Snappy.
    kOther,      // Never: RocksDB does not decompress these.
  };
  Status ReadMetaBlock(MetaKind kind, const BlockHandle& handle,
                       ReadaheadBuffer* readahead, FileBody* body) const;
  // The properties. Of ingested tables, whose sequence number was written
  // into the block later, the checksum is that of before.
  Status ReadProperties(const BlockHandle& handle, ReadaheadBuffer* readahead,
                        OtherProperties others,
                        TableProperties* properties) const;
  // Compares the checksum only.
  Status CheckBlock(const BlockHandle& handle,
                    ReadaheadBuffer* readahead) const;

  // "<file name> offset <n> size <n>", for messages.
  std::string Describe(const BlockHandle& handle) const;

 private:
  Status ReadRaw(const BlockHandle& handle, ReadaheadBuffer* readahead,
                 FileBody* body) const;
  Status CheckLength(const BlockHandle& handle, const Slice& raw) const;
  Status CompareChecksum(const BlockHandle& handle, const Slice& raw) const;
  Status CheckMetaCompression(MetaKind kind, const BlockHandle& handle,
                              const Slice& raw) const;
  // Of the raw block in *body makes its contents.
  Status Uncompress(const BlockHandle& handle, const Slice& dictionary,
                    FileBody* body) const;

  const RandomAccessFile* const file_;
  const std::string& file_name_;
  const uint64_t file_size_;
  const ChecksumType checksum_type_;
  const uint32_t format_version_;
  std::string dictionary_;
  StatisticsImpl* statistics_ = nullptr;
};

}  // namespace varve
