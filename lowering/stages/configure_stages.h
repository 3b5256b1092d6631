//===- lowering/stages/configure_stages.h - what was chosen for each stage --------------------===//
#pragma once

#include "lowering/state.h"

namespace braid {

/// Gives each stage its configuration. Reports tensors that no stage makes, two choices for one
/// stage, and fields that cannot be had together; true if all is fine.
bool configureStages(LoweringState &state);

/// Fields of the first preset that fits `given` by all rules, those of reductions included; else of
/// the default preset. Other knobs are set where a rule demands another value than the default.
Configuration fieldsFor(const Configuration &given);
/// `given`, and those, if they are not the default's, which needs none.
Configuration completed(const Configuration &given);

/// Why sums=gemm cannot be had of a reduction, whatever else it has; nothing if it can.
std::string whyNoGemmAdds(const Stage &stage);

/// The preset of the stages that gather; "mixed" if they differ, "local" if there is none.
std::string scheduleName(const LoweringState &state);

} // namespace braid
