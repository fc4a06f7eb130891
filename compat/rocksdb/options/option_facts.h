// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// The facts of options that RocksDB's logs, option files and SetOptions need
// beside the list of fields.

#include <string>
#include <string_view>

namespace varve::rocksdb_c {

// Returns whether the option belongs to a column family, not to a database.
bool IsFamilyOption(std::string_view field);

// Returns whether RocksDB can change the option while a database is open.
bool CanChange(std::string_view field);

// Return RocksDB's own name of an option, which mostly is the field's name,
// and the field of such a name.
std::string SpellingOf(std::string_view field);
std::string FieldOfSpelling(std::string_view spelling);

}  // namespace varve::rocksdb_c
