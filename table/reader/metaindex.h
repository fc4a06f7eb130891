// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// The block that names a table's metadata blocks.

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "table/block/format.h"
#include "table/cache/block_loader.h"
#include "table/cache/readahead_buffer.h"
#include "varve/slice.h"
#include "varve/status.h"

namespace varve {

// Calls visit(name, handle) for each entry of a metaindex block, in their
// order. All handles are inside the file. Corruption names the place, and may
// come after some visits.
Status VisitMetaindex(
    const BlockLoader& loader, const BlockHandle& handle, uint64_t file_size,
    ReadaheadBuffer* readahead,
    const std::function<void(const Slice&, const BlockHandle&)>& visit);

// Appends all names and handles to *blocks.
Status ReadMetaindex(const BlockLoader& loader, const BlockHandle& handle,
                     uint64_t file_size, ReadaheadBuffer* readahead,
                     std::vector<std::pair<std::string, BlockHandle>>* blocks);

}  // namespace varve
