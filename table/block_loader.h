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

#include "table/block.h"
#include "table/format.h"
#include "table/properties.h"
#include "table/readahead_buffer.h"
#include "varve/env.h"
#include "varve/slice.h"
#include "varve/status.h"

namespace varve {

class BlockLoader {
 public:
  // `file` must outlive this. The footer says how blocks are checked and
  // compressed.
  BlockLoader(const RandomAccessFile* file, std::string file_name,
              uint64_t file_size, const Footer& footer);
  BlockLoader(const BlockLoader&) = delete;
  BlockLoader& operator=(const BlockLoader&) = delete;

  const std::string& file_name() const { return file_name_; }

  // What data blocks are compressed with, if the table has it.
  void SetDictionary(std::string dictionary) {
    dictionary_ = std::move(dictionary);
  }

  // In all of these, `readahead` may be null, else may serve the read.

  // A data block. Without `verify` the checksum is not compared.
  Status ReadDataBlock(const BlockHandle& handle, bool verify,
                       const BlockBuildOptions& build_options,
                       ReadaheadBuffer* readahead, BlockRef* block) const;
  // The body of any other block.
  Status ReadMetaBlock(const BlockHandle& handle, ReadaheadBuffer* readahead,
                       BlockContents* contents) const;
  // The properties. Of ingested tables, whose sequence number was written
  // into the block later, the checksum is that of before.
  Status ReadProperties(const BlockHandle& handle, ReadaheadBuffer* readahead,
                        TableProperties* properties) const;
  // Compares the checksum only.
  Status CheckBlock(const BlockHandle& handle,
                    ReadaheadBuffer* readahead) const;

  // "<file name> offset <n> size <n>", for messages.
  std::string Describe(const BlockHandle& handle) const;

 private:
  struct RawBlock;

  Status ReadRaw(const BlockHandle& handle, ReadaheadBuffer* readahead,
                 RawBlock* raw) const;
  Status CompareChecksum(const BlockHandle& handle, const Slice& raw) const;
  // The uncompressed body: in *raw itself, or in *scratch, which grows.
  Status Uncompress(const BlockHandle& handle, const Slice& dictionary,
                    const RawBlock& raw, BlockContents* scratch,
                    Slice* body) const;
  Status TakeContents(const BlockHandle& handle, RawBlock* raw,
                      BlockContents* contents) const;

  const RandomAccessFile* const file_;
  const std::string file_name_;
  const uint64_t file_size_;
  const ChecksumType checksum_type_;
  const uint32_t format_version_;
  std::string dictionary_;
};

}  // namespace varve
