// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// The text of an OPTIONS file of RocksDB: sections of lines "name=value". A
// comment "#varve name=value" is a line of an option that only Varve has, so
// that RocksDB passes over it.

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "varve/status.h"

namespace varve {

// The oldest version of RocksDB that has all the names that Varve writes.
inline constexpr char kOptionsVersion[] = "7.8.3";

struct OptionsLine {
  std::string name;
  std::string value;  // Values of strings keep their backslashes.
  bool is_own = false;
  size_t line_number = 0;  // Where a file had it. From 1.
};

using OptionsLines = std::vector<OptionsLine>;

// Returns the line of that name, or null.
const OptionsLine* FindLine(const OptionsLines& lines, std::string_view name);

struct OptionsDocument {
  struct Family {
    std::string name;
    OptionsLines lines;
    OptionsLines table;  // Of BlockBasedTableOptions.
  };

  std::string version = kOptionsVersion;  // Of RocksDB.
  OptionsLines database;
  std::vector<Family> families;  // The default one first.
};

// Reads a text. Returns Corruption, with the line's number after `path`, if
// RocksDB would not read it either. Tables of other formats are left out.
Status ParseOptionsDocument(std::string_view text, const std::string& path,
                            OptionsDocument* document);

std::string ToString(const OptionsDocument& document);

// Replaces a backslash and the character after it, and the reverse, for values
// that are strings and for families' names.
std::string UnescapeOption(std::string_view text);
std::string EscapeOption(std::string_view text);

}  // namespace varve
