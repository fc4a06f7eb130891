// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

#include "tools/varve/varve_command_line.h"
#include "varve/status.h"

namespace varve {

// The command of `varve` that looks for damage: in the MANIFEST, in each table
// (size, checksums of all blocks, order of keys, the MANIFEST's key range), in
// each log record by record; at last the engine opens the database, as a
// reader. Corruption if something is damaged; all of it was printed then.
Status RunCheck(Session* session);

}  // namespace varve
