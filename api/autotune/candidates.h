//===- api/autotune/candidates.h - selects the candidates that are worth trials ---------------===//
#pragma once

#include "api/autotune/candidate.h"
#include "api/calibrate/calibrate.h"
#include "lowering/stages/fusion_stages.h"

namespace braid {

/// Returns the available transfer modes, the default first.
std::vector<TransferMode> transferModesOf(llvm::function_ref<bool(TransferMode)> isThere);

/// Removes the modes that contradict the given ones.
void narrowModes(const Configuration &given, RunModes &modes);

/// The values from which the candidates of a stage are made. The members must outlive this.
struct CandidateSpace {
  const Configuration &given; ///< not varied
  const RunModes &modes;
  const FusionStage &stage;
};

/// Returns the first candidates, which differ the most: every schedule, transport, protocol and
/// number of chunks, in all transfer and launch modes, with GEMMs on one stream or on several.
/// Lowering refuses the candidates that do not suit the stage.
std::vector<Candidate> broadCandidates(const CandidateSpace &space);

/// Selects the candidates whose variants are worth trials. `bestFirst` is sorted by prediction.
/// Selects the best candidate of each of eight families, because different families reveal more
/// than similar candidates. For each of these, also selects the best with another number of chunks,
/// because a tail split may have the effect of more chunks in fewer steps.
std::vector<Candidate> worthVariants(llvm::ArrayRef<Candidate> bestFirst);

/// Returns variants of a good candidate: other numbers of streams, separate streams for transfers,
/// and smaller chunks at the end.
std::vector<Candidate> variantsOf(const Candidate &candidate, const CandidateSpace &space);

/// Returns the factor by which later runs of `candidate` may be slower than the first few. With
/// more than one peer, chunks that engines copy on several streams have two modes: either each rank
/// sends to a different peer, or, once the ranks have drifted apart, two ranks send to one peer
/// while another peer receives nothing. Either mode lasts for many runs. On 4 H200 the second mode
/// took 1.23 to 1.28 times as long, and most runs were in it although trials had observed only the
/// first (docs/cost-model.md).
double worstCase(const Candidate &candidate, int64_t ranks, bool hasCopyEngines);

} // namespace braid
