// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

#include <memory>
#include <string_view>

#include "varve/slice_transform.h"

namespace varve {

// Returns the built-in transform with that name, as tables and OPTIONS files
// store it, or with one of the short names that RocksDB's option texts have
// (`fixed:<n>`, `capped:<n>`). Returns null if there is none.
std::shared_ptr<const SliceTransform> NewTransformByName(std::string_view name);

}  // namespace varve
