// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// A properties block in the form that programs get: varve/table_properties.h.

#include "table/block/properties.h"
#include "varve/table_properties.h"

namespace varve {

// REQUIRES: the block was decoded with OtherProperties::kKept, or is about to
// be written.
TableProperties ToTableProperties(PropertiesBlock block);

}  // namespace varve
