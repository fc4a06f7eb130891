// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// The program `varve`. With --hex, the commands get and scan print the same
// lines as RocksDB's `ldb`, so that `diff` can compare the two.

#include <cstdio>
#include <string>
#include <vector>

namespace varve {

// Scripts rely on these. The man page lists them.
inline constexpr int kExitOk = 0;
// The database does not have the key of `get`.
inline constexpr int kExitAbsent = 1;
// The command line is invalid.
inline constexpr int kExitUsage = 2;
// The database, or a file that was read, is damaged.
inline constexpr int kExitDamage = 3;
// Another process has the database open.
inline constexpr int kExitBusy = 4;
// Any other error: no database, a system call, an unsupported feature.
inline constexpr int kExitFailure = 5;

// Runs the command line `arguments`, without the program's name. Returns the
// exit code. Reads data from `in`, prints data to `out` and errors to `err`.
int RunVarve(const std::vector<std::string>& arguments, FILE* out, FILE* err,
             FILE* in = stdin);

}  // namespace varve
