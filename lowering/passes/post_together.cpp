//===- lowering/passes/post_together.cpp - posts all transfers of a pipeline at once ----------===//
//
// For a small problem, the pipeline never fills, and the number of operations that must be issued
// one after another determines the run time. The steps are therefore unrolled, and their transfers
// are moved to the front:
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
// In the `bulk` preset, all transfers and waits precede the GEMM on the caller's stream, and a
// backend may fuse the group and its waits into one kernel. In the `batched` preset, the group is
// on stream(0), and each GEMM waits only for its block.
//
// In a reduction, the transfers send the result of a GEMM. Under the `put` protocol, the receives,
// including those of a second shot, form a separate group before the GEMM, so that peers get their
// ready signals early. This group is alone on stream(0), and no stream synchronizes with it, so the
// signals do not delay the GEMM. If partial results are pulled and their sums are pushed, the
// receives of the sums join the first shot's group. The waits for peers to read the partial results
// are moved after the second shot, which does not depend on these waits and would be delayed by
// them.
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

/// Moves the nodes of unrolled steps.
class Poster : Emitter {
public:
  using Emitter::Emitter;

  /// Moves the transfers in `nodes` and the receives in `later` into one group in front of
  /// `before`, and moves the aliases that these transfers use in front of the group.
  void post(const Stage &stage, llvm::ArrayRef<Op *> nodes, Op &before,
            llvm::ArrayRef<Op *> later = {}) {
    builder_.setLocation(stage.location());
    builder_.insertBefore(body_, before);
    if (stage.streams > 0)
      builder_.setCurrentStream({nullptr, builder_.scalars().constant(0)});
    std::vector<Op *> all = nodes;
    llvm::append_range(all, later);
    postGroup(all, before, [&](const P2POp &transfer) {
      return transfer.direction == Direction::Receive || !llvm::is_contained(later, &transfer);
    });
    // On the stream that copies, a wait for one of this rank's copies is a no-op.
    for (Op *op : nodes)
      if (isWaitForPush(*op))
        move(*op, before);
  }

  /// Like post(), but posts only receives, on stream(0), in parallel with the caller's stream.
  void postReceives(const Stage &stage, llvm::ArrayRef<Op *> nodes, Op &before) {
    builder_.setLocation(stage.location());
    builder_.insertBefore(body_, before);
    const StreamRef main{builder_.getCurrentStream(global("main")), nullptr};
    builder_.setCurrentStream({nullptr, builder_.scalars().constant(0)});
    builder_.synchronize(main);
    postGroup(nodes, before,
              [](const P2POp &transfer) { return transfer.direction == Direction::Receive; });
    builder_.setCurrentStream(main);
  }

  /// Moves all remaining nodes in front of `before`, in order.
  void moveRest(llvm::ArrayRef<Op *> nodes, Op &before) {
    for (Op *op : nodes)
      move(*op, before);
  }

  /// Like moveRest(), but does not move the waits for peers to read sent data.
  void moveAllButWaitsForPulls(llvm::ArrayRef<Op *> nodes, Op &before) {
    for (Op *op : nodes)
      if (!isWaitForSend(*op) || isWaitForPush(*op))
        move(*op, before);
  }

  /// Moves only the waits for receives, so that the nodes that read received data form one batch.
  void moveWaitsForReceives(llvm::ArrayRef<Op *> nodes, Op &before) {
    for (Op *op : nodes)
      if (awaitedTransfer(*op) && !isWaitForSend(*op))
        move(*op, before);
  }

private:
  using IsPosted = llvm::function_ref<bool(const P2POp &)>;

  void postGroup(llvm::ArrayRef<Op *> nodes, Op &before, IsPosted isPosted) {
    std::vector<P2POp *> posted;
    for (Op *op : nodes)
      if (auto *transfer = llvm::dyn_cast<P2POp>(op); transfer && isPosted(*transfer))
        if (!moved_.contains(op))
          posted.push_back(transfer);
    for (P2POp *transfer : posted)
      moveDefinition(transfer->tensor, nodes, before);
    GroupOp *group = builder_.group();
    for (P2POp *transfer : posted) {
      moved_.insert(transfer);
      group->body.splice(group->body.end(), body_, transfer->getIterator());
    }
  }

  /// Moves the aliases in `nodes` through which `tensor` is defined, in order of definition.
  void moveDefinition(Value *tensor, llvm::ArrayRef<Op *> nodes, Op &before) {
    Op *definition = tensor->definition;
    if (!definition || !llvm::is_contained(nodes, definition))
      return;
    forEachOperand(*definition, [&](Value *&operand) { moveDefinition(operand, nodes, before); });
    move(*definition, before);
  }

  /// Moves `op` unless it has already been moved.
  void move(Op &op, Op &before) {
    if (moved_.insert(&op).second)
      body_.splice(before.getIterator(), body_, op.getIterator());
  }

  static bool isWaitForSend(const Op &op) {
    const P2POp *transfer = awaitedTransfer(op);
    return transfer && transfer->direction == Direction::Send;
  }
  static bool isWaitForPush(const Op &op) {
    return isWaitForSend(op) && copiesHere(*awaitedTransfer(op));
  }

  llvm::DenseSet<const Op *> moved_;
};

/// Returns the nodes of all steps.
std::vector<Op *> nodesOf(llvm::ArrayRef<UnrolledStep> steps) {
  std::vector<Op *> nodes;
  for (const UnrolledStep &step : steps)
    llvm::append_range(nodes, step.nodes);
  return nodes;
}

bool postStage(LoweringState &state, Stage &stage) {
  Block &body = state.program->body();
  const std::vector<Op *> nodes = nodesOf(unrollSteps(state, stage, *stage.loop));
  if (nodes.empty())
    return false;
  std::vector<Op *> gather;
  if (stage.gather)
    gather = nodesOf(unrollSteps(state, stage, *stage.gather));
  Poster poster(state);
  if (stage.isReduction() && stage.config.protocol() == Protocol::Put) {
    std::vector<Op *> both = nodes;
    llvm::append_range(both, gather);
    poster.postReceives(stage, both, *stage.first);
  }
  poster.post(stage, nodes, stage.ownStream ? *stage.ownStream : *stage.loop,
              stage.sumProtocol() == Protocol::Put ? gather : std::vector<Op *>());
  if (!stage.ownStream && stage.gather)
    poster.moveAllButWaitsForPulls(nodes, *stage.sum);
  else if (!stage.ownStream)
    poster.moveRest(nodes, stage.sum ? *stage.sum : *stage.first);
  if (stage.gather) { // the second shot forms a separate group after the sum
    poster.post(stage, gather, *stage.gather);
    poster.moveWaitsForReceives(gather, *stage.gather);
    poster.moveRest(gather, *stage.gather);
    poster.moveRest(nodes, *stage.gather);
    body.erase(stage.gather->getIterator());
  }
  body.erase(stage.loop->getIterator());
  stage.forgetLoop();
  return true;
}

} // namespace

bool postTogether(LoweringState &state) {
  bool changed = false;
  for (Stage &stage : state.stages) {
    if (!stage.moves() || stage.config.posting() != schedule::Posting::All ||
        !checkUnrolledSize(stage, state.diags))
      continue;
    changed |= postStage(state, stage);
  }
  return changed;
}

} // namespace braid
