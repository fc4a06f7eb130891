// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

#include <cstdint>

#include "varve/options.h"
#include "varve/status.h"

namespace varve {

// Raises values that are too small to be useful: of the options with kRaise,
// and of max_open_files.
void RaiseNumbers(Options* options);

// Moves numbers into their bounds, for options of RocksDB, which has others.
void ClampNumbers(Options* options);

// The numbers of level-0 tables and of bytes waiting for compaction at which
// writers are slowed down and stopped. 0 bytes means never. The values are the
// options', but an option with its default value adapts to the others.
struct StallBounds {
  int level0_slowdown = 0;
  int level0_stop = 0;
  uint64_t pending_slowdown = 0;
  uint64_t pending_stop = 0;
};
StallBounds WriterBounds(const Options& options);

// Divide max_background_jobs: a quarter for flushes and the rest for
// compactions, at least one each.
int MaxFlushes(const Options& options);
int MaxCompactions(const Options& options);

// Returns InvalidArgument with the name of the first option that is out of its
// bounds or contradicts another option, after RaiseNumbers.
Status CheckOptions(const Options& options);

// Creates the objects that databases may share, the block cache and the
// statistics, if the options require them but have none.
void MakeSharedParts(Options* options);

}  // namespace varve
