//===- lowering/emit.cpp - helpers that emit nodes for several passes -------------------------===//

#include "lowering/emit.h"

#include "lowering/stages/block_rows.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/Twine.h"

namespace braid {

ProgramBuilder builderFor(LoweringState &state) { return ProgramBuilder(*state.program); }

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

namespace {

/// Emits everything that a stage computes in one step.
class StepEmitter {
public:
  StepEmitter(ProgramBuilder &builder, const Stage &stage, Value *first,
              llvm::function_ref<Value *(Value *)> aliasOf)
      : builder_(builder), stage_(stage), first_(first), aliasOf_(aliasOf) {}

  void run() {
    emitPointwise(0);
    for (size_t i = 0; i < stage_.gemms.size(); ++i) {
      emit(stage_.gemms[i]);
      emitPointwise(i + 1);
    }
    for (const Reshard &reshard : stage_.reshards) {
      builder_.setLocation(reshard.tensor->location);
      if (rootOf(first_) != reshard.dst) // otherwise the data is already in place
        builder_.set(partOf(reshard.dst), first_);
    }
  }

private:
  Value *partOf(Value *whole) {
    Value *&part = parts_[whole];
    if (!part)
      part = aliasOf_(whole);
    return part;
  }

  void emit(const Gemm &gemm) {
    builder_.setLocation(gemm.node->location);
    Value *dst = partOf(gemm.dst);
    emitGemm(builder_, gemm, dst, gemm.left ? partOf(gemm.left) : first_);
  }

  void emitPointwise(size_t gemms) {
    for (const Pointwise &each : stage_.pointwise)
      if (each.after == gemms)
        braid::emitPointwise(builder_, each, [&](Value *whole) { return partOf(whole); });
  }

  ProgramBuilder &builder_;
  const Stage &stage_;
  Value *first_;
  llvm::function_ref<Value *(Value *)> aliasOf_;
  llvm::DenseMap<Value *, Value *> parts_;
};

} // namespace

void emitGemms(ProgramBuilder &builder, const Stage &stage, Value *first,
               llvm::function_ref<Value *(Value *)> aliasOf) {
  StepEmitter(builder, stage, first, aliasOf).run();
}

void emitStep(LoweringState &state, ProgramBuilder &builder, const Stage &stage, Value *block,
              const Scalar *slot, llvm::function_ref<std::string(const Value &)> nameOf) {
  emitGemms(builder, stage, block, [&](Value *whole) {
    return selectBlock(state, builder, stage, nameOf(*whole), whole, slot);
  });
}

/// Searches `block` and its nested blocks for `op`. Returns the block that contains it, or null.
static Block *holderOf(Block &block, const Op &op) {
  Block *holder = nullptr;
  for (Op &each : block) {
    if (&each == &op)
      return &block;
    forEachBlock(each, [&](Block &inner) { holder = holder ? holder : holderOf(inner, op); });
    if (holder)
      return holder;
  }
  return nullptr;
}

llvm::SmallVector<Op *, 2> withFunctions(Program &program, SumOp &sum) {
  llvm::SmallVector<Op *, 2> found = {&sum};
  const auto end = holderOf(program.body(), sum)->end();
  for (auto at = std::next(sum.getIterator()); at != end; ++at)
    if (llvm::isa<PointwiseOp>(*at))
      found.push_back(&*at);
    else if (!llvm::isa<SelectOp>(*at) && !llvm::isa<SliceOp>(*at))
      break;
  return found;
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
