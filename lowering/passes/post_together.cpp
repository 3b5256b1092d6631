//===- lowering/passes/post_together.cpp - posts all transfers of a pipeline at once ----------===//
//
// A small problem is over before a pipeline has filled: what counts is how few things are issued
// one after the other. So the steps are written out, and their transfers go to the front:
//
//   group {
//     %r_1 = p2p recv %block_1 from (rank + 1) mod 4 via %h
//     %s_1 = p2p send %own to (rank - 1) mod 4 via %h
//     %r_2 = p2p recv %block_2 from (rank + 2) mod 4 via %h
//     ...
//   }
//   wait %r_1
//   ...
//
// In `bulk` all this is on the caller's stream, before the GEMM, and a backend may make one
// kernel of the group and its waits. In `batched` the group is on stream(0), and each block's
// GEMM waits for its own block only.
//
//===----------------------------------------------------------------------------------------===//

#include "lowering/emit.h"
#include "lowering/passes/passes.h"
#include "lowering/stages/transfers.h"
#include "lowering/stages/unrolled_steps.h"

#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/STLExtras.h"

namespace braid {
namespace {

/// Brings the transfers among `nodes` into one group ahead of `before`, and with them what names
/// their tensors.
class Poster {
public:
  Poster(LoweringState &state, Op &before)
      : body_(state.program->body()), builder_(builderFor(state)), before_(before) {}

  void run(const Stage &stage, llvm::ArrayRef<Op *> nodes) {
    builder_.setLocation(stage.location());
    builder_.insertBefore(body_, before_);
    if (stage.streams > 0)
      builder_.setCurrentStream({nullptr, builder_.scalars().constant(0)});
    for (Op *op : nodes)
      if (auto *transfer = llvm::dyn_cast<P2POp>(op))
        moveDefinition(transfer->tensor, nodes);
    GroupOp *group = builder_.group();
    for (Op *op : nodes)
      if (llvm::isa<P2POp>(op))
        group->body.splice(group->body.end(), body_, op->getIterator());
    // A copy that this rank makes is waited for on its own stream: that costs nothing.
    for (Op *op : nodes)
      if (isWaitForPush(*op))
        move(*op);
  }

  /// Brings everything else ahead of `gemm`, in its order.
  void runRest(llvm::ArrayRef<Op *> nodes, Op &gemm) {
    for (Op *op : nodes)
      if (!llvm::isa<P2POp>(op) && !moved_.contains(op))
        body_.splice(gemm.getIterator(), body_, op->getIterator());
  }

private:
  /// Moves the aliases among `nodes` that make `tensor`, innermost first.
  void moveDefinition(Value *tensor, llvm::ArrayRef<Op *> nodes) {
    Op *definition = tensor->definition;
    if (!definition || !llvm::is_contained(nodes, definition) || moved_.contains(definition))
      return;
    forEachOperand(*definition, [&](Value *&operand) { moveDefinition(operand, nodes); });
    move(*definition);
  }

  void move(Op &op) {
    moved_.insert(&op);
    body_.splice(before_.getIterator(), body_, op.getIterator());
  }

  static bool isWaitForPush(const Op &op) {
    const P2POp *transfer = awaitedTransfer(op);
    return transfer && transfer->direction == Direction::Send && copiesHere(*transfer);
  }

  Block &body_;
  ProgramBuilder builder_;
  Op &before_;
  llvm::DenseSet<const Op *> moved_;
};

/// Those of all steps.
std::vector<Op *> nodesOf(llvm::ArrayRef<UnrolledStep> steps) {
  std::vector<Op *> nodes;
  for (const UnrolledStep &step : steps)
    llvm::append_range(nodes, step.nodes);
  return nodes;
}

/// The second shot is a group of its own, behind the sum.
void postSumGather(LoweringState &state, Stage &stage) {
  const std::vector<Op *> nodes = nodesOf(unrollSumGather(state, stage));
  Poster poster(state, *stage.gather);
  poster.run(stage, nodes);
  poster.runRest(nodes, *stage.gather);
  state.program->body().erase(stage.gather->getIterator());
}

} // namespace

bool postTogether(LoweringState &state) {
  bool changed = false;
  for (Stage &stage : state.stages) {
    if (!stage.moves() || stage.config.posting() != schedule::Posting::All ||
        !checkUnrolledSize(stage, state.diags))
      continue;
    const std::vector<Op *> nodes = nodesOf(unrollSteps(state, stage));
    if (nodes.empty())
      continue;
    Poster poster(state, stage.ownStream ? *stage.ownStream : *stage.loop);
    poster.run(stage, nodes);
    if (!stage.ownStream)
      poster.runRest(nodes, stage.sum ? *stage.sum : *stage.first);
    if (stage.gather)
      postSumGather(state, stage);
    state.program->body().erase(stage.loop->getIterator());
    stage.forgetLoop();
    changed = true;
  }
  return changed;
}

} // namespace braid
