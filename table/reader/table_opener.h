// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

#include <memory>

#include "table/block/table_options.h"
#include "table/reader/table_core.h"
#include "varve/env.h"
#include "varve/status.h"

namespace varve {

// Opens a table: reads its metadata, and rejects tables that it cannot read
// correctly. One read fetches the end of the file, which holds all metadata. If
// the MANIFEST does not give its length, a second read may be needed. `core` is
// new. After an error it can only be destroyed.
//
// If options.index_loading permits it, and index, filter and dictionary are
// large, they are not loaded. core->deferred is then not null, and only
// footer, properties, range deletions and sequence number are there.
Status OpenTable(const TableReaderOptions& options,
                 std::unique_ptr<RandomAccessFile> file, TableCore* core);

// Loads the index, the filter and the dictionary of a table for which
// core->deferred is not null, and sets it to null. After an error, the table is
// as before, and the call may be repeated.
Status LoadDeferred(TableCore* core);

// Opens the intact parts of a damaged table. core->loader is null if the footer
// is damaged. There is an index only if *index_is_whole is true. Other damaged
// parts are omitted. Returns NotSupported as OpenTable does, if the table's
// description of itself is intact. Returns no other error.
Status OpenDamagedTable(const TableReaderOptions& options,
                        std::unique_ptr<RandomAccessFile> file, TableCore* core,
                        bool* index_is_whole);

// Reads only the properties of a table, whatever comparator and features it was
// written with. They keep their defaults if it has none. Returns Corruption if
// the footer or one of the blocks on the way is damaged. Only the file's name
// and size in `options` are used.
Status ReadPropertiesOf(const TableReaderOptions& options,
                        std::unique_ptr<RandomAccessFile> file,
                        PropertiesBlock* properties);

}  // namespace varve
