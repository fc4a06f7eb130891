// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Calls of a program's functions: what they throw goes no further.

#include <functional>

#include "varve/backup_engine.h"
#include "varve/status.h"

namespace varve {

// Return Aborted if the function throws.
Status CallProgress(const std::function<void()>& progress);
Status CallExclude(const std::function<void(MaybeExcludeBackupFile*,
                                            MaybeExcludeBackupFile*)>& exclude,
                   MaybeExcludeBackupFile* begin, MaybeExcludeBackupFile* end);

}  // namespace varve
