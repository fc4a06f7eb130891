// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

#include <functional>
#include <memory>

#include "table/block/table_options.h"
#include "varve/env.h"
#include "varve/slice.h"
#include "varve/status.h"

namespace varve {

// Receives an internal key and its value, or the begin (as internal key) and
// the end of a range deletion. Both are valid only during the call.
using SalvageSink =
    std::function<void(const Slice& internal_key, const Slice& value)>;

// Passes all readable entries of a table to the sink, damaged or not, in the
// order of the file. If the index is intact, these are the entries of every
// data block whose checksum is right. Otherwise blocks are recognized by their
// checksums, from the beginning of the file up to the first damage. `legacy`
// says that LevelDB wrote the table, in case the footer does not show it.
// OK does not say how much was read. NotSupported: the table's description of
// itself is intact, and Varve does not read this kind of table.
Status SalvageTable(const TableReaderOptions& options,
                    std::unique_ptr<RandomAccessFile> file, bool legacy,
                    const SalvageSink& sink);

}  // namespace varve
