// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// The command `varve checkpoint`, and copies of databases in use.

#include <string>

#include "db/recovery/checkpoint_builder.h"
#include "tools/varve/varve_command_line.h"
#include "varve/status.h"

namespace varve {

Status RunCheckpoint(Session* session);

// Returns false on read-only media and without the right to write. Nothing can
// be locked there.
bool MayWrite(const std::string& path);

// Makes the checkpoint without a lock, perhaps while another process has the
// database open. Begins again if that process removes a table or log before it
// is in the copy.
Status CheckpointBeside(const std::string& path, CheckpointBuilder* builder);

}  // namespace varve
