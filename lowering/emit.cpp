//===- lowering/emit.cpp - helpers that emit nodes for several passes -------------------------===//

#include "lowering/emit.h"

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

MatmulOp *Emitter::emitGemm(const Gemm &gemm, Value *dst, llvm::ArrayRef<Value *> lefts,
                            Value *addend) {
  builder_.setLocation(gemm.node->location);
  MatmulOp *first = nullptr;
  for (auto [left, right] : llvm::zip(lefts, gemm.rights)) {
    MatmulOp *product = gemm.node->transposeB
                            ? builder_.linear(dst, left, right, first ? nullptr : gemm.bias, addend)
                            : builder_.matmul(dst, left, right, addend);
    first = first ? first : product;
    addend = dst;
  }
  return first;
}

void Emitter::emitPointwise(const Pointwise &pointwise, AliasFn aliasOf) {
  builder_.setLocation(pointwise.tensor->location);
  Value *first = aliasOf(pointwise.first), *dst = aliasOf(pointwise.dst);
  std::vector<PointwiseStep<Value *>> steps = pointwise.steps;
  for (PointwiseStep<Value *> &step : steps)
    if (step.operand)
      step.operand = aliasOf(step.operand);
  builder_.pointwise(dst, first, steps);
}

void Emitter::emitGemms(const Stage &stage, Value *first, AliasFn aliasOf) {
  llvm::DenseMap<Value *, Value *> parts;
  auto partOf = [&](Value *whole) {
    Value *&part = parts[whole];
    return part ? part : part = aliasOf(whole);
  };
  auto emitPointwiseAfter = [&](size_t gemms) {
    for (const Pointwise &each : stage.pointwise)
      if (each.after == gemms)
        emitPointwise(each, partOf);
  };
  emitPointwiseAfter(0);
  for (size_t i = 0; i < stage.gemms.size(); ++i) {
    const Gemm &gemm = stage.gemms[i];
    builder_.setLocation(gemm.node->location);
    Value *dst = partOf(gemm.dst);
    llvm::SmallVector<Value *, 2> lefts;
    for (Value *left : gemm.lefts)
      lefts.push_back(left ? partOf(left) : first);
    emitGemm(gemm, dst, lefts);
    emitPointwiseAfter(i + 1);
  }
  for (const Reshard &reshard : stage.reshards) {
    builder_.setLocation(reshard.tensor->location);
    if (rootOf(first) != reshard.dst) // otherwise the data is already in place
      builder_.set(partOf(reshard.dst), first);
  }
}

void Emitter::emitStep(const Stage &stage, Value *block, const Scalar *slot,
                       llvm::function_ref<std::string(const Value &)> nameOf) {
  emitGemms(stage, block,
            [&](Value *whole) { return selectBlock(stage, nameOf(*whole), whole, slot); });
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
