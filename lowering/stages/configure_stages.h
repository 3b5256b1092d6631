//===- lowering/stages/configure_stages.h - the configuration of each stage -------------------===//
#pragma once

#include "lowering/state.h"

namespace braid {

/// Sets the configuration of each stage. Reports tensors that no stage produces, conflicting
/// entries for one stage, and incompatible fields. Returns true if there was nothing to report.
bool configureStages(LoweringState &state);

/// Returns the fields of the first preset that is compatible with `given` under all rules,
/// including those for reductions; otherwise those of the default preset. Also sets the other knobs
/// for which a rule demands a value other than the default.
Configuration fieldsFor(const Configuration &given);
/// Returns `given` completed by fieldsFor(), unless those are the default fields, which are
/// implied.
Configuration completed(const Configuration &given);

/// Returns the preset of the stages that gather: "mixed" if they differ, "local" if there is none.
std::string scheduleName(const LoweringState &state);

} // namespace braid
