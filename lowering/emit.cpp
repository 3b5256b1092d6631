//===- lowering/emit.cpp - helpers that emit nodes for several passes -------------------------===//

#include "lowering/emit.h"

#include "lowering/stages/block_rows.h"
#include "lowering/stages/gather_order.h"
#include "lowering/stages/host_order.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/Twine.h"

namespace braid {

void Emitter::formSteps(
    Stage &stage, llvm::function_ref<Value *(const char *name, const Scalar *slot)> formBlock) {
  const bool hasHosts = stage.isHierarchical();
  builder_.setLocation(stage.location());
  stage.loop = builder_.forLoop(local(hasHosts ? "host" : "i"), constant(0),
                                constant(hasHosts ? stage.hosts() : stage.steps));
  builder_.insertAtEnd(stage.loop->body);
  const Scalar *step = stage.loop->index;
  if (hasHosts) {
    const HostOrder order(scalars_, stage);
    stage.block = formBlock("block", order.far(step));
    stage.relay = builder_.forLoop(local("i"), constant(1), constant(stage.ranksPerHost));
    builder_.insertAtEnd(stage.relay->body);
    stage.relayed = formBlock("relayed", order.block(step, stage.relay->index));
  } else if (stage.isGather() && !stage.isCollective()) {
    const GatherOrder order(scalars_, stage.config.order(), stage.steps);
    stage.block = formBlock("block", order.source(step));
  } else {
    stage.block = formBlock("block", step);
  }
}

void insertAfterPreamble(ProgramBuilder &builder) {
  Block &body = builder.program().body();
  auto at = llvm::find_if_not(body, [](const Op &op) {
    return llvm::isa<AllocateOp>(op) || llvm::isa<ShareMemHandlesOp>(op);
  });
  builder.setInsertionPoint(body, at);
}

MatmulOp *emitGemm(ProgramBuilder &builder, const Gemm &gemm, Value *dst, Value *first,
                   Value *addend) {
  builder.setLocation(gemm.node->location);
  if (gemm.node->transposeB)
    return builder.linear(dst, first, gemm.right, gemm.bias, addend);
  return builder.matmul(dst, first, gemm.right, addend);
}

void emitPointwise(ProgramBuilder &builder, const Pointwise &pointwise,
                   llvm::function_ref<Value *(Value *)> aliasOf) {
  builder.setLocation(pointwise.tensor->location);
  Value *first = aliasOf(pointwise.first), *dst = aliasOf(pointwise.dst);
  std::vector<PointwiseStep<Value *>> steps = pointwise.steps;
  for (PointwiseStep<Value *> &step : steps)
    if (step.operand)
      step.operand = aliasOf(step.operand);
  builder.pointwise(dst, first, steps);
}

void emitGemms(ProgramBuilder &builder, const Stage &stage, Value *first,
               llvm::function_ref<Value *(Value *)> aliasOf) {
  llvm::DenseMap<Value *, Value *> parts;
  auto partOf = [&](Value *whole) {
    Value *&part = parts[whole];
    return part ? part : part = aliasOf(whole);
  };
  auto emitPointwiseAfter = [&](size_t gemms) {
    for (const Pointwise &each : stage.pointwise)
      if (each.after == gemms)
        emitPointwise(builder, each, partOf);
  };
  emitPointwiseAfter(0);
  for (size_t i = 0; i < stage.gemms.size(); ++i) {
    const Gemm &gemm = stage.gemms[i];
    builder.setLocation(gemm.node->location);
    Value *dst = partOf(gemm.dst);
    emitGemm(builder, gemm, dst, gemm.left ? partOf(gemm.left) : first);
    emitPointwiseAfter(i + 1);
  }
  for (const Reshard &reshard : stage.reshards) {
    builder.setLocation(reshard.tensor->location);
    if (rootOf(first) != reshard.dst) // otherwise the data is already in place
      builder.set(partOf(reshard.dst), first);
  }
}

void emitStep(LoweringState &state, ProgramBuilder &builder, const Stage &stage, Value *block,
              const Scalar *slot, llvm::function_ref<std::string(const Value &)> nameOf) {
  emitGemms(builder, stage, block, [&](Value *whole) {
    return selectBlock(state, builder, stage, nameOf(*whole), whole, slot);
  });
}

Value *writtenBy(const Op &op) {
  if (const auto *set = llvm::dyn_cast<SetOp>(&op))
    return set->dst;
  if (const auto *matmul = llvm::dyn_cast<MatmulOp>(&op))
    return matmul->dst;
  if (const auto *sum = llvm::dyn_cast<SumOp>(&op))
    return sum->dst;
  if (const auto *pointwise = llvm::dyn_cast<PointwiseOp>(&op))
    return pointwise->dst;
  return nullptr;
}

bool isGemm(const Op &op) { return llvm::isa<MatmulOp>(op); }

bool computes(const Op &op) { return isGemm(op) || llvm::isa<PointwiseOp>(op); }

std::string nameInStage(const LoweringState &state, const Stage &stage, llvm::StringRef name) {
  auto gathers = llvm::count_if(state.stages, [](const Stage &s) { return s.isGather(); });
  return gathers > 1 ? (stage.name() + "_" + name).str() : name.str();
}

} // namespace braid
