// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

#include "tools/varve/varve_command_line.h"
#include "varve/status.h"

namespace varve {

// The command `varve top`: what a process that has the database open is doing,
// seen from outside. It reads the counters from the memory of the process, and
// its files in /proc, and the tables in the MANIFEST.
Status RunTop(Session* session);

}  // namespace varve
