//===- api/autotune/candidates.h - which ways to run a fusion are worth trials ----------------===//
#pragma once

#include "api/autotune/candidate.h"
#include "api/calibrate/calibrate.h"
#include "lowering/stages/fusion_stages.h"

namespace braid {

/// The available transfer modes, the default first.
std::vector<TransferMode> transferModesOf(llvm::function_ref<bool(TransferMode)> isThere);

/// Removes modes that contradict the given ones.
void narrowModes(const Configuration &given, RunModes &modes);

/// The values from which candidates for a stage are made. All outlive this.
struct CandidateSpace {
  const Configuration &given; ///< not varied
  const RunModes &modes;
  const FusionStage &stage;
};

/// The first trials, of what changes most: every schedule, transport, protocol and number of
/// chunks, in all transfer and launch modes, with GEMMs on one stream or on several. Lowering
/// refuses those that do not suit the stage.
std::vector<Candidate> broadCandidates(const CandidateSpace &space);

/// Picks candidates, given in the order of their predictions, whose variants are worth trials: the
/// best of each of eight families, which tell more than the next best of one family; and for each
/// of these the best with another number of chunks, because a tail split may have the effect of
/// more chunks in fewer steps.
std::vector<Candidate> worthVariants(llvm::ArrayRef<Candidate> bestFirst);

/// The second trials, around one that did well: other streams, streams for transfers alone, and
/// smaller chunks at the end.
std::vector<Candidate> variantsOf(const Candidate &candidate, const CandidateSpace &space);

/// The factor by which later runs of `candidate` may be slower than the first few. With more than
/// one peer, chunks that engines copy on several streams at once have two modes: each rank sends to
/// another peer at a time, or, once the ranks have drifted apart, two send to one peer while
/// another gets nothing. Either mode lasts for many runs. On 4 H200 the second took 1.23 to 1.28
/// times as long, and most runs were in it although a trial had seen only the first
/// (docs/cost-model.md).
double worstCase(const Candidate &candidate, int64_t ranks, bool hasCopyEngines);

} // namespace braid
