//===- api/autotune/candidates.h - which ways to run a fusion are worth a look ----------------===//
#pragma once

#include "api/autotune/candidate.h"
#include "lowering/stages/fusion_stages.h"
#include "runtime/execute/peer_memory.h"

namespace braid {

/// How transfers may be made, the default first, of the ways that are there.
std::vector<TransferMode> transferModesOf(llvm::function_ref<bool(TransferMode)> isThere);

/// What is given leaves no choice.
void narrowModes(const Configuration &given, std::vector<LaunchMode> &launchModes,
                 std::vector<TransferMode> &transferModes);

inline constexpr Transport kPeerMemoryAlone[] = {Transport::PeerMemory};

/// What candidates for a stage are made from.
struct CandidateSpace {
  const Configuration &given; ///< not varied; outlives this
  llvm::ArrayRef<LaunchMode> launchModes;
  llvm::ArrayRef<TransferMode> transferModes;
  const FusionStage &stage; ///< outlives this
  /// The first is that of candidates that do not say it.
  llvm::ArrayRef<Transport> transports = kPeerMemoryAlone;
};

/// The first trials, of what changes most: every schedule that the stage's direction allows,
/// transport, protocol and number of chunks, in all transfer and launch modes, with GEMMs on one
/// stream or on several.
std::vector<Candidate> broadCandidates(const CandidateSpace &space);

/// How many rows of a GEMM with so many columns are one wave of tiles, as libraries prefer them
/// for large GEMMs: 128 by 256. 0 if there are no waves.
int64_t waveRowsOf(int64_t tilesAtOnce, int64_t columns);

/// Of candidates in the order of their predictions, those that are worth more trials around them:
/// the best of eight families, which tell more than the next best of one; and of each of these the
/// best with another number of chunks, for a tail split may do what more chunks do, in fewer steps.
std::vector<Candidate> worthVariants(llvm::ArrayRef<Candidate> bestFirst);

/// The second trials, around one that did well: other streams, streams for transfers alone, smaller
/// chunks at the end, and GEMMs of whole waves, which have `waveRows` (0: there are none).
std::vector<Candidate> variantsOf(const Candidate &candidate, const CandidateSpace &space,
                                  int64_t waveRows);

/// How many times as long as in a few runs `candidate` may take in others. With more than one peer,
/// chunks that engines copy on several streams at once have two modes: each rank feeds another peer
/// at a time, or, once the ranks have drifted apart, two feed one while another gets nothing.
/// Either lasts for many runs. On 4 H200 the second one took 1.23 to 1.28 times as long, and most
/// runs were in it where a trial had seen only the first (docs/cost-model.md).
double worstCase(const Candidate &candidate, int64_t ranks, bool hasCopyEngines);

} // namespace braid
