// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

#include <atomic>
#include <cstdint>
#include <span>
#include <vector>

#include "db/compaction/compaction_iterator.h"
#include "db/compaction/table_output.h"
#include "db/memtable/memtable.h"
#include "db/version/version_edit.h"
#include "db/write/flush_pace.h"
#include "varve/compaction_filter.h"
#include "varve/status.h"

namespace varve {

// The inputs of a flush.
struct FlushInput {
  const TableOutputContext& context;
  const Version& version;
  std::vector<MemTable*> memtables;  // Oldest first.
  uint64_t file_number;
  std::vector<SequenceNumber> snapshots = {};
  // Tables of older entries that are in no version yet.
  std::span<const FileMetaData> other_tables = {};
  // For the factory of compaction filters.
  TableFileCreationReason reason = TableFileCreationReason::kFlush;
  FlushPace* pace = nullptr;  // If not null, progress is reported to it.
  // After this became true, no further call of a filter begins; the flush goes
  // on. May be null.
  const std::atomic<bool>* stop = nullptr;
};

// Writes memtables to one table of level 0, and adds it to the edit. Creates no
// table if all entries are dropped. Drops a deletion that all snapshots see if
// no table of `version` or `other_tables` has its key in its range. Sets *drops
// to the dropped entries. Takes no lock. After an error the file is removed.
//
// REQUIRES: all older entries are in these tables, and will be there or in
// outputs of their compactions when the new table is added.
Status FlushMemTables(const FlushInput& flush, VersionEdit* edit,
                      CompactionIterator::Drops* drops);

}  // namespace varve
