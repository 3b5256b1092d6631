//===- lowering/stages/reduced_rows.h - the rows of a reduction -------------------------------===//
//
// A rank sums either its local rows or all rows. If the tensors have a leading axis of blocks, the
// local rows are one entry of that axis. Otherwise, the local rows are a range of the row axis; for
// example, 13 rows on 4 devices form ranges of 4, 4, 4 and 1 rows.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "lowering/state.h"

namespace braid {

/// Sets the number of rows that a step produces, and records which of these rows are padding.
/// Requires the stage's configuration.
void countReducedRows(const Fusion &fusion, Stage &stage);

/// True if the operand and the result have a leading axis of blocks, and each rank sums one block.
bool liesInBlocks(const Fusion &fusion, const Stage &stage);

/// Returns the shape of the partial sums that one rank sends to another: all rows, or only the
/// receiver's rows if the reduction is scattered.
Shape partShape(const Fusion &fusion, const Stage &stage);

} // namespace braid
