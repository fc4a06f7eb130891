// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

#include "varve/options.h"
#include "varve/status.h"

namespace varve {

// InvalidArgument naming the first option that is out of its bounds or
// contradicts another.
Status CheckOptions(const Options& options);

}  // namespace varve
