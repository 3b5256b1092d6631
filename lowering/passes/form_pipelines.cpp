//===- lowering/passes/form_pipelines.cpp - turns every stage into a loop over its steps ------===//
//
//   %A_all = allocate symmetric bf16[8, 128, 1024]
//   for %i in 0 .. 8 {
//     %block = select %A_all[(rank + %i) mod 8]
//     %out = select %C[(rank + %i) mod 8]
//     matmul %out, %block, %B
//   }
//
// A gathered operand has a buffer that peers can access. If the gathered operand is also an output,
// and peers read only this rank's block, blocks are received directly into the output, and only the
// local block needs a symmetric buffer. Every rank starts with its local block and processes the
// other blocks in the order defined by gather_order.h. With granularity=whole, or if no result has
// a Stream axis, a single GEMM computes the result. insert-transfers fills the buffers.
//
//===----------------------------------------------------------------------------------------===//

#include "lowering/emit.h"
#include "lowering/passes/passes.h"
#include "lowering/stages/block_rows.h"
#include "lowering/stages/legality.h"
#include "lowering/stages/reduction.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/Twine.h"

namespace braid {
namespace {

class Former : Emitter {
public:
  using Emitter::Emitter;

  void run() {
    builder_.insertAtEnd(body_);
    for (Stage &stage : state_.stages)
      if (stage.isReduction())
        allocateParts(state_, stage, builder_);
      else
        stage.whole = stage.isGather() ? allocateGathered(stage) : stage.input;
    for (Stage &stage : state_.stages)
      form(stage);
    builder_.insertAtEnd(body_);
    for (auto [dst, src] : state_.copies)
      copy(dst, src);
  }

private:
  Value *allocateGathered(Stage &stage) {
    Shape shape = state_.fusion.localShape(stage.operand->type);
    if (Value *output = stage.gatheredOutput()) {
      if (stage.movesByPairs())
        stage.sent = allocateReached(stage, "_sent", shape);
      return output;
    }
    shape.front() = stage.steps;
    if (stage.gathersSlices)
      shape[1] = state_.fusion.ranks();
    return allocateReached(stage, "_all", shape);
  }

  Value *allocateReached(const Stage &stage, const char *suffix, const Shape &shape) {
    builder_.setLocation(stage.location());
    return builder_.allocate(global((stage.name() + suffix).str()), MemorySpace::Symmetric,
                             builder_.tensorType(stage.operand->type.dtype, shape));
  }

  void form(Stage &stage) {
    if (stage.isReduction())
      return formReduction(state_, stage);
    if (stage.gatheredBy)
      stage.whole = state_.stages[*stage.gatheredBy].gathered();
    builder_.insertAtEnd(body_);
    bool isWhole = stage.isGather() && stage.multipliesWhole();
    if (takesOwnRows(stage))
      formOwnRows(stage);
    else if (stage.kind == StageKind::Straight || isWhole)
      formWhole(stage);
    else
      formLoop(stage);
  }

  /// True if the operand is replicated, but the result has only this device's rows.
  bool takesOwnRows(const Stage &stage) const {
    auto isSplitIn = [&](const FusionTensor &tensor) {
      return isSplit(state_.fusion, tensor.type.axes.front());
    };
    return stage.kind == StageKind::Straight &&
           contractionOf(*stage.gemms.front().node).first > 0 && isSplitIn(stage.result()) &&
           !isSplitIn(*stage.operand);
  }

  void formOwnRows(Stage &stage) {
    const Scalar *rank = scalars_.rank();
    builder_.setLocation(stage.location());
    Value *rows = selectBlock(stage, global((stage.name() + "_own").str()), stage.whole, rank);
    stage.first = rows->definition;
    emitGemms(stage, rows, [&](Value *whole) {
      const Scalar *index = stage.isAdded(*whole) ? rank : constant(0);
      return selectBlock(stage, global(whole->name + "_own"), whole, index, rank);
    });
  }

  void formWhole(Stage &stage) {
    const size_t before = body_.size();
    auto rowsOf = [&](Value *tensor) { return existingRows(stage.uneven, tensor); };
    emitGemms(stage, rowsOf(stage.whole), rowsOf);
    stage.first = &*std::next(body_.begin(), static_cast<ptrdiff_t>(before));
  }

  /// Copies an input to an output.
  void copy(Value *dst, Value *src) {
    std::optional<UnevenRows> uneven;
    for (auto [tensor, value] : llvm::zip(state_.fusion.inputs(), state_.program->params()))
      if (value.get() == src)
        uneven = state_.fusion.unevenRows(tensor->type);
    Value *to = existingRows(uneven, dst);
    builder_.set(to, existingRows(uneven, src));
  }

  void formLoop(Stage &stage) {
    formSteps(stage, [&](llvm::StringRef name, const Scalar *slot) {
      builder_.setLocation(stage.location());
      Value *block = selectBlock(stage, local(name), stage.whole, slot);
      const std::string prefix = name == "relayed" ? "relayed_" : "";
      emitStep(stage, block, slot, [&](const Value &whole) {
        return local(prefix + (stage.isAdded(whole) ? whole.name + "_block"
                               : stage.makesOne()   ? "out"
                                                    : whole.name + "_out"));
      });
      builder_.setLocation(stage.location());
      return block;
    });
    stage.first = stage.loop;
  }
};

} // namespace

bool formPipelines(LoweringState &state) {
  if (state.stages.empty() && state.copies.empty())
    return false;
  Former(state).run();
  return true;
}

} // namespace braid
