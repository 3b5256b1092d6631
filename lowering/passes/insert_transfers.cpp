//===- lowering/passes/insert_transfers.cpp - fills the gathered buffers ----------------------===//
//
// Each rank copies its local block to its slot. Every step except the local step then sends one
// block and receives one block:
//
//   %h = share_mem_handles get %A_all
//   %mine = select %A_all[rank]
//   %own = select %A[0]
//   set %mine, %own
//   for %i in 0 .. 8 {
//     %block = select %A_all[(rank + %i) mod 8]
//     if %i != 0 {
//       %s = p2p send %mine to (rank - %i) mod 8 via %h
//       %r = p2p recv %block from (rank + %i) mod 8 via %h
//       wait %r
//       wait %s
//     }
//
// `pairwise` sends the local block to each peer in turn; `ring` sends the block of the previous
// step to the neighbor; `sequential` transfers blocks like `pairwise`, but in a separate loop
// before the GEMMs. Under the `put` protocol, the receive precedes the send, because this rank must
// issue its own ready signal before it waits for a peer's ready signal. A rank that pushes its
// local block sends the input, not the staged copy.
//
//===----------------------------------------------------------------------------------------===//

#include "lowering/emit.h"
#include "lowering/passes/passes.h"
#include "lowering/stages/block_rows.h"
#include "lowering/stages/gather_order.h"
#include "lowering/stages/host_order.h"
#include "lowering/stages/reduction.h"
#include "lowering/stages/sum_gather.h"

#include "llvm/ADT/STLExtras.h"

namespace braid {
namespace {

class Inserter : Emitter {
public:
  using Emitter::Emitter;

  void run() {
    shareHandles();
    for (Stage &stage : state_.stages)
      if (stage.isCollective())
        insertCollective(stage);
      else if (stage.isGather())
        insertInto(stage);
      else if (stage.isReduction())
        insertReductionTransfers(state_, stage, handlesFor(stage), handlesOf(stage.sumProtocol()));
  }

private:
  /// Emits one share_mem_handles for each protocol in use.
  void shareHandles() {
    for (Protocol protocol : {Protocol::Get, Protocol::Put}) {
      llvm::SmallVector<Value *, 2> buffers;
      insertAfterPreamble(builder_);
      for (Stage &stage : state_.stages)
        if (stage.movesByPairs())
          addReached(stage, protocol, buffers);
      if (buffers.empty())
        continue;
      builder_.setLocation(buffers.front()->location);
      handles_[protocol == Protocol::Put] =
          builder_.shareMemHandles(global("h"), protocol, buffers);
    }
  }

  /// Adds the buffers of `stage` that peers access with `protocol`.
  void addReached(Stage &stage, Protocol protocol, llvm::SmallVectorImpl<Value *> &buffers) {
    if (stage.config.protocol() == protocol && stage.isGather())
      buffers.push_back(stage.sent ? stage.sent : stage.whole);
    else if (stage.config.protocol() == protocol)
      buffers.append(shareParts(stage));
    if (!stage.isTwoShot() || stage.sumProtocol() != protocol)
      return;
    builder_.setLocation(stage.location());
    allocateSums(state_, stage, builder_);
    buffers.append(stage.sums.begin(), stage.sums.end());
  }

  Value *handlesOf(Protocol protocol) const { return handles_[protocol == Protocol::Put]; }
  Value *handlesFor(const Stage &stage) const { return handlesOf(stage.config.protocol()); }

  void insertInto(Stage &stage) {
    builder_.setLocation(stage.location());
    builder_.insertBefore(body_, *stage.first);
    // If peers do not pull the local block from its slot, copy it to the slot directly after a
    // group, so that the group's kernel can include the copy. Otherwise, copy it before peers or
    // GEMMs read it.
    Value *slot = selectOwnBlock(stage);
    if (stage.sent)
      builder_.set(stage.mine, own_);
    const bool isStagedLast =
        stage.mine != slot && stage.config.placement() == schedule::Placement::Caller;
    if (!isStagedLast)
      stage.staging = builder_.set(slot, own_);
    if (!stage.loop) // a loop that only transfers data; the stage's GEMMs follow it
      formSteps(stage, [&](const char *name, const Scalar *block) {
        return selectBlock(stage, local(name), stage.whole, block);
      });
    if (isStagedLast) {
      builder_.insertBefore(body_, *stage.first);
      stage.staging = builder_.set(slot, own_);
    }
    insertGuarded(stage);
  }

  void insertCollective(const Stage &stage) {
    if (stage.isReduction())
      insertReductionCollective(state_, stage);
    else if (stage.multipliesWhole())
      gatherAll(stage);
    else
      gatherInSteps(stage);
  }

  /// Gathers one slice from every rank in each step.
  void gatherInSteps(const Stage &stage) {
    builder_.setLocation(stage.location());
    builder_.insertAfter(stage.loop->body, *stage.block->definition);
    Value *slice = builder_.select(local("slice"), stage.input, stage.loop->index);
    builder_.wait(builder_.collective(local("c"), CollectiveKind::AllGather, std::nullopt,
                                      stage.block, slice));
  }

  /// Gathers all blocks at once, before the single GEMM.
  void gatherAll(const Stage &stage) {
    builder_.setLocation(stage.location());
    builder_.insertBefore(body_, *stage.first);
    builder_.wait(builder_.collective(global(nameInStage(state_, stage, "c")),
                                      CollectiveKind::AllGather, std::nullopt, stage.whole,
                                      stage.input));
  }

  /// Selects the slot for the copy of the local block. Peers pull the block from its slot, or from
  /// a separate buffer if they cannot access the slots. A pushed block is sent from the input,
  /// unless the order forwards blocks: forwarded blocks are sent from slots.
  Value *selectOwnBlock(Stage &stage) {
    auto name = [&](const char *base) { return global(nameInStage(state_, stage, base)); };
    const Scalar *rank = scalars_.rank(), *zero = constant(0);
    Value *slot = selectBlock(stage, name(stage.sent ? "slot" : "mine"), stage.whole, rank);
    own_ = selectBlock(stage, name("own"), stage.input, zero, rank);
    if (stage.sent) {
      stage.mine = selectBlock(stage, name("mine"), stage.sent, zero, rank);
      return slot;
    }
    const bool isForwarded = stage.isRing() || stage.isHierarchical();
    const bool isPushed = stage.config.protocol() == Protocol::Put && !isForwarded;
    stage.mine = isPushed ? own_ : slot;
    return slot;
  }

  /// Inserts a step's transfers into an `if` that skips the local step.
  void insertGuarded(Stage &stage) {
    builder_.insertAfter(stage.loop->body, *stage.block->definition);
    stage.guard = builder_.ifOp(scalars_.binary(ScalarKind::Ne, stage.loop->index, constant(0)));
    builder_.insertAtEnd(stage.guard->thenBlock);
    if (!stage.isHierarchical())
      return insertTransfer(stage);
    const HostOrder order(scalars_, stage);
    insertPair(stage, stage.mine, order.farther(stage.loop->index), stage.block,
               order.far(stage.loop->index));
    builder_.insertAfter(stage.relay->body, *stage.relayed->definition);
    Value *passed = selectBlock(stage, local("passed"), stage.whole, order.far(stage.loop->index));
    insertPair(stage, passed, order.nearer(stage.relay->index), stage.relayed,
               order.near(stage.relay->index));
  }

  GatherOrder orderOf(const Stage &stage) { return {scalars_, stage.config.order(), stage.steps}; }

  void insertTransfer(const Stage &stage) {
    const Scalar *step = stage.loop->index;
    if (stage.isRing())
      return insertRing(stage, step);
    const GatherOrder order = orderOf(stage);
    insertPair(stage, stage.mine, order.target(step), stage.block, order.source(step));
  }

  void insertRing(const Stage &stage, const Scalar *step) {
    const Scalar *one = constant(1);
    const Scalar *previous =
        scalars_.mod(scalars_.sub(scalars_.add(scalars_.rank(), step), one), constant(stage.steps));
    Value *from = selectBlock(stage, local("from"), stage.whole, previous);
    insertPair(stage, from, orderOf(stage).target(one), stage.block, orderOf(stage).source(one));
  }

  void insertPair(const Stage &stage, Value *source, const Scalar *to, Value *dst,
                  const Scalar *from) {
    const bool isGet = stage.config.protocol() == Protocol::Get;
    Value *handles = handlesFor(stage), *sent = nullptr;
    auto send = [&] { sent = builder_.send(local("s"), source, to, handles); };
    if (isGet)
      send();
    Value *received = builder_.receive(local("r"), dst, from, handles);
    if (!isGet)
      send();
    builder_.wait(received);
    builder_.wait(sent);
  }

  Value *handles_[2] = {}; ///< indexed by Protocol
  Value *own_ = nullptr;   ///< the local block of the current stage's operand
};

} // namespace

bool insertTransfers(LoweringState &state) {
  if (llvm::none_of(state.stages, [](const Stage &stage) { return stage.moves(); }))
    return false;
  Inserter(state).run();
  return true;
}

} // namespace braid
