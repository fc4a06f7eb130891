// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

#include <functional>
#include <memory>

#include "table/block/table_options.h"
#include "varve/env.h"
#include "varve/slice.h"
#include "varve/status.h"

namespace varve {

// Gets an internal key and its value; of a range deletion, where it begins and
// where it ends. Both are valid during the call only.
using SalvageSink =
    std::function<void(const Slice& internal_key, const Slice& value)>;

// Hands over what can be read of a table, damaged or not. Where the index is
// whole, that is every data block whose checksum is right. Where it is not,
// the checksums themselves tell blocks apart, from the beginning of the file
// up to the first damage; `legacy` says that LevelDB wrote it, should the
// footer not say. Entries come in the order of the file.
// OK says nothing of how much that was. NotSupported: the table is whole as far
// as it describes itself, and is of a kind that Varve does not read.
Status SalvageTable(const TableReaderOptions& options,
                    std::unique_ptr<RandomAccessFile> file, bool legacy,
                    const SalvageSink& sink);

}  // namespace varve
