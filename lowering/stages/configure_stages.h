//===- lowering/stages/configure_stages.h - the configuration of each stage -------------------===//
#pragma once

#include "lowering/state.h"

namespace braid {

/// Sets the configuration of each stage. Reports entries for tensors that no stage produces,
/// conflicting entries for a stage, and incompatible fields. Returns true if there were no errors.
bool configureStages(LoweringState &state);

/// Returns the fields of the first preset that is compatible with `given` under all rules,
/// including those for reductions, or else the default preset's fields. Also sets all other knobs
/// for which a rule requires a non-default value.
Configuration fieldsFor(const Configuration &given);
/// Returns `given` with unset knobs filled in from fieldsFor(), or `given` itself if fieldsFor()
/// returns the fields of the default preset.
Configuration completed(const Configuration &given);

/// Returns the preset of the stages that communicate, "mixed" for several, or "local" for none.
std::string scheduleName(const LoweringState &state);

} // namespace braid
