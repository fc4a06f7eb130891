// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

#include <cstdint>
#include <memory>

#include "table/block/internal_key.h"
#include "table/block/table_options.h"
#include "varve/env.h"
#include "varve/slice.h"
#include "varve/status.h"

namespace varve {

// Writes a block-based table of format version 5, as RocksDB reads it.
// Thread-safety: owned by one thread at a time.
class TableBuilder {
 public:
  // `file` stays the caller's, and open; it must outlive the builder.
  TableBuilder(const TableBuilderOptions& options, WritableFile* file);
  TableBuilder(const TableBuilder&) = delete;
  TableBuilder& operator=(const TableBuilder&) = delete;
  ~TableBuilder();

  // Adds an entry. False after an error, when it does nothing; see status().
  // REQUIRES: internal_key is behind all keys added so far; EntryFits.
  bool Add(const Slice& internal_key, const Slice& value);

  // Adds a deletion of the keys from `begin` to before `end`. Its block is no
  // part of the order of Add: the two may alternate.
  // REQUIRES: the deletions rise by begin, and fall by sequence for equal
  // ones; EntryFits.
  void AddRangeTombstone(const Slice& begin, const Slice& end,
                         SequenceNumber sequence);

  // Writes what is left, then the filter, index, properties and footer. Does
  // not sync or close the file.
  Status Finish();

  Status status() const;
  uint64_t TEST_EntryCount() const;
  // Of them, deletions of single keys.
  uint64_t DeletionCount() const;
  // The internal key added last; valid until the next call of Add.
  Slice LastKey() const;
  // Bytes of the file so far; after Finish, its size.
  uint64_t FileSize() const;
  // Bytes of the file so far and what the open block will add, about.
  uint64_t EstimatedFileSize() const;
  // After Finish: bytes from the first behind the data blocks (filter, index,
  // properties, metaindex) to the end.
  uint64_t TailSize() const;

 private:
  struct Rep;
  std::unique_ptr<Rep> rep_;
};

}  // namespace varve
