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
// A reduction sends what a GEMM has made. Under `put` its receives, those of a second shot too, are
// a group of their own ahead of that GEMM: so peers have ready signals before they ask for them. It
// is on stream(0), where nothing else is, and nothing waits for it: the GEMM need not stand behind
// signals. Where partial results are pulled and their sums pushed, receives of the sums are in the
// group of the first shot. What peers read of that is waited for behind the second shot, which does
// not depend on it: so nothing but flags that have long been set stands between the two.
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

/// Moves nodes of steps that were written out.
class Poster {
public:
  explicit Poster(LoweringState &state)
      : state_(state), body_(state.program->body()), builder_(builderFor(state)) {}

  /// Brings the transfers among `nodes`, and the receives among `later` ones, into one group ahead
  /// of `before`, and with them what names their tensors.
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
    // A copy that this rank makes is waited for on its own stream: that costs nothing.
    for (Op *op : nodes)
      if (isWaitForPush(*op))
        move(*op, before);
  }

  /// The same for the receives alone, beside what the caller's stream has from `before` on.
  void postReceives(const Stage &stage, llvm::ArrayRef<Op *> nodes, Op &before) {
    builder_.setLocation(stage.location());
    builder_.insertBefore(body_, before);
    const StreamRef main{builder_.getCurrentStream(state_.names.global("main")), nullptr};
    builder_.setCurrentStream({nullptr, builder_.scalars().constant(0)});
    builder_.synchronize(main);
    postGroup(nodes, before,
              [](const P2POp &transfer) { return transfer.direction == Direction::Receive; });
    builder_.setCurrentStream(main);
  }

  /// Brings everything else ahead of `before`, in its order.
  void moveRest(llvm::ArrayRef<Op *> nodes, Op &before) {
    for (Op *op : nodes)
      move(*op, before);
  }

  /// The same but for waits until peers have read what is sent.
  void moveAllButWaitsForPulls(llvm::ArrayRef<Op *> nodes, Op &before) {
    for (Op *op : nodes)
      if (!isWaitForSend(*op) || isWaitForPush(*op))
        move(*op, before);
  }

  /// Waits for what is received alone: what is done with it is one batch then.
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

  /// Moves the aliases among `nodes` that make `tensor`, innermost first.
  void moveDefinition(Value *tensor, llvm::ArrayRef<Op *> nodes, Op &before) {
    Op *definition = tensor->definition;
    if (!definition || !llvm::is_contained(nodes, definition))
      return;
    forEachOperand(*definition, [&](Value *&operand) { moveDefinition(operand, nodes, before); });
    move(*definition, before);
  }

  /// Each node is moved once.
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

  LoweringState &state_;
  Block &body_;
  ProgramBuilder builder_;
  llvm::DenseSet<const Op *> moved_;
};

/// The nodes of all steps.
std::vector<Op *> nodesOf(llvm::ArrayRef<UnrolledStep> steps) {
  std::vector<Op *> nodes;
  for (const UnrolledStep &step : steps)
    llvm::append_range(nodes, step.nodes);
  return nodes;
}

bool postStage(LoweringState &state, Stage &stage) {
  Block &body = state.program->body();
  const std::vector<Op *> nodes = nodesOf(unrollSteps(state, stage));
  if (nodes.empty())
    return false;
  std::vector<Op *> gather;
  if (stage.gather)
    gather = nodesOf(unrollSumGather(state, stage));
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
  if (stage.gather) { // the second shot is a group of its own, behind the sum
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
