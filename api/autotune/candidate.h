//===- api/autotune/candidate.h - one way to run a fusion -------------------------------------===//
#pragma once

#include "api/compile/compile.h"
#include "runtime/simulate/cost_model.h"

#include <string>

namespace braid {

/// A candidate sets, for one stage and for the run, the knobs of which several values are tried.
/// The other knobs keep the given values.
using Candidate = Configuration;

/// Returns `options` with the knobs of `chosen`. The stages of `chosen` replace those of `options`.
CompileOptions applyTo(CompileOptions options, const Configurations &chosen);
/// Returns `options` with the knobs of `config` for all stages that `options` does not name.
CompileOptions applyTo(CompileOptions options, const Configuration &config);
/// Returns the transfer mode and the launch mode of `config`.
TransferMode transferModeOf(const Configuration &config);
LaunchMode launchModeOf(const Configuration &config);
/// Returns `config` with the transfer mode `mode`. Device defaults stay unset.
Configuration withTransferMode(Configuration config, TransferMode mode);
/// Returns the family of a candidate. Predictions have the same error for all candidates of a
/// family: equal schedule and placement, protocol and place of partial results, and transfer mode.
std::string familyOf(const Candidate &candidate);

} // namespace braid
