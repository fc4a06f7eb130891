// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Options as text: "write_buffer_size=8M;block_based_table_factory={...}".

#include <string>
#include <utility>
#include <vector>

#include "compat/rocksdb/options/options.h"

namespace varve::rocksdb_c {

using TextPairs = std::vector<std::pair<std::string, std::string>>;

// Splits text into names and values, from which outer braces are removed.
// Returns InvalidArgument if it has another form.
Status SplitOptions(const std::string& text, TextPairs* pairs);

// Returns the field of that name, in RocksDB's spelling, or null.
const Field* FindOption(const std::string& name);

// Sets one option from text, which can be in braces. Returns InvalidArgument if
// the value has the wrong form, and NotFound if there is no such option.
// Options that the C interface cannot set, such as listeners, are left alone.
Status SetOptionFromText(const std::string& name, const std::string& value,
                         rocksdb_options_t* options);

// Sets one option of a family's table from text, as SetOptionFromText.
Status SetTableOptionFromText(const std::string& name, const std::string& value,
                              rocksdb_block_based_table_options_t* table);

// Returns InvalidArgument with RocksDB's text for an unknown option.
Status UnknownOption(const std::string& name);

}  // namespace varve::rocksdb_c
