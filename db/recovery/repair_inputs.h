// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "db/compaction/table_output.h"
#include "db/memtable/memtable.h"
#include "table/block/internal_iterator.h"
#include "table/block/table_options.h"
#include "table/reader/file_pool.h"
#include "table/reader/table.h"
#include "table/reader/table_cache.h"
#include "varve/options.h"
#include "varve/status.h"

namespace varve {

// The sorted entries that a repair found: complete tables, and memtables with
// the entries salvaged from damaged tables and logs. They are merged in bounded
// memory, however many there are. The caller bounds the memtables: see
// WriteMemTables. If too many inputs overlap, some of them are first merged
// into temporary tables (NNNNNN.dbtmp). The caller keeps the range deletions.
// Thread-safety: owned by one thread.
class RepairInputs {
 public:
  // Bytes that all memtables may hold before the caller writes them to
  // temporary tables.
  static constexpr size_t kMaxMemTableBytes = size_t{16} << 20;
  // Bytes that a memtable may hold before the caller adds it.
  static constexpr size_t kMemTableBytes = size_t{8} << 20;

  // Files are opened through `pool`. *next_number is the next file number. It
  // is incremented for each file. All must outlive it.
  RepairInputs(const TableOutputContext& context,
               const TableReaderOptions& table_options, FilePool* pool,
               uint64_t* next_number);
  RepairInputs(const RepairInputs&) = delete;
  RepairInputs& operator=(const RepairInputs&) = delete;
  // Removes the temporary files.
  ~RepairInputs();

  // Opens a table file, which must keep its name while the table is in use.
  Status OpenTable(const std::string& path, const TableFile& file,
                   std::shared_ptr<Table>* table);

  // Each input has a rank. If several inputs have the same internal key, the
  // entry of the highest rank counts. Returns a rank that exceeds all earlier
  // ones by more than 2^20.
  uint64_t NewRank() { return rank_ += uint64_t{1} << 21; }

  // Adds a complete table, which must have entries. `smallest` and `largest`
  // are internal keys.
  void AddTable(const std::string& path, const TableFile& file, uint64_t rank,
                std::string smallest, std::string largest);
  // Adds a memtable, if it has entries.
  void AddMemTable(std::unique_ptr<MemTable> memtable, uint64_t rank);
  // Bytes of the memtables here.
  size_t memtable_bytes() const { return memtable_bytes_; }
  // Moves all memtables to temporary tables.
  Status WriteMemTables();

  // Returns an iterator over the entries of all inputs, each internal key once.
  // Never null; errors are in its status(). Only Next may be called, after
  // SeekToFirst. REQUIRES: called once, after all inputs were added. The result
  // must not outlive this object.
  std::unique_ptr<InternalIterator> NewIterator();

 private:
  struct Input {
    uint64_t rank = 0;
    std::string smallest;
    std::string largest;
    std::unique_ptr<MemTable> memtable;  // Or else:
    std::string path;
    TableFile file;
    bool temporary = false;
  };
  // Inputs without a key in common, in order.
  using Run = std::vector<const Input*>;
  class RunCursor;
  class Merge;

  Status OpenInput(const Input& input,
                   std::unique_ptr<InternalIterator>* iterator);
  // Sorts inputs [begin, end) into the fewest runs possible.
  std::vector<Run> MakeRuns(size_t begin, size_t end) const;
  // Returns about how much memory a merge of the runs takes.
  static size_t MergeBytes(const std::vector<Run>& runs);
  Status WriteMemTable(Input* input);
  // Merges inputs until the rest can be merged at once.
  Status Reduce();
  // Replaces inputs [begin, end) by temporary tables with their entries, and
  // sets *count to the number of these tables.
  Status MergeSome(size_t begin, size_t end, size_t* count);
  Status FinishOutput(TableOutput* output, uint64_t rank, Input* input);
  void RemoveFile(const Input& input) const;

  Options options_;             // Of temporary tables.
  TableOutputContext context_;  // Of temporary tables.
  TableReaderOptions table_options_;
  uint64_t* const next_number_;
  FilePool* const pool_;
  uint64_t rank_ = 0;
  std::vector<Input> inputs_;  // By rank, when they are merged.
  size_t memtable_bytes_ = 0;  // Of all memtables.
};

}  // namespace varve
