// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Databases that another process has open while a command reads them.

#include <functional>
#include <string>

#include "tools/varve/varve_command_line.h"
#include "varve/status.h"

namespace varve {

// The process that has the command's database open, such as "process 17"; empty
// if there is none, or none that can be seen.
std::string FindHolder(const CommandLine& line);

// Calls attempt() again as long as it finds something missing or damaged and
// the files of the database have changed in the meantime, up to a bound.
Status ReadUnlocked(const std::string& db_path,
                    const std::function<Status()>& attempt);

}  // namespace varve
