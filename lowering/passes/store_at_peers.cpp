//===- lowering/passes/store_at_peers.cpp - stores partial results at their receivers ---------===//
//
// A GEMM with few rows can store its result over the link in the memory of the peer that adds it.
// This takes little longer than storing it locally, and no copy follows. With many rows, the link
// bandwidth limits the GEMM, but only the peer's last GEMM and sum have to wait for it. Therefore,
//
//   matmul %part, %block, %B
//   %s = p2p send %part to (rank + 1) mod 2 via %h
//
// becomes
//
//   %s = p2p send matmul %block, %B : f32[512, 1024] to (rank + 1) mod 2 via %h
//
// if no other node reads or writes the GEMM's result. The drawback is that the GEMM, instead of
// only the copy, must wait for the peer's ready signal. simplify removes the unused buffer.
//
// If a GEMM adds the products of several pairs of operands, only the last product is stored at the
// peer. It adds the sum of the others, which stays local.
//
//===----------------------------------------------------------------------------------------===//

#include "lowering/emit.h"
#include "lowering/passes/passes.h"

namespace braid {
namespace {

class Storer : Emitter {
public:
  Storer(LoweringState &state, const Stage &stage) : Emitter(state), stage_(stage) {
    walk(body_, [&](Op &op) { forEachOperand(op, [&](Value *&value) { ++uses_[value]; }); });
    walk(body_, [&](Op &op) { // the GEMMs of further pairs add to their own dst
      const auto *matmul = llvm::dyn_cast<MatmulOp>(&op);
      if (matmul && matmul->addend == matmul->dst)
        uses_[matmul->dst] -= 2;
    });
  }

  bool run() { return storeIn(body_); }

private:
  bool storeIn(Block &block) {
    bool isFine = true;
    llvm::DenseMap<const Value *, MatmulOp *> gemms; ///< earlier GEMMs in the block, by result
    for (Op &op : llvm::make_early_inc_range(block)) {
      forEachBlock(op, [&](Block &inner) { isFine = isFine && storeIn(inner); });
      if (auto *matmul = llvm::dyn_cast<MatmulOp>(&op); matmul && !matmul->bias)
        gemms[matmul->dst] = matmul;
      auto *send = llvm::dyn_cast<P2POp>(&op);
      if (isFine && send && isPart(*send))
        isFine = store(block, *send, gemms.lookup(send->tensor));
    }
    return isFine;
  }

  bool isPart(const P2POp &transfer) const {
    return transfer.direction == Direction::Send && rootOf(transfer.tensor) == stage_.sent;
  }

  bool store(Block &block, P2POp &send, MatmulOp *gemm) {
    if (!gemm || uses_[send.tensor] != 2)
      return state_.diags.error(stage_.location())
             << "cannot reduce to %" << stage_.result().name
             << ": partials=peer requires a separate GEMM for each partial result that is sent";
    builder_.setLocation(send.location());
    builder_.insertBefore(block, send);
    Value *request =
        builder_.send(send.result.name, *gemm, send.tensor->type, send.peer, send.handles);
    walk(body_, [&](Op &op) {
      forEachOperand(op, [&](Value *&value) { value = value == &send.result ? request : value; });
    });
    block.erase(send.getIterator());
    return true;
  }

  const Stage &stage_;
  llvm::DenseMap<const Value *, int> uses_;
};

} // namespace

bool storeAtPeers(LoweringState &state) {
  bool changed = false;
  for (const Stage &stage : state.stages)
    if (stage.isReduction() && stage.config.partials() == schedule::Partials::Peer)
      changed |= Storer(state, stage).run();
  return changed;
}

} // namespace braid
