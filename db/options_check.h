// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

#include "varve/options.h"
#include "varve/status.h"

namespace varve {

// InvalidArgument naming the first option that is out of its bounds or
// contradicts another.
Status CheckOptions(const Options& options);

// Makes what databases may share, cache and statistics, where the options want
// it and name none.
void MakeSharedParts(Options* options);

}  // namespace varve
