// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// The property `rocksdb.compression`, which names the compression of a table's
// blocks: "LZ4". Since format version 7, it has the name of a compression
// manager and the types of the blocks, in hexadecimal digits:
// "BuiltinV2;0407;". Any text may be in it. Pure functions.

#include <string>

#include "varve/compression_type.h"

namespace varve {

// Returns whether the property names the type.
bool NamesCompression(const std::string& property, CompressionType type);

// Returns the compression manager without which blocks cannot be read, or "".
std::string ForeignCompressionManager(const std::string& property);

}  // namespace varve
