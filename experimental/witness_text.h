// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// The property varve.ablation-witness, by which a measurement can tell which
// variants have run.

#include <string>

#include "util/base/experiment.h"

namespace varve {

// Experiment::witness_text.
std::string WitnessText(const AblationOptions& choices,
                        const WitnessSources& sources);

}  // namespace varve
