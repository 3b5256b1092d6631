//===- lowering/emit.cpp - nodes that several passes make -------------------------------------===//

#include "lowering/emit.h"

#include "lowering/stages/block_rows.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/Twine.h"

namespace braid {

ProgramBuilder builderFor(LoweringState &state) {
  return ProgramBuilder(*state.program, ProgramBuilder::NamePolicy::AsWritten);
}

void insertAfterPreamble(ProgramBuilder &builder) {
  Block &body = builder.program().body();
  auto at = llvm::find_if_not(body, [](const Op &op) {
    return llvm::isa<AllocateOp>(op) || llvm::isa<ShareMemHandlesOp>(op);
  });
  builder.setInsertionPoint(body, at);
}

Op *emitGemm(ProgramBuilder &builder, const Gemm &gemm, Value *dst, Value *first) {
  builder.setLocation(gemm.node->location());
  if (llvm::isa<MatmulNode>(gemm.node))
    return builder.matmul(dst, first, gemm.right);
  return builder.linear(dst, first, gemm.right, gemm.bias);
}

void emitGemms(ProgramBuilder &builder, const Stage &stage, Value *first,
               llvm::function_ref<Value *(const Gemm &)> aliasOf) {
  llvm::SmallVector<Value *, 4> made;
  for (const Gemm &gemm : stage.gemms) {
    builder.setLocation(gemm.node->location());
    Value *alias = aliasOf(gemm);
    emitGemm(builder, gemm, alias, gemm.source ? made[*gemm.source] : first);
    made.push_back(alias);
  }
}

void emitStep(LoweringState &state, ProgramBuilder &builder, const Stage &stage, Value *block,
              const Scalar *slot, llvm::function_ref<std::string(const Gemm &)> nameOf) {
  emitGemms(builder, stage, block, [&](const Gemm &gemm) {
    return selectBlock(state, builder, stage, nameOf(gemm), gemm.dst, slot);
  });
}

std::string nameInStage(const LoweringState &state, const Stage &stage, llvm::StringRef name) {
  auto gathers = llvm::count_if(state.stages, [](const Stage &s) { return s.isGather(); });
  return gathers > 1 ? (stage.name() + "_" + name).str() : name.str();
}

} // namespace braid
