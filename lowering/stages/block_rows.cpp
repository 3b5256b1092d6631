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

Value *Emitter::selectBlock(const Stage &stage, const std::string &name, Value *tensor,
                            const Scalar *index, const Scalar *block) {
  const Scalar *rows = rowsOfBlock(scalars_, stage, block);
  if (!rows)
    return builder_.select(name, tensor, index);
  Value *full = builder_.select(local(name + "_full"), tensor, index);
  return builder_.slice(name, full, constant(0), rows);
}

/// First takes the slice from the block's first row to the end of the tensor, and then the block's
/// rows from this slice, so that the extent is the same expression as in selectBlock().
Value *Emitter::sliceBlock(const Stage &stage, const std::string &name, Value *tensor,
                           const Scalar *block) {
  const Scalar *rows = constant(stage.rows), *all = tensor->type.shape.front();
  const Scalar *first = scalars_.mul(block, rows), *here = rowsOfBlock(scalars_, stage, block);
  if (stage.uneven && isLastEmpty(*stage.uneven))
    first = scalars_.min(first, all);
  Value *rest = builder_.slice(local(name + "_full"), tensor, first, all);
  return builder_.slice(name, rest, constant(0), here ? here : rows);
}

Value *Emitter::existingRows(const std::optional<UnevenRows> &uneven, Value *tensor) {
  if (!uneven)
    return tensor;
  const Scalar *rows = holdsOneBlock(*tensor) ? countRows(scalars_, *uneven, scalars_.rank())
                                              : constant(uneven->total);
  const std::string name = global(tensor->name + "_rows");
  Value *all = builder_.flatten(global(name + "_full"), tensor);
  return builder_.slice(name, all, constant(0), rows);
}

std::pair<const Scalar *, const Scalar *> clipTo(ScalarContext &scalars, const Value &tensor,
                                                 const Scalar *begin, const Scalar *end) {
  const Scalar *rows = tensor.type.shape.front();
  if (rows->isConstant())
    return {begin, end};
  return {scalars.min(begin, rows), scalars.min(end, rows)};
}

Value *Emitter::selectBlocks(const Stage &stage, const std::string &name, Value *tensor,
                             const Scalar *first, int64_t count,
                             llvm::DenseMap<Value *, Value *> &flattened) {
  const Scalar *end = scalars_.add(first, constant(count));
  if (!stage.uneven)
    return builder_.slice(name, tensor, first, end);
  const Scalar *rows = constant(stage.rows);
  const Scalar *total = constant(stage.uneven->total);
  Value *&all = flattened[tensor];
  if (!all)
    all = builder_.flatten(global(tensor->name + "_rows"), tensor);
  return builder_.slice(name, all, scalars_.min(scalars_.mul(first, rows), total),
                        scalars_.min(scalars_.mul(end, rows), total));
}

} // namespace braid
