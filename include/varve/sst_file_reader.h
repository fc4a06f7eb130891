// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Reads a table file without a database.

#include <memory>
#include <string>
#include <vector>

#include "varve/export.h"
#include "varve/iterator.h"
#include "varve/options.h"
#include "varve/status.h"
#include "varve/table_properties.h"

namespace varve {

// Thread-safety: after Open, any number of threads can read.
class VARVE_EXPORT SstFileReader {
 public:
  // The options say how to read: comparator, merge operator, cache and so on.
  explicit SstFileReader(const Options& options);
  SstFileReader(const SstFileReader&) = delete;
  SstFileReader& operator=(const SstFileReader&) = delete;
  ~SstFileReader();

  // Opens a table of Varve, RocksDB or LevelDB. Errors: as DB::Open gives for a
  // table.
  Status Open(const std::string& file_path);
  // Returns an iterator over the file as over a database that has only it: of
  // each key the newest value, deletions applied. It keeps the file open, also
  // if this object is destroyed before it.
  std::unique_ptr<Iterator> NewIterator(const ReadOptions& options);
  // As DB::Get and MultiGet.
  Status Get(const ReadOptions& options, const Slice& key, std::string* value);
  std::vector<Status> MultiGet(const ReadOptions& options,
                               const std::vector<Slice>& keys,
                               std::vector<std::string>* values);
  // Returns null before Open.
  std::shared_ptr<const TableProperties> GetTableProperties() const;
  // Reads all blocks and verifies their checksums.
  Status VerifyChecksum(const ReadOptions& options = ReadOptions());
  // Also verifies the order of keys and the properties' counts.
  Status VerifyNumEntries(const ReadOptions& options = ReadOptions());

 private:
  struct Rep;
  const std::shared_ptr<Rep> rep_;
};

}  // namespace varve
