//===- lowering/stages/block_rows.h - excludes padding rows from blocks -----------------------===//
//
// 1001 rows on 8 devices form 7 blocks of 126 rows and one of 119. Buffers have room for full
// blocks, but operations process only the rows of a block that exist, possibly none:
//
//   %block_full = select %A_all[(rank + %i) mod 8]
//   %block = slice %block_full[0 .. min(1001 - (rank + %i) mod 8 * 126, 126)]
//
// Both sides of a transfer compute this range from the same block number. If the rows divide
// evenly, no slice is needed. Only this file computes which rows exist.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "lowering/state.h"

#include "llvm/ADT/DenseMap.h"

namespace braid {

/// Returns the number of existing rows in `block`, or null if every row exists.
const Scalar *rowsOfBlock(ScalarContext &scalars, const Stage &stage, const Scalar *block);

/// Returns an alias of the existing rows of `block`, which is entry `index` of `tensor`.
Value *selectBlock(LoweringState &state, ProgramBuilder &builder, const Stage &stage,
                   const std::string &name, Value *tensor, const Scalar *index,
                   const Scalar *block);
/// Same, for a tensor that contains all blocks, so that the index is `block`.
Value *selectBlock(LoweringState &state, ProgramBuilder &builder, const Stage &stage,
                   const std::string &name, Value *tensor, const Scalar *block);

/// Same, for a tensor in which the rows of all blocks form one axis.
Value *sliceBlock(LoweringState &state, ProgramBuilder &builder, const Stage &stage,
                  const std::string &name, Value *tensor, const Scalar *block);

/// Returns all existing rows of a tensor whose leading axes are blocks and rows, as one range, or
/// the tensor itself if every row exists. If there is only one block, it must be this rank's.
Value *existingRows(LoweringState &state, ProgramBuilder &builder,
                    const std::optional<UnevenRows> &uneven, Value *tensor);

/// Clips the row range `begin .. end` of a full block to the rows of `tensor`, which may have fewer
/// rows than a full block.
std::pair<const Scalar *, const Scalar *> clipTo(ScalarContext &scalars, const Value &tensor,
                                                 const Scalar *begin, const Scalar *end);

/// Returns an alias of the existing rows of `count` blocks of `tensor`, starting with block `first`.
/// Adds reshaped tensors, in which the rows of all blocks form one axis, to `flattened`.
Value *selectBlocks(LoweringState &state, ProgramBuilder &builder, const Stage &stage,
                    const std::string &name, Value *tensor, const Scalar *first, int64_t count,
                    llvm::DenseMap<Value *, Value *> &flattened);

} // namespace braid
