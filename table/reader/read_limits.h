// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

#include "varve/env.h"
#include "varve/options.h"
#include "varve/status.h"

namespace varve {

// Called by MayReadFile, for options that limit reads.
[[gnu::noinline]] Status CheckReadLimits(const ReadOptions& options, Env* env);

// Called before a file is read for the user. Returns Incomplete if read_tier
// forbids that, TimedOut if the deadline of the options is over, and OK
// otherwise. `env` has the clock; null stands for Env::Default().
inline Status MayReadFile(const ReadOptions& options, Env* env) {
  if (options.read_tier != ReadTier::kBlockCacheTier && options.deadline == 0)
      [[likely]] {
    return Status();
  }
  return CheckReadLimits(options, env);
}

}  // namespace varve
