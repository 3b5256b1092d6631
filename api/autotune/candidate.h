//===- api/autotune/candidate.h - one way to run a fusion -------------------------------------===//
#pragma once

#include "api/compile/compile.h"
#include "runtime/simulate/cost_model.h"

#include <string>

namespace braid {

/// A value for each knob of one stage, and of the run, of which more than one is tried; the others
/// as they were given.
using Candidate = Configuration;

/// `options` with what `chosen` says; what it says of stages holds instead of what they say.
CompileOptions applyTo(CompileOptions options, const Configurations &chosen);
/// The same, where `config` is for all stages that `options` does not name.
CompileOptions applyTo(CompileOptions options, const Configuration &config);
/// The transfer mode and the launch mode of `config`.
TransferMode transferModeOf(const Configuration &config);
LaunchMode launchModeOf(const Configuration &config);
/// `config` with that transfer mode, but for CTAs; nothing where it is the device's choice.
Configuration withTransferMode(Configuration config, TransferMode mode);
/// Predictions misjudge all candidates of one family in the same way. A family shares the schedule
/// with its placement, the protocol with the place of partial results, and the transfer mode.
std::string familyOf(const Candidate &candidate);

} // namespace braid
