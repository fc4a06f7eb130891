// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// The commands `varve backup`, `restore` and `backups`.

#include "tools/varve/varve_command_line.h"
#include "varve/status.h"

namespace varve {

Status RunBackup(Session* session);
Status RunRestore(Session* session);
Status RunBackups(Session* session);

}  // namespace varve
