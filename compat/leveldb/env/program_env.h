// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

#include <memory>

#include "compat/leveldb/abi.h"
#include "varve/env.h"

namespace varve::compat {

// Returns an environment of the engine that calls a program's Env for files,
// locks, background work, loggers and dates. `target` must outlive it.
//
// LevelDB's interface lacks some calls of the engine's:
// - A file that exists is removed before it is written anew.
// - Truncate writes the file anew.
// - Hard links are NotSupported, so the engine copies.
// - Directory::Sync syncs the directory of the operating system of that path,
//   if there is one.
std::unique_ptr<Env> NewProgramEnv(leveldb::Env* target);

// Returns a logger of the engine that calls a program's. `target` must outlive
// it.
std::shared_ptr<Logger> NewProgramLogger(leveldb::Logger* target);

}  // namespace varve::compat
