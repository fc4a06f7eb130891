// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// The experiment that NewExperiment creates, and what it was created of.

#include <string>

#include "util/base/experiment.h"
#include "varve/experimental.h"
#include "varve/options.h"

namespace varve {

struct AblationExperiment final : Experiment {
  explicit AblationExperiment(const AblationOptions& the_choices);
  std::string WitnessText(const WitnessSources& sources) const override;

  const AblationOptions choices;
};

// Whether a field of AblationOptions is the production choice, which is the
// zero value of each enum.
template <typename Mode>
constexpr bool IsProduction(Mode mode) {
  return mode == Mode{};
}

// What an Options::experiment was created of; if there is none, production.
inline AblationOptions TEST_ChoicesOf(const Options& options) {
  // There are no others.
  return options.experiment == nullptr
             ? AblationOptions()
             : static_cast<const AblationExperiment*>(options.experiment.get())
                   ->choices;
}

}  // namespace varve
