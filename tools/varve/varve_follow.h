// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// The command `follow`: the updates in the logs of a database, as lines.

#include "tools/varve/varve_command_line.h"
#include "varve/status.h"

namespace varve {

Status RunFollow(Session* session);

}  // namespace varve
