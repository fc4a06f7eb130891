// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

#include <memory>
#include <string_view>

#include "varve/slice_transform.h"

namespace varve {

// Returns the built-in transform with that name, as tables store it. Returns
// null if there is none.
std::shared_ptr<const SliceTransform> NewTransformByName(std::string_view name);
// Also takes the short names in RocksDB's option texts: `fixed:<n>` and
// `capped:<n>`.
std::shared_ptr<const SliceTransform> NewTransformByText(std::string_view text);

}  // namespace varve
