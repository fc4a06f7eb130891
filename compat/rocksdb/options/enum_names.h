// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace varve::rocksdb_c {

// Returns the number of an enumerator of RocksDB's options, such as
// kLZ4Compression or kCompactionStyleLevel.
std::optional<int> EnumeratorOf(std::string_view name);

// Returns the text that LOG has for a value of the option `name`, which is an
// enumeration, or nothing if the option is printed as a number.
std::optional<std::string> EnumTextOf(std::string_view name, int value);

// Returns RocksDB's text for a type of compression, such as "LZ4".
std::string CompressionText(int type);

}  // namespace varve::rocksdb_c
