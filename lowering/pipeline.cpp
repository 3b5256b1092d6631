//===- lowering/pipeline.cpp - the passes, in order -------------------------------------------===//
//
// Read from top to bottom, this is how a fusion becomes a host program. Passes insert
// conservatively, and separate passes remove what is redundant. The program is correct after every
// pass from insert-transfers on (in the hierarchical order, from hoist-syncs on).
//
//===----------------------------------------------------------------------------------------===//

#include "lowering/pipeline.h"

#include "lowering/passes/passes.h"

namespace braid {
namespace {

constexpr Pass kPasses[] = {
    // First, decide what has to move, from the axis kinds alone. A fusion that cannot be lowered is
    // refused here.
    {"find-moves", "groups GEMMs into stages, and declares the program's tensors", findMoves},

    // Next, the arithmetic: a loop over steps for every stage with a Stream axis. Later passes
    // change when and where it runs, but not what it computes.
    {"form-pipelines", "makes a loop over the steps of every stage", formPipelines},

    // Next, the data: from here on the program computes the fusion, one step after another.
    {"insert-transfers", "fills the gathered buffers, block by block", insertTransfers},

    // The local step waits for no transfer. It must leave the loop before steps are split, because
    // only steps with transfers benefit from splitting.
    {"peel-own-step", "computes a rank's own block before the loop", peelOwnStep},
    {"split-chunks", "cuts every step into row ranges", splitChunks},

    // The steps and chunks are now final, and are assigned round-robin to streams: first with a
    // fork and join for each, then with one fork and join around the pipeline.
    {"assign-streams", "gives steps streams in turn", assignStreams},
    {"hoist-syncs", "one fork before a pipeline and one join after it", hoistSyncs},

    // Once steps are unrolled, contiguous blocks can share one GEMM.
    {"merge-gemms", "multiplies neighbouring blocks together", mergeGemms},

    // For small problems, all transfers can be posted at once.
    {"post-together", "brings all transfers of a pipeline into one group", postTogether},

    // Each GEMM and the send of its result are now adjacent and on one stream, and no later pass
    // looks for the GEMMs of a reduction.
    {"store-at-peers", "computes partial results where they are sent", storeAtPeers},

    // A wait orders the stream that is current at its position, so waits move last.
    {"sink-waits", "moves the waits of sends after the GEMMs", sinkWaits},

    {"simplify", "removes empty loops, what is unused, sums that copy and idle stream changes",
     simplify},
};

} // namespace

llvm::ArrayRef<Pass> allPasses() { return kPasses; }

std::vector<Knob> knobsOf(const Pass &pass) {
  std::vector<Knob> knobs;
  for (const KnobRow &row : allKnobs())
    if (row.applies == pass.name)
      knobs.push_back(row.knob);
  return knobs;
}

} // namespace braid
