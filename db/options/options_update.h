// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

#include <map>
#include <string>

#include "varve/options.h"
#include "varve/status.h"

namespace varve {

// Sets those options that DB::SetOptions may change, by name. InvalidArgument
// names the first one that is unknown or not a value of its kind; *options may
// then be changed in part.
Status UpdateOptions(const std::map<std::string, std::string>& changes,
                     Options* options);

}  // namespace varve
