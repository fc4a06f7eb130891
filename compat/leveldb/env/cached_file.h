// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

#include <memory>

#include "compat/leveldb/abi.h"
#include "varve/env.h"

namespace varve::compat {

// Returns a file that keeps the blocks that are read in a program's own Cache.
// The engine's block cache cannot keep its blocks there, since they have
// another form. So the program's cache has the bytes of the file, and the
// engine decodes them at each read. Reads of more than 64 KiB are not cached.
// `cache` must outlive the file.
std::unique_ptr<RandomAccessFile> NewCachedFile(
    std::unique_ptr<RandomAccessFile> file, leveldb::Cache* cache);

}  // namespace varve::compat
