// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// The commands of `varve` for a whole database.

#include "tools/varve/varve_command_line.h"
#include "varve/status.h"

namespace varve {

Status RunStats(Session* session);
Status RunRepair(Session* session);
Status RunCompact(Session* session);
Status RunTrace(Session* session);

}  // namespace varve
