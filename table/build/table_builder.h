// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

#include <cstdint>
#include <memory>

#include "table/block/internal_key.h"
#include "table/block/properties.h"
#include "table/block/table_options.h"
#include "varve/env.h"
#include "varve/slice.h"
#include "varve/status.h"
#include "varve/table_properties.h"

namespace varve {

// The version of tables that a program can add to a database, in their
// properties.
constexpr uint32_t kExternalTableVersion = 2;

// Writes a block-based table of format version 5, which RocksDB can read.
// Thread-safety: owned by one thread at a time.
class TableBuilder {
 public:
  // `file` remains owned by the caller. It must stay open and outlive the
  // builder.
  TableBuilder(const TableBuilderOptions& options, WritableFile* file);
  TableBuilder(const TableBuilder&) = delete;
  TableBuilder& operator=(const TableBuilder&) = delete;
  ~TableBuilder();

  // Makes it a table for a database that is to give it a sequence number. All
  // numbers must be 0.
  void MakeExternal();

  // Adds an entry. After an error it does nothing and returns false; see
  // status().
  // REQUIRES: internal_key is after all keys added so far; EntryFits.
  bool Add(const Slice& internal_key, const Slice& value);

  // Adds a deletion of the keys in [begin, end). Range deletions have a block
  // of their own, so calls may alternate with Add in any order.
  // REQUIRES: deletions are ordered by ascending begin, then by descending
  // sequence; EntryFits.
  void AddRangeTombstone(const Slice& begin, const Slice& end,
                         SequenceNumber sequence);

  // Writes the remaining data, then the filter, index, properties and footer.
  // Does not sync or close the file.
  Status Finish();

  Status status() const;
  uint64_t TEST_EntryCount() const;
  // Returns the counts of the entries added so far.
  DeadEntries Dead() const;
  // Returns the internal key added last. Valid until the next call of Add.
  Slice LastKey() const;
  // Returns the bytes written to the file so far. After Finish, this is its
  // size.
  uint64_t FileSize() const;
  // Returns the bytes written so far plus an estimate of the open block's.
  uint64_t EstimatedFileSize() const;
  // Return, after Finish, whether a collector wants the table compacted, and
  // all properties of the table.
  bool NeedCompact() const;
  TableProperties Properties() const;
  // Returns, after Finish, the bytes of the file after the data blocks (filter,
  // index, properties, metaindex, footer).
  uint64_t TailSize() const;

 private:
  struct Rep;
  std::unique_ptr<Rep> rep_;
};

}  // namespace varve
