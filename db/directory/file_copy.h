// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include "varve/env.h"
#include "varve/rate_limiter.h"
#include "varve/slice.h"
#include "varve/status.h"

namespace varve {

// Stands for all bytes that a file turns out to have.
inline constexpr uint64_t kWholeFile = UINT64_MAX;

// Reads the first `size` bytes of a file from its beginning, at most
// `piece_bytes` at a time, and gives them to `use` until that returns an error,
// which is returned. `path` is for messages. Returns Corruption if the file is
// shorter.
Status ReadPieces(SequentialFile* file, const std::string& path, uint64_t size,
                  size_t piece_bytes,
                  const std::function<Status(const Slice&)>& use);

// Copies the first `size` bytes of a file, and syncs the copy, but not its
// name. `rate_limiter` may be null. Returns Corruption if the file is shorter.
// After an error a part of the copy may exist.
Status CopyFile(Env* env, const std::string& from, const std::string& to,
                uint64_t size, RateLimiter* rate_limiter = nullptr);

}  // namespace varve
