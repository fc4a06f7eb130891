// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

#include <atomic>
#include <vector>

#include "db/compaction/compaction_iterator.h"
#include "db/compaction/table_output.h"
#include "db/memtable/memtable.h"
#include "db/version/version_edit.h"
#include "db/write/flush_pace.h"
#include "varve/compaction_filter.h"
#include "varve/status.h"

namespace varve {

// Writes memtables, oldest first, to one table of level 0, and adds it to the
// edit. Creates no table if all entries are dropped. Drops a deletion that all
// snapshots see if no table of `version` or `other_tables` has its key in its
// range. Sets *drops to the dropped entries. Takes no lock. After an error the
// file is removed. If `pace` is not null, progress is reported to it. `reason`
// is for the factory of compaction filters. After `stop`, if it is not null,
// became true, no further call of a filter begins; the flush goes on.
//
// REQUIRES: all older entries are in these tables, and will be there or in
// outputs of their compactions when the new table is added.
Status FlushMemTables(
    const TableOutputContext& context, const Version& version,
    const std::vector<FileMetaData>& other_tables,
    const std::vector<MemTable*>& memtables,
    const std::vector<SequenceNumber>& snapshots, uint64_t file_number,
    VersionEdit* edit, CompactionIterator::Drops* drops,
    FlushPace* pace = nullptr,
    TableFileCreationReason reason = TableFileCreationReason::kFlush,
    const std::atomic<bool>* stop = nullptr);

}  // namespace varve
