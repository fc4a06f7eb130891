// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// The command of `varve` for prepared transactions.

#include "tools/varve/varve_command_line.h"
#include "varve/status.h"

namespace varve {

Status RunPrepared(Session* session);

}  // namespace varve
