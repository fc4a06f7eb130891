// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

#include <optional>
#include <string>

#include "db/options/option_table.h"
#include "varve/options.h"

namespace varve {

// Returns the option's value in the syntax of RocksDB's OPTIONS files, which
// ParseOption reads. Returns nothing for what text cannot have: objects that
// databases share or that belong to the program, and an empty list.
std::optional<std::string> OptionText(const OptionRow& option,
                                      const Options& options);

}  // namespace varve
