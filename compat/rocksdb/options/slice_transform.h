// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

#include "varve/slice_transform.h"

// A transform of the program, or one of the engine's. Options that get it take
// it over.
struct rocksdb_slicetransform_t : varve::SliceTransform {};
