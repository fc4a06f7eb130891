// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// The commands of `varve` that read and write single entries.

#include "tools/varve/varve_command_line.h"
#include "varve/status.h"

namespace varve {

Status RunGet(Session* session);
Status RunPut(Session* session);
Status RunMerge(Session* session);
Status RunDelete(Session* session);
Status RunDeleteRange(Session* session);
Status RunBatchPut(Session* session);

}  // namespace varve
