// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// The logs of an open database as programs ask for them: see WalFile in
// varve/metadata.h. Reads files, so the DB mutex must not be held.

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "varve/env.h"
#include "varve/metadata.h"
#include "varve/status.h"

namespace varve {

// Describes the logs of a directory, given by their numbers and sizes, which
// must exist until it returns. Updates that were written after a log's size was
// taken do not count. `archived`: the numbers of archived logs, which may be
// removed in the meantime and are then left out.
Status DescribeWals(Env* env, const std::string& directory,
                    const std::vector<uint64_t>& archived,
                    const std::vector<std::pair<uint64_t, uint64_t>>& wals,
                    VectorWalPtr* result);

}  // namespace varve
