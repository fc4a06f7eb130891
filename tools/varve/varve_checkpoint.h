// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// The command `varve checkpoint`.

#include "tools/varve/varve_command_line.h"
#include "varve/status.h"

namespace varve {

Status RunCheckpoint(Session* session);

}  // namespace varve
