// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Names of a catalog's databases, and of the directories that they are in.
//
// A directory is named "db-" and the folded name, in which every byte but
// a-z, 0-9, - and _ is written as % and two hexadecimal digits. So different
// databases have different directories where a file system tells neither case
// nor normal forms apart, and no name means something to the system.
// Thread-safety: all functions are thread-safe.

#include <cstddef>
#include <cstdint>
#include <string>

#include "varve/slice.h"
#include "varve/status.h"

namespace varve {

constexpr size_t kMaxDatabaseNameBytes = 80;

// InvalidArgument says what is wrong with a name that is folded already.
Status CheckDatabaseName(const Slice& folded);

// NotFound, or what CheckDatabaseName says.
Status NoSuchDatabase(const Slice& folded);

std::string DatabaseDirectory(const Slice& folded);

// The name of a database's directory; false if that is no such name.
bool ParseDatabaseDirectory(const std::string& directory, std::string* folded);

// Where a database waits for its removal: "dropped-7".
std::string DroppedDirectory(uint64_t number);
bool ParseDroppedDirectory(const std::string& directory, uint64_t* number);

}  // namespace varve
