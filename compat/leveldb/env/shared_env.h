// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

#include "varve/env.h"

namespace varve::compat {

// Returns the environment of all databases of the process whose program did not
// set one of its own: the operating system's, with one background thread for
// all of them, as LevelDB has. Flushes do not wait for compactions: the thread
// interrupts a compaction when it writes a block, and runs waiting flushes
// first. The environment is never destroyed.
Env* SharedEnv();

}  // namespace varve::compat
