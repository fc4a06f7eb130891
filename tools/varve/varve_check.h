// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

#include "tools/varve/varve_command_line.h"
#include "varve/status.h"

namespace varve {

// The command of `varve` that checks for damage. It reads the MANIFEST, each
// table (size, checksums of all blocks, order of keys, the MANIFEST's key
// range), and each log record by record. Finally it opens the database
// read-only. Returns Corruption if it found and printed damage.
Status RunCheck(Session* session);

}  // namespace varve
