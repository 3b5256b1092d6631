//===- lowering/emit.cpp - nodes that several passes make -----------------===//

#include "lowering/emit.h"

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

Op *emitProduct(ProgramBuilder &builder, const Product &product, Value *dst, Value *first) {
  builder.setLocation(product.node->location());
  if (llvm::isa<MatmulNode>(product.node))
    return builder.matmul(dst, first, product.right);
  return builder.linear(dst, first, product.right, product.bias);
}

void emitProducts(ProgramBuilder &builder, const Stage &stage, Value *first,
                  llvm::function_ref<Value *(const Product &)> aliasOf) {
  llvm::SmallVector<Value *, 4> made;
  for (const Product &product : stage.products) {
    builder.setLocation(product.node->location());
    Value *alias = aliasOf(product);
    emitProduct(builder, product, alias, product.source ? made[*product.source] : first);
    made.push_back(alias);
  }
}

void emitStep(ProgramBuilder &builder, const Stage &stage, Value *block, const Scalar *slot,
              llvm::function_ref<std::string(const Product &)> nameOf) {
  emitProducts(builder, stage, block, [&](const Product &product) {
    return builder.select(nameOf(product), product.dst, slot);
  });
}

std::string nameInStage(const LoweringState &state, const Stage &stage, llvm::StringRef name) {
  auto gathers = llvm::count_if(state.stages, [](const Stage &s) { return s.isGather(); });
  return gathers > 1 ? (stage.name() + "_" + name).str() : name.str();
}

} // namespace braid
