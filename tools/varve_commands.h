// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// The commands of the program `varve`. Their output is, line by line, that of
// RocksDB's `ldb`, so that `diff` can compare the two.

#include <cstdio>
#include <string>
#include <vector>

namespace varve {

inline constexpr int kExitOk = 0;
// Not found, or an error that is printed.
inline constexpr int kExitFailure = 1;
// The command line makes no sense.
inline constexpr int kExitUsage = 2;

// Runs the command line `arguments`, without the program's name, and returns
// the exit code. Data goes to `out`, complaints to `err`.
int RunVarve(const std::vector<std::string>& arguments, FILE* out, FILE* err);

}  // namespace varve
