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

// The sorted entries that a repair has found: tables that are whole, and
// memtables of what was salvaged from damaged tables and logs. However many
// there are, they are merged in bounded memory: memtables beyond a bound are
// written to temporary tables (NNNNNN.dbtmp), and where too many inputs
// overlap, some of them are first merged into temporary tables. Range deletions
// are kept elsewhere, by the caller. Thread-safety: owned by one thread.
class RepairInputs {
 public:
  // What a memtable may hold before the caller hands it over, in bytes.
  static constexpr size_t kMemTableBytes = size_t{8} << 20;

  // `next_number` gives the numbers of files, and rises. All must outlive it.
  RepairInputs(const TableOutputContext& context,
               const TableReaderOptions& table_options, uint64_t* next_number);
  RepairInputs(const RepairInputs&) = delete;
  RepairInputs& operator=(const RepairInputs&) = delete;
  // Removes the temporary files.
  ~RepairInputs();

  // Opens a table file that does not move as long as the table is in use.
  Status OpenTable(const std::string& path, const TableFile& file,
                   std::shared_ptr<Table>* table);

  // Each input has a rank. If entries of several inputs have the same internal
  // key, that of the highest rank counts. Returns a rank higher than all before
  // by more than 2^20.
  uint64_t NewRank() { return rank_ += uint64_t{1} << 21; }

  // Adds a whole table, which has entries. The keys are internal, of the first
  // and the last one.
  void AddTable(const std::string& path, const TableFile& file, uint64_t rank,
                std::string smallest, std::string largest);
  // Adds a memtable, if it has entries.
  Status AddMemTable(std::unique_ptr<MemTable> memtable, uint64_t rank);

  // Walks the entries of all inputs, each internal key once. Never null; errors
  // are in its status(). Only Next may be called, after SeekToFirst. To be
  // called once, when all are added. The result must not outlive this.
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
  // Sorts inputs [begin, end) into as few runs as there can be.
  std::vector<Run> MakeRuns(size_t begin, size_t end) const;
  // The memory that a merge of the runs takes, about.
  static size_t MergeBytes(const std::vector<Run>& runs);
  // Moves all memtables to temporary tables.
  Status WriteMemTables();
  Status WriteMemTable(Input* input);
  // Merges inputs until all that are left can be merged at once.
  Status Reduce();
  // Merges inputs [begin, end) into temporary tables that take their place, and
  // sets *count to how many these are.
  Status MergeSome(size_t begin, size_t end, size_t* count);
  Status FinishOutput(TableOutput* output, uint64_t rank, Input* input);
  void RemoveFile(const Input& input) const;

  Options options_;             // Of temporary tables.
  TableOutputContext context_;  // The same.
  TableReaderOptions table_options_;
  uint64_t* const next_number_;
  FilePool pool_;
  uint64_t rank_ = 0;
  std::vector<Input> inputs_;  // By rank, when they are merged.
  size_t memtable_bytes_ = 0;  // Of all memtables.
};

}  // namespace varve
