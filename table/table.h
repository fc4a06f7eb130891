// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "table/internal_iterator.h"
#include "table/properties.h"
#include "table/table_options.h"
#include "varve/env.h"
#include "varve/options.h"
#include "varve/pinnable_slice.h"
#include "varve/status.h"

namespace varve {

// The outcome of looking for a key in one memtable or table.
enum class LookupState : uint8_t {
  kNotFound,  // Nothing about the key here; look further down.
  kFound,     // The value was set.
  kDeleted,   // Deleted here; look no further.
};

// An open table file. Reads RocksDB's block-based tables of format versions 0
// to 5 and LevelDB's.
// Thread-safety: thread-safe; immutable after construction but for the cache.
class Table {
 public:
  // Reads footer, properties, index and filter, and checks them. Corruption
  // names file and offset; NotSupported names the feature.
  static Status Open(const TableReaderOptions& options,
                     std::unique_ptr<RandomAccessFile> file,
                     std::unique_ptr<Table>* table);
  Table(const Table&) = delete;
  Table& operator=(const Table&) = delete;
  ~Table();

  // Looks for the newest entry of the internal key's user key at or behind
  // it (that is, at or before its sequence number). `user_key_hash` is the
  // filter hash (PreviewXxh3) of the user key. *value is set for kFound.
  Status Get(const ReadOptions& options, const Slice& internal_key,
             uint64_t user_key_hash, LookupState* state,
             PinnableSlice* value) const;

  // The iterator must not outlive the table. With readahead_size of
  // ReadOptions above 0, or for scans noticed by themselves, file ranges are
  // read ahead.
  std::unique_ptr<InternalIterator> NewIterator(
      const ReadOptions& options) const;
  // The same, for an iterator that keeps the table open.
  static std::unique_ptr<InternalIterator> NewIterator(
      const ReadOptions& options, std::shared_ptr<const Table> table);

  // Bytes of the file before the place where the key is or would be, about.
  uint64_t ApproximateOffsetOf(const Slice& internal_key) const;

  // Reads every block and compares checksums, and walks every entry.
  Status VerifyChecksum() const;

  const TableProperties& properties() const;
  // Bytes of memory for index, filter and the rest, without cached blocks.
  size_t ApproximateMemoryUsage() const;

 private:
  struct Rep;
  explicit Table(std::unique_ptr<Rep> rep);
  std::unique_ptr<Rep> rep_;
};

}  // namespace varve
