// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// The commands of `varve` that print MANIFESTs and write-ahead logs.

#include "tools/varve/varve_command_line.h"
#include "varve/status.h"

namespace varve {

Status RunDumpManifest(Session* session);
Status RunDumpWal(Session* session);
Status RunLevels(Session* session);

}  // namespace varve
