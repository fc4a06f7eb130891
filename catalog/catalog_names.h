// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Names of a catalog's databases and of their directories.
//
// A directory's name is "db-" and the folded name. Every byte except a-z, 0-9,
// - and _ is written as % and two hexadecimal digits. Different databases thus
// have different directories even on file systems that ignore case or normalize
// Unicode, and no name has a special meaning to the system.
// Thread-safety: all functions are thread-safe.

#include <cstddef>
#include <cstdint>
#include <string>

#include "varve/slice.h"
#include "varve/status.h"

namespace varve {

constexpr size_t kMaxDatabaseNameBytes = 80;

// Checks a folded name. InvalidArgument describes the problem.
Status CheckDatabaseName(const Slice& folded);

// Returns NotFound, or the error of CheckDatabaseName.
Status NoSuchDatabase(const Slice& folded);

std::string DatabaseDirectory(const Slice& folded);

// Parses the name of a database's directory. Returns false if it is not one.
bool ParseDatabaseDirectory(const std::string& directory, std::string* folded);

// Returns the name of the directory of a database that is to be removed, such
// as "dropped-7".
std::string DroppedDirectory(uint64_t number);
bool ParseDroppedDirectory(const std::string& directory, uint64_t* number);

}  // namespace varve
