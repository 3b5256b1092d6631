//===- api/autotune/candidates.h - the candidates for a stage ---------------------------------===//
#pragma once

#include "api/autotune/candidate.h"
#include "api/calibrate/calibrate.h"
#include "lowering/stages/fusion_stages.h"

namespace braid {

/// Returns the available transfer modes, the default first.
std::vector<TransferMode> transferModesOf(llvm::function_ref<bool(TransferMode)> isThere);

/// Removes the modes that contradict the given ones. Messages have no transfer mode.
void narrowModes(const Configuration &given, RunModes &modes);

/// The values from which the candidates of a stage are made. The members must outlive this.
struct CandidateSpace {
  const Configuration &given; ///< not varied
  const RunModes &modes;
  const FusionStage &stage;
  /// Copy engines copy to more than one peer. Then chunks that they copy on several streams have
  /// two modes: either each rank receives from one peer at a time, or, after ranks have drifted
  /// apart, two ranks send to the same peer while another peer receives nothing. Each mode lasts
  /// for many runs, so a trial does not show it, and such candidates are left out.
  bool mayDrift = false;
};

/// Returns the candidates: every schedule, protocol, number of chunks and tail split, in all
/// transfer and launch modes, with GEMMs on one stream or on several. Lowering refuses the
/// candidates that do not suit the stage.
std::vector<Candidate> candidatesFor(const CandidateSpace &space);

} // namespace braid
