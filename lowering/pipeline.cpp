//===- lowering/pipeline.cpp - the passes, in order -------------------------------------------===//
//
// The list below shows, from top to bottom, how a fusion becomes a host program. Passes insert
// nodes conservatively, and separate passes remove redundant nodes. The program is correct after
// every pass from insert-transfers on (in the hierarchical order, from assign-streams on).
//
//===----------------------------------------------------------------------------------------===//

#include "lowering/passes/pass.h"
#include "lowering/passes/passes.h"

namespace braid {
namespace {

constexpr Pass kPasses[] = {
    // First, use the axis kinds to determine which data must move. A fusion that cannot be lowered
    // is rejected here.
    {"find-moves", findMoves},

    // Next, emit the arithmetic, as a loop over steps for every stage with a Stream axis. Later
    // passes change when and where computations run, but not their results.
    {"form-pipelines", formPipelines},

    // Next, insert the data movement. The program now implements the fusion, one step at a time.
    {"insert-transfers", insertTransfers},

    // The local step waits for no transfer. Peel it off the loop before steps are split, because
    // only steps with transfers benefit from splitting.
    {"peel-own-step", peelOwnStep},
    {"split-chunks", splitChunks},

    // The steps and chunks are now final, and are assigned to streams round-robin, with a single
    // fork and join around the pipeline.
    {"assign-streams", assignStreams},

    // Once steps are unrolled, contiguous blocks can share one GEMM.
    {"merge-gemms", mergeGemms},

    // For small problems, all transfers can be posted at once.
    {"post-together", postTogether},

    // A GEMM can now be merged with the send of its result, because both are adjacent and on the
    // same stream, and no later pass looks for the GEMMs of a reduction.
    {"store-at-peers", storeAtPeers},

    // A wait blocks the stream that is current at its position, so the waits are moved last.
    {"sink-waits", sinkWaits},

    // Finally, remove empty loops, sums that only copy, unused values and redundant stream changes.
    {"simplify", simplify},
};

} // namespace

llvm::ArrayRef<Pass> allPasses() { return kPasses; }

} // namespace braid
