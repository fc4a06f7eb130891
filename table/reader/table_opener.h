// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

#include <memory>

#include "table/block/table_options.h"
#include "table/reader/table_core.h"
#include "varve/env.h"
#include "varve/status.h"

namespace varve {

// Reads what a table says of itself, and refuses what it cannot read right.
// One read brings the end of the file, where all of it lies; where the MANIFEST
// does not say how long that is, it may take a second one. `core` is new; after
// an error it is only fit to be destroyed.
Status OpenTable(const TableReaderOptions& options,
                 std::unique_ptr<RandomAccessFile> file, TableCore* core);

// As much of a damaged table as holds together: core->loader is null where not
// even the footer does; only with *index_is_whole there is an index. Other
// parts that are damaged are left out. NotSupported as OpenTable has it, for a
// table that is whole as far as it tells of itself; no other error.
Status OpenDamagedTable(const TableReaderOptions& options,
                        std::unique_ptr<RandomAccessFile> file, TableCore* core,
                        bool* index_is_whole);

// Reads a metaindex block: names and handles, which lie within the file, in
// their order.
Status ReadMetaindex(const BlockLoader& loader, const BlockHandle& handle,
                     uint64_t file_size, ReadaheadBuffer* readahead,
                     std::vector<std::pair<std::string, BlockHandle>>* blocks);

}  // namespace varve
