//===- lowering/stages/block_rows.h - excludes padding rows from blocks -----------------------===//
//
// 1001 rows on 8 devices form 7 blocks of 126 rows and one of 119. Buffers have room for full
// blocks, but operations process only the rows that are not padding, of which there may be none:
//
//   %block_full = select %A_all[(rank + %i) mod 8]
//   %block = slice %block_full[0 .. min(1001 - (rank + %i) mod 8 * 126, 126)]
//
// Both sides of a transfer compute this range from the same block number. If the rows divide
// evenly, no slice is needed. All passes use the functions in this file to exclude padding.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "lowering/state.h"

namespace braid {

/// Returns the number of rows in `block` that are not padding, or null if no block has padding.
const Scalar *rowsOfBlock(ScalarContext &scalars, const Stage &stage, const Scalar *block);

/// Clips the row range `begin .. end` of a full block to the rows of `tensor`, which may have fewer
/// rows than a full block.
std::pair<const Scalar *, const Scalar *> clipTo(ScalarContext &scalars, const Value &tensor,
                                                 const Scalar *begin, const Scalar *end);

} // namespace braid
