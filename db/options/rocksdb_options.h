// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// The names of RocksDB's options, of all its versions from 7.8 to 11.8. OPTIONS
// files and option texts may have them, though the engine uses only some.

#include <cstdint>
#include <string_view>

#include "db/options/option_table.h"

namespace varve {

// The part of an OPTIONS file that has an option.
enum class OptionSection : uint8_t {
  kDatabase,
  kFamily,
  kTable,  // RocksDB's BlockBasedTableOptions.
};

bool RocksDbHas(OptionSection section, std::string_view name);

// Returns where files have the option. RocksDB need not have it.
OptionSection SectionOf(const OptionRow& row);

}  // namespace varve
