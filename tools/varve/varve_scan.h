// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// The commands of `varve` that read many entries.

#include "tools/varve/varve_command_line.h"
#include "varve/status.h"

namespace varve {

Status RunScan(Session* session);
Status RunCount(Session* session);

}  // namespace varve
