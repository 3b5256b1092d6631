//===- lowering/pipeline.cpp - the passes, in order -------------------------------------------===//
//
// Read from top to bottom, this is how a fusion becomes a host program. Passes insert generously,
// and separate ones remove: the program is right after every pass from insert-transfers on (where
// hosts pass blocks on, from hoist-syncs on), and each pass has one thing to get right.
//
//===----------------------------------------------------------------------------------------===//

#include "lowering/pipeline.h"

#include "lowering/passes/passes.h"

namespace braid {
namespace {

constexpr Pass kPasses[] = {
    // First the question what has to move. It is answered once, from the axis kinds alone; what
    // cannot be lowered ends here.
    {"find-moves", "groups GEMMs into stages, and declares the program's tensors", findMoves},

    // Then the arithmetic: a loop over steps for every stage that has a Stream axis. Everything
    // below changes when and where this is done, never what.
    {"form-pipelines", "makes a loop over the steps of every stage", formPipelines},

    // Then the data: from here on the program computes the fusion, one step after the other.
    {"insert-transfers", "fills the gathered buffers, block by block", insertTransfers},

    // The own step has nothing to wait for. It has to be out of the loop before steps are cut,
    // because only steps that move something gain from that.
    {"peel-own-step", "computes a rank's own block before the loop", peelOwnStep},
    {"split-chunks", "cuts every step into row ranges", splitChunks},

    // Now steps and chunks are what will be issued, and are dealt round-robin to streams: first so
    // that each one forks and joins by itself, then with the forks and joins at the ends.
    {"assign-streams", "gives steps streams in turn", assignStreams},
    {"hoist-syncs", "one fork before a pipeline and one join after it", hoistSyncs},

    // Once the steps are written out, neighbouring blocks are multiplied together.
    {"merge-gemms", "multiplies neighbouring blocks together", mergeGemms},

    // Once the steps are written out and only their transfers are left to order, the transfers of a
    // small problem are posted at once.
    {"post-together", "brings all transfers of a pipeline into one group", postTogether},

    // A GEMM and the send of what it made stand side by side now, on one stream, and nothing below
    // looks for the GEMMs of a reduction again.
    {"store-at-peers", "computes partial results where they are sent", storeAtPeers},

    // A wait orders the stream that is current at its place, so waits move last.
    {"sink-waits", "moves the waits of sends behind the GEMMs", sinkWaits},

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
