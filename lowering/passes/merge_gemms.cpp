//===- lowering/passes/merge_gemms.cpp - merges GEMMs on contiguous blocks --------------------===//
//
// The GEMM for a single block may leave most SMs idle in its last wave of tiles, and every GEMM has
// start-up and drain costs. Moreover, several blocks can arrive during one GEMM. With geometric
// granularity, each GEMM therefore processes as many blocks as all earlier GEMMs together. These
// blocks arrive while the earlier GEMMs run:
//
//   matmul %C_own, %own, %B
//   wait %r_1
//   matmul %outs_1, %block_1, %B               // of rank xor 1
//   wait %r_2
//   wait %r_3
//   %blocks_2 = slice %A_all[(rank xor 2) / 2 * 2 .. (rank xor 2) / 2 * 2 + 2]
//   %outs_2 = slice %C[(rank xor 2) / 2 * 2 .. (rank xor 2) / 2 * 2 + 2]
//   matmul %outs_2, %blocks_2, %B
//
// The gather order (gather_order.h) makes these blocks contiguous on every rank. Chunks split only
// the transfers, not the GEMMs. A tail split divides the last GEMM in two, so that one half need
// not wait for the last blocks.
//
//===----------------------------------------------------------------------------------------===//

#include "lowering/emit.h"
#include "lowering/passes/passes.h"
#include "lowering/stages/block_rows.h"
#include "lowering/stages/gather_order.h"
#include "lowering/stages/transfers.h"
#include "lowering/stages/unrolled_steps.h"

#include "llvm/ADT/STLExtras.h"

namespace braid {
namespace {

class Merger : Emitter {
public:
  Merger(LoweringState &state, Stage &stage) : Emitter(state), stage_(stage) {}

  void run() {
    const std::vector<UnrolledStep> steps = unrollSteps(state_, stage_, *stage_.loop);
    int64_t number = 0;
    const GatherOrder order(scalars_, stage_.config.order(), stage_.steps);
    for (const Run &run : order.runs(stage_.halvesLastGemm()))
      merge(run, ++number,
            llvm::ArrayRef<UnrolledStep>(steps).slice(
                static_cast<size_t>(run.begin - steps.front().number),
                static_cast<size_t>(run.end - run.begin)));
  }

private:
  using Run = GatherOrder::Run;

  /// Emits one GEMM after the last of `steps`, replacing their individual GEMMs.
  void merge(const Run &run, int64_t number, llvm::ArrayRef<UnrolledStep> steps) {
    before_ = &*std::next(steps.back().nodes.back()->getIterator());
    builder_.insertBefore(body_, *before_);
    builder_.setLocation(stage_.location());
    const int64_t stream =
        stage_.transferStreams + number % (stage_.streams - stage_.transferStreams);
    builder_.setCurrentStream({nullptr, constant(stream)});
    moveWaits(steps, Direction::Receive);
    emit(run, number, steps);
    moveWaits(steps, Direction::Send);
    for (const UnrolledStep &step : steps)
      for (Op *op : step.nodes)
        if (computes(*op) || llvm::isa<SetOp>(op))
          body_.erase(op->getIterator());
  }

  /// Moves the waits for transfers in `direction` in front of the node `before_`, except waits for
  /// pushed sends, which remain on the stream that copies.
  void moveWaits(llvm::ArrayRef<UnrolledStep> steps, Direction direction) {
    for (const UnrolledStep &step : steps)
      for (Op *op : step.nodes) {
        const P2POp *transfer = awaitedTransfer(*op);
        const bool isReceive = direction == Direction::Receive;
        if (transfer && transfer->direction == direction && (isReceive || !copiesHere(*transfer)))
          body_.splice(before_->getIterator(), body_, op->getIterator());
      }
  }

  void emit(const Run &run, int64_t number, llvm::ArrayRef<UnrolledStep> steps) {
    const std::string suffix = "_" + std::to_string(number);
    auto alias = [&](const std::string &name, Value *tensor) {
      const std::string unique = global(name + suffix);
      if (steps.size() == 1)
        return selectBlock(stage_, unique, tensor, run.first);
      return selectBlocks(stage_, unique, tensor, run.first, run.end - run.begin, flattened_);
    };
    Value *blocks = steps.size() == 1 ? steps.front().block
                                      : alias(nameInStage(state_, stage_, "blocks"), stage_.whole);
    emitGemms(stage_, blocks, [&](Value *whole) {
      return alias(stage_.isAdded(*whole) ? whole->name + "_blocks"
                   : stage_.makesOne()    ? "outs"
                                          : whole->name + "_outs",
                   whole);
    });
  }

  Stage &stage_;
  llvm::DenseMap<Value *, Value *> flattened_; ///< see selectBlocks()
  Op *before_ = nullptr;                       ///< insertion point of the GEMM
};

} // namespace

bool mergeGemms(LoweringState &state) {
  bool changed = false;
  for (Stage &stage : state.stages) {
    if (!stage.isGeometric() || !checkUnrolledSize(stage, state.diags))
      continue;
    if (stage.loop->begin->value() < stage.loop->end->value()) {
      Merger(state, stage).run();
      changed = true;
    }
    state.program->body().erase(stage.loop->getIterator());
    stage.forgetLoop();
  }
  return changed;
}

} // namespace braid
