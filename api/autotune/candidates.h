//===- api/autotune/candidates.h - the candidates for a stage ---------------------------------===//
#pragma once

#include "api/calibrate/calibrate.h"
#include "api/compile/compile.h"
#include "lowering/stages/fusion_stages.h"

#include <memory>

namespace braid {

/// The knobs of one stage and of the run: the user's choices, and the values of the varied knobs.
using Candidate = Configuration;

struct JudgedCandidate {
  Candidate candidate;     ///< for a single stage
  Configurations schedule; ///< for the whole fusion
  /// Plans that represent all ranks, shared by candidates that differ only in their modes.
  std::shared_ptr<const std::vector<Plan>> plans = nullptr;
  double predictedUs = 0;             ///< predicted time of a run in a burst
  std::optional<double> burstUs = {}; ///< measured time of a run in a burst, if timed
  bool isDefault = false;             ///< true for the default schedule for the stage's sizes
};

/// Applies the knobs in `chosen` to `options`. Stages in `chosen` replace all stages in `options`.
CompileOptions applyTo(CompileOptions options, const Configurations &chosen);
/// Return the transfer mode and the launch mode of `config`.
TransferMode transferModeOf(const Configuration &config);
LaunchMode launchModeOf(const Configuration &config);

/// Returns the transfer modes that are worth trying, the default first. Omits modes for which
/// `isThere` returns false.
std::vector<TransferMode> transferModesOf(llvm::function_ref<bool(TransferMode)> isThere);
/// Removes modes that contradict `given`. If ranks send messages, keeps only the default transfer
/// mode.
void narrowModes(const Configuration &given, RunModes &modes);

/// Returns the candidates in the default modes: every schedule, in every combination of the values
/// worth trying for protocol, chunks, streams and other knobs. Does not vary knobs in `given`. Some
/// candidates may be invalid for the stage; lowering rejects them later.
std::vector<Candidate> candidatesFor(const Configuration &given, const FusionStage &stage);
/// Returns true if `a` and `b` set the same values, apart from knobs set to their defaults.
bool areAlike(const Candidate &a, const Candidate &b);
/// Returns `candidate` in each combination of transfer mode and launch mode.
std::vector<Candidate> inAllModes(const Candidate &candidate, const RunModes &modes);

/// Returns true if the candidate's blocks are copied by copy engines on several streams. With more
/// than one peer, run times are then bistable: either each rank receives from one peer at a time,
/// or, after ranks have drifted apart, two ranks send to the same peer while another peer receives
/// nothing. Each state lasts for many runs, so a single trial does not reveal both.
bool mayDrift(const Candidate &candidate);

} // namespace braid
