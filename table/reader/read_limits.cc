// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "table/reader/read_limits.h"

namespace varve {

Status CheckReadLimits(const ReadOptions& options, Env* env) {
  if (options.read_tier == ReadTier::kBlockCacheTier) {
    return Status::Incomplete("not in memory (read_tier is kBlockCacheTier)");
  }
  if (env == nullptr) env = Env::Default();
  // The deadline is a date.
  if (options.deadline == 0 || env->NowMicros() < options.deadline) {
    return Status();
  }
  return Status::TimedOut("the read's deadline is over");
}

}  // namespace varve
