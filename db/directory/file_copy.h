// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

#include <cstdint>
#include <string>

#include "varve/env.h"
#include "varve/rate_limiter.h"
#include "varve/status.h"

namespace varve {

// Copies the first `size` bytes of a file, and syncs the copy, but not its
// name. `rate_limiter` may be null. Returns Corruption if the file is shorter.
// After an error a part of the copy may exist.
Status CopyFile(Env* env, const std::string& from, const std::string& to,
                uint64_t size, RateLimiter* rate_limiter = nullptr);

}  // namespace varve
