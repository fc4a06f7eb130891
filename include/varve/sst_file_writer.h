// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Writes a table file outside of a database. DB::IngestExternalFile adds it to
// one. docs/ingestion.md

#include <cstdint>
#include <memory>
#include <string>

#include "varve/column_family.h"
#include "varve/export.h"
#include "varve/options.h"
#include "varve/slice.h"
#include "varve/status.h"

namespace varve {

// A table that SstFileWriter has written.
struct ExternalSstFileInfo {
  std::string file_path;
  std::string smallest_key;
  std::string largest_key;
  std::string smallest_range_del_key;
  std::string largest_range_del_key;
  std::string file_checksum;
  std::string file_checksum_func_name;
  uint64_t sequence_number = 0;  // Always 0.
  uint64_t file_size = 0;
  uint64_t num_entries = 0;  // Without range deletions.
  uint64_t num_range_del_entries = 0;
  int32_t version = 0;
};

// Writes one table at a time, in the format of the options: comparator,
// block_size, compression, filter, merge operator's name and so on. All
// sequence numbers are 0; DB::IngestExternalFile gives the file one.
//
// Thread-safety: owned by one thread at a time.
class VARVE_EXPORT SstFileWriter {
 public:
  // `family` says for which family the file is, and so whose id and name it
  // states. Null: any.
  explicit SstFileWriter(const Options& options,
                         ColumnFamilyHandle* family = nullptr);
  SstFileWriter(const SstFileWriter&) = delete;
  SstFileWriter& operator=(const SstFileWriter&) = delete;
  // An unfinished file is removed.
  ~SstFileWriter();

  // Begins a file; one of that name is replaced. Returns InvalidArgument if
  // another file is unfinished.
  Status Open(const std::string& file_path);
  // Add an entry. Each key must be greater than the one before it; otherwise,
  // and before Open, returns InvalidArgument and adds nothing.
  Status Put(const Slice& key, const Slice& value);
  Status Merge(const Slice& key, const Slice& operand);
  Status Delete(const Slice& key);
  // Adds a deletion of the keys from `begin` to before `end`. It does not hide
  // entries of the same file. Can be called in any order. Returns
  // InvalidArgument if `end` is before `begin`.
  Status DeleteRange(const Slice& begin, const Slice& end);
  // Completes and syncs the file. Returns InvalidArgument for a file without
  // entries. `info` can be null.
  Status Finish(ExternalSstFileInfo* info = nullptr);
  // Returns the bytes written to the file so far.
  uint64_t FileSize() const;

 private:
  struct Rep;
  const std::unique_ptr<Rep> rep_;
};

}  // namespace varve
