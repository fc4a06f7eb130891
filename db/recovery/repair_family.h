// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "db/compaction/table_output.h"
#include "db/memtable/memtable.h"
#include "db/recovery/repair_inputs.h"
#include "db/version/version_edit.h"
#include "table/block/internal_key.h"
#include "table/block/range_tombstone_set.h"
#include "table/block/table_options.h"
#include "table/reader/file_pool.h"
#include "table/reader/table.h"
#include "varve/options.h"
#include "varve/slice.h"
#include "varve/status.h"

namespace varve {

class BlockCache;

// What the column families of one repair share. All must outlive them.
struct RepairContext {
  std::string path;  // The database's directory.
  Env* env = nullptr;
  BlockCache* block_cache = nullptr;
  FilePool* pool = nullptr;
  std::string session_identity;
  uint64_t* next_number = nullptr;  // The next file number.
  // Called after memtables were taken. Bounds the memtables of all families.
  std::function<Status()> bound_memtables;
};

// The readable entries of one column family, which a repair merges into new
// tables. Thread-safety: owned by one thread.
class RepairFamily {
 public:
  RepairFamily(uint32_t id, std::string name, const Options& options,
               const RepairContext& context);
  RepairFamily(const RepairFamily&) = delete;
  RepairFamily& operator=(const RepairFamily&) = delete;

  const std::string& name() const { return name_; }
  const InternalKeyComparator& comparator() const { return comparator_; }

  // Adds the table if it can be read to the end. Returns false if it cannot.
  // `known` is what the MANIFEST says of it, or null. A table with merge
  // operands that the MANIFEST does not name is left out if no entry is newer
  // than `named_up_to`: a job was to combine operands of named tables, and did
  // not end. They would be applied twice.
  bool TakeWhole(const std::string& path, const TableFile& file,
                 SequenceNumber named_up_to, const FileMetaData* known);
  // Returns a rank for a table that is copied later; see RepairInputs.
  uint64_t NewRank() { return inputs_->NewRank(); }
  // Copies the readable entries of a damaged table. `legacy`: see SalvageTable.
  Status CopyReadable(const std::string& path, const TableFile& table,
                      bool legacy, uint64_t rank);

  // Returns the memtable for updates of the log that is being read. A newer
  // log's updates have a memtable of their own: should one number have been
  // given out twice, the newer log is right.
  MemTable* log_memtable();
  bool has_log_memtable() const { return log_ != nullptr; }
  // Bytes of that memtable.
  size_t log_bytes() const {
    return log_ == nullptr ? 0 : log_->ApproximateMemoryUsage();
  }
  // Takes the updates in that memtable. The caller bounds the memtables then.
  void TakeLog();

  // Bytes of the memtables that were taken and not written.
  size_t memtable_bytes() const {
    return inputs_ == nullptr ? 0 : inputs_->memtable_bytes();
  }
  // Writes them to temporary tables.
  Status WriteMemTables() { return inputs_->WriteMemTables(); }

  // Merges all entries into new tables of level 1. Raises *last_sequence to the
  // largest sequence number. On failure, tables that are complete remain; see
  // RemoveOutputs. REQUIRES: called once, after all entries were added.
  Status Merge(SequenceNumber* last_sequence);
  // Removes the temporary files. REQUIRES: nothing else is called after it but
  // RemoveOutputs, edit and the accessors.
  void RemoveInputs() { inputs_.reset(); }
  // Removes the new tables.
  void RemoveOutputs();
  // Adds the new tables.
  VersionEdit* edit() { return &edit_; }

 private:
  std::unique_ptr<MemTable> NewMemTable() const;
  // Takes what was salvaged.
  void AddMemTable(std::unique_ptr<MemTable> memtable, uint64_t rank);
  void AddDeletions(const RangeTombstoneSet& set);
  bool TakeRangeTombstones(const TableFile& file, const Table& table,
                           const FileMetaData* known);

  const std::string name_;
  const Options options_;
  const RepairContext& shared_;
  const InternalKeyComparator comparator_;
  TableReaderOptions table_options_;
  TableOutputContext context_;
  // Tables, then logs, each the oldest first. For two entries with the same
  // internal key, the newest log's counts, or else the entry of the table with
  // the highest number. A compaction that removed sequence numbers may have
  // left its inputs, in which older entries have none either.
  std::unique_ptr<RepairInputs> inputs_;
  std::unique_ptr<MemTable> log_;
  std::optional<MemTable> deletions_;  // All range deletions that were found.
  VersionEdit edit_;
};

}  // namespace varve
