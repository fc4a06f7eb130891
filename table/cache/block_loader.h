// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Loads blocks of one table from its file: reads, verifies checksums,
// decompresses and, for data blocks, checks every entry. Sizes are compared
// with the file's size before memory is allocated for them.
//
// Errors: Corruption names file, offset and size. NotSupported names them too;
// it is returned for a compression that is not built in and for an unsupported
// feature of an entry.
// Thread-safety: thread-safe after SetDictionary and UseRocksDbCompression.

#include <cstdint>
#include <memory>
#include <string>

#include "table/block/block.h"
#include "table/block/format.h"
#include "table/block/properties.h"
#include "table/cache/readahead_buffer.h"
#include "varve/compression_type.h"
#include "varve/env.h"
#include "varve/slice.h"
#include "varve/status.h"

namespace varve {

class StatisticsImpl;

// The body of a data block in its file's format, decompressed.
struct FileBody : public InArena {
  // `memory` may be null.
  explicit FileBody(ThreadArena* memory = nullptr)
      : heap{ArenaBuffer(memory)}, uncompressed{ArenaBuffer(memory)} {}
  // Frees heap memory.
  void Trim() {
    heap.buffer.Trim();
    uncompressed.buffer.Trim();
  }

  // Fits a compressed block of the usual size, and most uncompressed ones.
  static constexpr size_t kInlineBytes = 8192;

  // Points into this object, the readahead buffer or the file's memory. Valid
  // until the next read with this object or that buffer.
  Slice contents;

  Slice raw;  // With the block's trailer.
  BlockContents heap;
  BlockContents uncompressed;
  char inline_bytes[kInlineBytes];

  // Returns the contents in memory that the result owns.
  BlockContents TakeContents();
};

class BlockLoader {
 public:
  // `file` and `file_name` must outlive this. The footer gives the checksum
  // type and the format version.
  BlockLoader(const RandomAccessFile* file, const std::string& file_name,
              uint64_t file_size, const Footer& footer);
  BlockLoader(const BlockLoader&) = delete;
  BlockLoader& operator=(const BlockLoader&) = delete;

  const std::string& file_name() const { return file_name_; }
  // Returns whether the bytes are in the file's mapping, so that they are valid
  // as long as the file.
  bool IsMapped(const Slice& bytes) const {
    return bytes.data() >= mapping_.data() && bytes.data() < mapping_.end();
  }

  // Sets the compression dictionary of data blocks, if the table has one.
  void SetDictionary(std::string dictionary) {
    dictionary_ = std::move(dictionary);
  }

  // Gives the compression types RocksDB's meaning, which all tables of format
  // version 1 and later have. Tables of version 0 have LevelDB's until then:
  // its forks write type 2 as zlib's format and type 4 as a raw stream of
  // deflate. Only RocksDB's tables have properties.
  // REQUIRES: no data block, and no index, was read.
  void UseRocksDbCompression() { leveldb_compression_ = false; }

  // Sets where to count operations. May be null.
  void SetStatistics(StatisticsImpl* statistics) { statistics_ = statistics; }

  // For all of these: `readahead` may be null. If it is not, it may serve the
  // read.

  // Reads a data block and builds it. Without `verify` the checksum is not
  // compared.
  Status ReadDataBlock(const BlockHandle& handle, bool verify,
                       const BlockBuildOptions& build_options,
                       ReadaheadBuffer* readahead, BlockRef* block) const;
  // Reads a data block and leaves its body in the file's format. Only the
  // checksum is verified.
  Status ReadDataBody(const BlockHandle& handle, bool verify,
                      ReadaheadBuffer* readahead, FileBody* body) const;

  // The steps of ReadDataBlock and ReadDataBody, for callers that read the
  // bytes themselves. CheckPlace checks that the block and its trailer are
  // inside the file. TakeDataBody turns the bytes read from there into a body.
  // MakeDataBlock builds the block from the body.
  Status CheckPlace(const BlockHandle& handle) const;
  Status TakeDataBody(const BlockHandle& handle, bool verify, const Slice& raw,
                      FileBody* body) const;
  Status MakeDataBlock(const BlockHandle& handle,
                       const BlockBuildOptions& build_options, FileBody* body,
                       BlockRef* block) const;

  // Reads any other block. The body is valid as for ReadDataBody. Returns
  // Corruption if the block is compressed in a way that its kind never is.
  // Otherwise a file of a few KiB could name a GiB any number of times.
  enum class MetaKind : uint8_t {
    kIndex,           // Like data blocks, up to a bounded ratio.
    kIndexPartition,  // The same, but small blocks have no other bound.
    kMetaindex,       // LevelDB compresses it like data blocks.
    kOther,           // Never. RocksDB does not decompress these.
  };
  Status ReadMetaBlock(MetaKind kind, const BlockHandle& handle,
                       ReadaheadBuffer* readahead, FileBody* body) const;
  // Reads the properties. In an ingested table, the sequence number was written
  // into the block after its checksum was computed; the checksum is then
  // verified with a zero in that place.
  Status ReadProperties(const BlockHandle& handle, ReadaheadBuffer* readahead,
                        OtherProperties others,
                        PropertiesBlock* properties) const;
  // Verifies only the checksum of a block.
  Status CheckBlock(const BlockHandle& handle,
                    ReadaheadBuffer* readahead) const;

  // Returns "<file name> offset <n> size <n>", for messages.
  std::string Describe(const BlockHandle& handle) const;

 private:
  Status ReadRaw(const BlockHandle& handle, ReadaheadBuffer* readahead,
                 FileBody* body) const;
  Status CheckLength(const BlockHandle& handle, const Slice& raw) const;
  Status CompareChecksum(const BlockHandle& handle, const Slice& raw) const;
  Status CheckMetaCompression(MetaKind kind, const BlockHandle& handle,
                              const Slice& raw) const;
  // Sets *type and *stored to the compression and the body of a raw block, in
  // RocksDB's form.
  Status FindCompression(const BlockHandle& handle, const Slice& raw,
                         CompressionType* type, Slice* stored) const;
  // Sets the contents of *body from its raw block, decompressed if necessary.
  Status Uncompress(const BlockHandle& handle, const Slice& dictionary,
                    FileBody* body) const;

  const RandomAccessFile* const file_;
  const Slice mapping_;  // See RandomAccessFile::Mapping.
  const std::string& file_name_;
  const uint64_t file_size_;
  const ChecksumType checksum_type_;
  const uint32_t checksum_base_;
  const uint32_t format_version_;
  bool leveldb_compression_;
  std::string dictionary_;
  StatisticsImpl* statistics_ = nullptr;
};

}  // namespace varve
