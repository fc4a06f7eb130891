// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Checks that a requested ablation has run. Without the check, a variant whose
// own code never ran would be reported under its name.

#include <string>

#include "varve/slice.h"

namespace varve {

// Returns the ablations of `wanted` that did not run, in the form of `wanted`:
// "FIELD=VALUE" separated by commas. An ablation did not run if both texts of
// the property varve.ablation-path-counts have the same count for it, or none.
std::string IdleAblations(const Slice& wanted, const Slice& before,
                          const Slice& after);

}  // namespace varve
