//===- api/autotune/candidates.h - the candidates for a stage ---------------------------------===//
#pragma once

#include "api/calibrate/calibrate.h"
#include "api/compile/compile.h"
#include "lowering/stages/fusion_stages.h"

namespace braid {

/// A candidate sets, for one stage and for the run, the knobs of which several values are tried.
/// The other knobs keep the given values.
using Candidate = Configuration;

/// Returns `options` with the knobs of `chosen`. The stages of `chosen` replace those of `options`.
CompileOptions applyTo(CompileOptions options, const Configurations &chosen);
/// Returns the transfer mode and the launch mode of `config`.
TransferMode transferModeOf(const Configuration &config);
LaunchMode launchModeOf(const Configuration &config);

/// Returns the available transfer modes, the default first.
std::vector<TransferMode> transferModesOf(llvm::function_ref<bool(TransferMode)> isThere);
/// Removes the modes that contradict the given ones. Messages have no transfer mode.
void narrowModes(const Configuration &given, RunModes &modes);

/// Returns the candidates in the default modes: every schedule, protocol, number of chunks and tail
/// split, with GEMMs on one stream or on several. Knobs of `given` are not varied. Lowering refuses
/// the candidates that do not suit the stage.
std::vector<Candidate> candidatesFor(const Configuration &given, const FusionStage &stage);
/// Returns the candidate in each transfer mode and launch mode.
std::vector<Candidate> inAllModes(const Candidate &candidate, const RunModes &modes);

/// Returns true if copy engines copy the candidate's blocks on several streams. If they copy to
/// more than one peer, these runs have two modes: either each rank receives from one peer at a
/// time, or, after ranks have drifted apart, two ranks send to the same peer while another peer
/// receives nothing. Each mode lasts for many runs, so a trial does not show it.
bool mayDrift(const Candidate &candidate);

} // namespace braid
