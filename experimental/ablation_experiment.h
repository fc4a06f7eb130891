// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// The experiment that NewExperiment creates, and its AblationOptions.

#include <string>

#include "experimental/ablation.h"
#include "util/base/experiment.h"
#include "varve/options.h"

namespace varve {

struct AblationExperiment final : Experiment {
  explicit AblationExperiment(const AblationOptions& the_choices);
  std::string PathCountsText(const PathCountSources& sources) const override;

  const AblationOptions choices;
};

// Returns true if a field of AblationOptions is the production choice, which is
// the zero value of each enum.
template <typename Mode>
constexpr bool IsProduction(Mode mode) {
  return mode == Mode{};
}

// Returns the AblationOptions of an Options::experiment, or production if there
// is none.
inline AblationOptions TEST_ChoicesOf(const Options& options) {
  // NewExperiment creates all of them.
  return options.experiment == nullptr
             ? AblationOptions()
             : static_cast<const AblationExperiment*>(options.experiment.get())
                   ->choices;
}

}  // namespace varve
