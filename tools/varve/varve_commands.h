// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// The program `varve`. The commands get and scan print the same lines as
// RocksDB's `ldb`, so that `diff` can compare the two.

#include <cstdio>
#include <string>
#include <vector>

namespace varve {

inline constexpr int kExitOk = 0;
// Not found, damaged, or an error that was printed.
inline constexpr int kExitFailure = 1;
// The command line is invalid.
inline constexpr int kExitUsage = 2;

// Runs the command line `arguments`, without the program's name. Returns the
// exit code. Reads data from `in`, prints data to `out` and errors to `err`.
int RunVarve(const std::vector<std::string>& arguments, FILE* out, FILE* err,
             FILE* in = stdin);

}  // namespace varve
