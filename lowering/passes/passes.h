//===- lowering/passes/passes.h - the run function of every pass ------------------------------===//
//
// Each pass is in a file whose header comment describes the pass. pipeline.cpp defines the order.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "lowering/state.h"

namespace braid {

bool findMoves(LoweringState &state);
/// The first part of find-moves, which groups nodes into stages and creates no program.
bool findStages(LoweringState &state);
bool formPipelines(LoweringState &state);
bool insertTransfers(LoweringState &state);
bool peelOwnStep(LoweringState &state);
bool splitChunks(LoweringState &state);
bool assignStreams(LoweringState &state);
bool mergeGemms(LoweringState &state);
bool postTogether(LoweringState &state);
bool storeAtPeers(LoweringState &state);
bool sinkWaits(LoweringState &state);
bool simplify(LoweringState &state);

} // namespace braid
