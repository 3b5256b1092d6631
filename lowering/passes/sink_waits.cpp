//===- lowering/passes/sink_waits.cpp - moves waits for sends after the GEMMs -----------------===//
//
// Under the `get` protocol, a wait for a send completes when the peer has read the data. No GEMM or
// sum in the step depends on this, so none should be queued behind the wait. The wait is therefore
// moved after the last GEMM or sum that follows it in its block, to the stream that is current
// there. Under the `put` protocol, the sending rank makes the copy, and stream order suffices.
//
// The wait must stay in its block and must not be removed: the caller's stream joins the waiting
// stream before the run ends, so that the next run, which overwrites the block, cannot begin while
// a peer still reads it. Otherwise a fast rank could send the next run's data to a slow peer.
//
//===----------------------------------------------------------------------------------------===//

#include "lowering/emit.h"
#include "lowering/passes/passes.h"
#include "lowering/stages/transfers.h"

#include "llvm/ADT/STLExtras.h"

namespace braid {
namespace {

/// True if the wait for `sent` may move after `op`.
bool canPass(const P2POp &sent, Op &op) {
  bool hasBlocks = false;
  forEachBlock(op, [&](Block &) { hasBlocks = true; });
  const auto *transfer = llvm::dyn_cast<P2POp>(&op);
  if (hasBlocks || llvm::isa<CollectiveOp>(op) || llvm::isa<DeallocateOp>(op))
    return false;
  if (transfer && transfer->direction == Direction::Receive)
    return false;
  const Value *written = writtenBy(op);
  return !written || rootOf(written) != rootOf(sent.tensor);
}

/// Returns the send that `op` waits for if its completion depends on the peer, otherwise null.
const P2POp *sendOf(const Op &op) {
  const P2POp *transfer = awaitedTransfer(op);
  const bool isPulled =
      transfer && transfer->direction == Direction::Send && !copiesHere(*transfer);
  return isPulled ? transfer : nullptr;
}

/// Returns the new position for `wait`: after the last GEMM or sum that it can pass, or its current
/// position if it can pass none.
Block::iterator destination(Block &block, Block::iterator wait) {
  auto best = std::next(wait);
  for (auto at = best; at != block.end() && canPass(*sendOf(*wait), *at); ++at)
    if (computes(*at) || llvm::isa<SumOp>(*at))
      best = std::next(at);
  return best;
}

bool sinkIn(Block &block) {
  bool changed = false;
  for (Op &op : llvm::make_early_inc_range(block)) {
    forEachBlock(op, [&](Block &inner) { changed |= sinkIn(inner); });
    if (!sendOf(op))
      continue;
    auto at = destination(block, op.getIterator());
    if (at == std::next(op.getIterator()))
      continue;
    block.splice(at, block, op.getIterator());
    changed = true;
  }
  return changed;
}

} // namespace

bool sinkWaits(LoweringState &state) { return sinkIn(state.program->body()); }

} // namespace braid
