//===- lowering/stages/reduced_rows.cpp - the rows of a reduction -----------------------------===//

#include "lowering/stages/reduced_rows.h"

#include "lowering/stages/block_rows.h"

namespace braid {
namespace {

size_t rowAxesOf(const Stage &stage) { return contractionOf(*stage.gemms.front().node).first; }

/// True if joinRows() merges the two leading axes into one.
bool joinsLeadingAxes(const Fusion &fusion, const Stage &stage) {
  return !liesInBlocks(fusion, stage) &&
         (fusion.unevenRows(stage.operand->type) || rowAxesOf(stage) == 2);
}

/// Returns the total number of rows in the result, without padding, or 0 if it has no row axis.
int64_t countAll(const Fusion &fusion, const Stage &stage) {
  const Shape shape = fusion.localShape(stage.operand->type);
  if (const std::optional<UnevenRows> uneven = fusion.unevenRows(stage.operand->type))
    return uneven->total;
  if (rowAxesOf(stage) == 0)
    return 0;
  return rowAxesOf(stage) == 2 ? shape[0] * shape[1] : shape[0];
}

} // namespace

bool liesInBlocks(const Fusion &fusion, const Stage &stage) {
  const bool hasBlocks =
      rowAxesOf(stage) > 1 && fusion.localShape(stage.operand->type).front() == fusion.ranks();
  return stage.keepsOwnRows() || (stage.isTwoShot() && hasBlocks);
}

void countReducedRows(const Fusion &fusion, Stage &stage) {
  const Shape shape = fusion.localShape(stage.operand->type);
  stage.steps = fusion.ranks();
  stage.uneven = std::nullopt;
  if (liesInBlocks(fusion, stage)) {
    stage.rows = rowAxesOf(stage) > 1 ? shape[1] : 0;
    stage.uneven = fusion.unevenRows(stage.operand->type);
    return;
  }
  const int64_t all = stage.rows = countAll(fusion, stage); // one row axis, without padding
  if (!stage.isTwoShot())
    return;
  stage.rows = (all + stage.steps - 1) / stage.steps;
  if (all % stage.steps != 0)
    stage.uneven = UnevenRows{1, stage.steps, stage.rows, all};
}

Shape partShape(const Fusion &fusion, const Stage &stage) {
  Shape shape = fusion.localShape(resultOf(*stage.gemms.front().node)->type);
  const bool isBlock = liesInBlocks(fusion, stage);
  if (isBlock || joinsLeadingAxes(fusion, stage))
    shape.erase(shape.begin());
  if (!isBlock && !shape.empty() && rowAxesOf(stage) > 0)
    shape.front() = stage.rows;
  return shape;
}

Value *Emitter::joinRows(const Stage &stage, Value *tensor) {
  if (!joinsLeadingAxes(state_.fusion, stage))
    return tensor;
  if (const std::optional<UnevenRows> uneven = state_.fusion.unevenRows(stage.operand->type))
    return existingRows(uneven, tensor);
  return builder_.flatten(global(tensor->name + "_rows"), tensor);
}

Value *Emitter::selectReduced(const Stage &stage, const std::string &name, Value *tensor,
                              const Scalar *index, const Scalar *block) {
  return liesInBlocks(state_.fusion, stage) ? selectBlock(stage, name, tensor, index, block)
                                            : sliceBlock(stage, name, tensor, block);
}

} // namespace braid
