// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// The files of a database at one moment, for a program that copies them. Lists
// the directory, so the DB mutex must not be held.

#include <string>
#include <vector>

#include "db/recovery/checkpoint_builder.h"
#include "varve/env.h"
#include "varve/metadata.h"
#include "varve/status.h"

namespace varve {

// Stores the tables, the MANIFEST, CURRENT, the newest OPTIONS file if there is
// one, and the logs of the cut.
Status ListLiveFiles(Env* env, const std::string& directory,
                     const CheckpointCut& cut,
                     std::vector<LiveFileStorageInfo>* files);

}  // namespace varve
