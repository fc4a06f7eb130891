// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

namespace varve::compat {

// The names by which operators know a library that replaces another one.
struct Library {
  const char* program;    // For messages, such as "varve-leveldb".
  const char* variables;  // The begin of the environment variables' names.
};

// Each library that replaces another one defines this, in its library.cc. It is
// initialized before any code of the library runs.
extern const Library kLibrary;

}  // namespace varve::compat
