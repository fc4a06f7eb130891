// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Whether an ablation that was asked for has run. A figure of a variant that
// never did its own step would be one of another variant under its name.

#include <string>

#include "varve/slice.h"

namespace varve {

// Those of `wanted`, "FIELD=VALUE" separated by commas, whose count in two
// texts of the property varve.ablation-path-counts is the same, or in neither;
// in the form of `wanted`.
std::string IdleAblations(const Slice& wanted, const Slice& before,
                          const Slice& after);

}  // namespace varve
