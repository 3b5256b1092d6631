//===- api/autotune/candidates.h - the candidates for a stage ---------------------------------===//
#pragma once

#include "api/calibrate/calibrate.h"
#include "api/compile/compile.h"
#include "lowering/stages/fusion_stages.h"

namespace braid {

/// A candidate sets the knobs that are varied, for one stage and for the run. All other knobs have
/// their given values.
using Candidate = Configuration;

/// Returns `options` with the knobs in `chosen`. Any stages in `chosen` replace those in `options`.
CompileOptions applyTo(CompileOptions options, const Configurations &chosen);
/// Return the transfer mode and the launch mode of `config`.
TransferMode transferModeOf(const Configuration &config);
LaunchMode launchModeOf(const Configuration &config);

/// Returns the transfer modes to try for which `isThere` returns true, the default first.
std::vector<TransferMode> transferModesOf(llvm::function_ref<bool(TransferMode)> isThere);
/// Removes the modes that contradict `given`. With messages, only the default mode remains.
void narrowModes(const Configuration &given, RunModes &modes);

/// Returns the candidates in the default modes: every combination of schedule, protocol, number of
/// chunks, tail split, and number of streams. Knobs in `given` are not varied. Lowering rejects
/// candidates that do not suit the stage.
std::vector<Candidate> candidatesFor(const Configuration &given, const FusionStage &stage);
/// Returns `candidate` in each combination of transfer mode and launch mode.
std::vector<Candidate> inAllModes(const Candidate &candidate, const RunModes &modes);

/// Returns true if copy engines copy the candidate's blocks on several streams. With more than one
/// peer, runs are then bistable: either each rank receives from one peer at a time, or, after ranks
/// have drifted apart, two ranks send to the same peer while another peer receives nothing. Each
/// state lasts for many runs, so a trial does not reveal both.
bool mayDrift(const Candidate &candidate);

} // namespace braid
