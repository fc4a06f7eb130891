// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// The program `varve`. What get and scan print is, line by line, that of
// RocksDB's `ldb`, so that `diff` can compare the two.

#include <cstdio>
#include <string>
#include <vector>

namespace varve {

inline constexpr int kExitOk = 0;
// Not found, damaged, or an error that is printed.
inline constexpr int kExitFailure = 1;
// The command line makes no sense.
inline constexpr int kExitUsage = 2;

// Runs the command line `arguments`, without the program's name, and returns
// the exit code. Data comes from `in` and goes to `out`, complaints to `err`.
int RunVarve(const std::vector<std::string>& arguments, FILE* out, FILE* err,
             FILE* in = stdin);

}  // namespace varve
