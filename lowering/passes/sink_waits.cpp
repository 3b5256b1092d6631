//===- lowering/passes/sink_waits.cpp - moves the waits of sends behind the GEMMs -------------===//
//
// Under `get`, a send's wait says when the peer has read the block that was given. No GEMM and no
// sum of the step asks for that, so none should stand behind it: the wait moves to just behind the
// last one that follows it in its block, and orders whichever stream is current there. Under `put`
// the rank has copied the block itself, and its stream knows when.
//
// It may not move further than its block, and it may not go: before the run is over the caller's
// stream has joined the stream that waits, so the next run, which overwrites the block, cannot
// begin while a peer still reads it. Without it a fast rank would hand the next run's data to a
// slow peer.
//
//===----------------------------------------------------------------------------------------===//

#include "lowering/emit.h"
#include "lowering/passes/passes.h"
#include "lowering/stages/transfers.h"

#include "llvm/ADT/STLExtras.h"

namespace braid {
namespace {

/// True if the wait for `sent` may come after `op` instead of before it.
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

/// The send that is waited for, if the peer says when it is over.
const P2POp *sendOf(const Op &op) {
  const P2POp *transfer = awaitedTransfer(op);
  const bool isPulled =
      transfer && transfer->direction == Direction::Send && !copiesHere(*transfer);
  return isPulled ? transfer : nullptr;
}

/// The place for the wait at `wait`: after the last GEMM or sum that it can pass, else unchanged.
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
