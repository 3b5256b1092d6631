//===- lowering/stages/reduced_rows.h - where the rows of a reduction are ---------------------===//
//
// A rank adds its own rows or all of them. Its own are an entry of a leading axis of blocks where
// the tensors have one, and else a range of their rows: of 13 rows on 4 devices, 4, 4, 4 and 1.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "lowering/state.h"

namespace braid {

/// Counts the rows that a step makes, and says which exist. Its schedule must be known.
void countReducedRows(const Fusion &fusion, Stage &stage);

/// The operand and the result have a leading axis of blocks, and ranks add one each.
bool liesInBlocks(const Fusion &fusion, const Stage &stage);

/// The shape of one rank's partial sums for another: all rows, or its rows if they are scattered.
Shape partShape(const Fusion &fusion, const Stage &stage);

/// The tensor with its rows as one axis, unless it lies in blocks: ranges end wherever.
Value *joinRows(LoweringState &state, ProgramBuilder &builder, const Stage &stage, Value *tensor);

/// Selects the rows of the rank `block` from the result of joinRows(). If a rank keeps only its
/// rows, `tensor` holds just these and `index` is 0.
Value *selectReduced(LoweringState &state, ProgramBuilder &builder, const Stage &stage,
                     const std::string &name, Value *tensor, const Scalar *index,
                     const Scalar *block);

} // namespace braid
