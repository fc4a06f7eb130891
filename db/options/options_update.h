// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

#include <map>
#include <string>

#include "varve/options.h"
#include "varve/status.h"

namespace varve {

// Sets options by name, for DB::SetOptions. Returns InvalidArgument with the
// name of the first option that is unknown, may not be changed, or has a value
// of the wrong type. Some of *options may then be changed.
Status UpdateOptions(const std::map<std::string, std::string>& changes,
                     Options* options);

}  // namespace varve
