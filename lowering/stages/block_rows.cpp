//===- lowering/stages/block_rows.cpp - excludes padding rows from blocks ---------------------===//

#include "lowering/stages/block_rows.h"

#include "lowering/emit.h"

namespace braid {
namespace {

bool isLastEmpty(const UnevenRows &uneven) { return uneven.rowsOf(uneven.blocks - 1) == 0; }

/// Returns min(total - block * rows, rows), or 0 if that is negative because the block has no rows.
const Scalar *countRows(ScalarContext &scalars, const UnevenRows &uneven, const Scalar *block) {
  const Scalar *rows = scalars.constant(uneven.rows), *none = scalars.constant(0);
  const Scalar *left = scalars.sub(scalars.constant(uneven.total), scalars.mul(block, rows));
  const Scalar *here = scalars.min(left, rows);
  return isLastEmpty(uneven) ? scalars.max(here, none) : here;
}

bool holdsOneBlock(const Value &tensor) { return tensor.type.shape.front()->isConstant(1); }

} // namespace

const Scalar *rowsOfBlock(ScalarContext &scalars, const Stage &stage, const Scalar *block) {
  return stage.uneven ? countRows(scalars, *stage.uneven, block) : nullptr;
}

Value *selectBlock(LoweringState &state, ProgramBuilder &builder, const Stage &stage,
                   const std::string &name, Value *tensor, const Scalar *index,
                   const Scalar *block) {
  const Scalar *rows = rowsOfBlock(builder.scalars(), stage, block);
  if (!rows)
    return builder.select(name, tensor, index);
  Value *full = builder.select(state.names.local(name + "_full"), tensor, index);
  return builder.slice(name, full, builder.scalars().constant(0), rows);
}

Value *selectBlock(LoweringState &state, ProgramBuilder &builder, const Stage &stage,
                   const std::string &name, Value *tensor, const Scalar *block) {
  return selectBlock(state, builder, stage, name, tensor, block, block);
}

/// First slices from the block's first row to the end, then slices off the rows after the block, so
/// that the extent is the same expression as in selectBlock().
Value *sliceBlock(LoweringState &state, ProgramBuilder &builder, const Stage &stage,
                  const std::string &name, Value *tensor, const Scalar *block) {
  ScalarContext &scalars = builder.scalars();
  const Scalar *rows = scalars.constant(stage.rows), *all = tensor->type.shape.front();
  const Scalar *first = scalars.mul(block, rows), *here = rowsOfBlock(scalars, stage, block);
  if (stage.uneven && isLastEmpty(*stage.uneven))
    first = scalars.min(first, all);
  Value *rest = builder.slice(state.names.local(name + "_full"), tensor, first, all);
  return builder.slice(name, rest, scalars.constant(0), here ? here : rows);
}

Value *existingRows(LoweringState &state, ProgramBuilder &builder,
                    const std::optional<UnevenRows> &uneven, Value *tensor) {
  if (!uneven)
    return tensor;
  ScalarContext &scalars = builder.scalars();
  const Scalar *rows = holdsOneBlock(*tensor) ? countRows(scalars, *uneven, scalars.rank())
                                              : scalars.constant(uneven->total);
  const std::string name = state.names.global(tensor->name + "_rows");
  Value *all = builder.flatten(state.names.global(name + "_full"), tensor);
  return builder.slice(name, all, scalars.constant(0), rows);
}

std::pair<const Scalar *, const Scalar *> clipTo(ScalarContext &scalars, const Value &tensor,
                                                 const Scalar *begin, const Scalar *end) {
  const Scalar *rows = tensor.type.shape.front();
  if (rows->isConstant())
    return {begin, end};
  return {scalars.min(begin, rows), scalars.min(end, rows)};
}

Value *selectBlocks(LoweringState &state, ProgramBuilder &builder, const Stage &stage,
                    const std::string &name, Value *tensor, const Scalar *first, int64_t count,
                    llvm::DenseMap<Value *, Value *> &flattened) {
  ScalarContext &scalars = builder.scalars();
  const Scalar *end = scalars.add(first, scalars.constant(count));
  if (!stage.uneven)
    return builder.slice(name, tensor, first, end);
  const Scalar *rows = scalars.constant(stage.rows);
  const Scalar *total = scalars.constant(stage.uneven->total);
  Value *&all = flattened[tensor];
  if (!all)
    all = builder.flatten(state.names.global(tensor->name + "_rows"), tensor);
  return builder.slice(name, all, scalars.min(scalars.mul(first, rows), total),
                       scalars.min(scalars.mul(end, rows), total));
}

} // namespace braid
