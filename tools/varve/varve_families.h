// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

#include "tools/varve/varve_command_line.h"
#include "varve/status.h"

namespace varve {

// The command of `varve` that lists, creates and drops column families.
Status RunFamilies(Session* session);

}  // namespace varve
