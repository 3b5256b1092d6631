//===- lowering/stages/block_rows.h - the existing rows of blocks -----------------------------===//
//
// 1001 rows on 8 devices form 7 blocks of 126 rows and one of 119. Buffers store full blocks, and
// operations on a block process only its existing rows, of which there may be none:
//
//   %block_full = select %A_all[(rank + %i) mod 8]
//   %block = slice %block_full[0 .. min(1001 - (rank + %i) mod 8 * 126, 126)]
//
// Both sides of a transfer compute this range from the same block number. If the rows divide
// evenly, the alias is the full block. Only this file computes which rows exist.
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
/// Likewise, for a tensor that contains all blocks.
Value *selectBlock(LoweringState &state, ProgramBuilder &builder, const Stage &stage,
                   const std::string &name, Value *tensor, const Scalar *block);

/// Likewise, for a tensor whose rows form one axis.
Value *sliceBlock(LoweringState &state, ProgramBuilder &builder, const Stage &stage,
                  const std::string &name, Value *tensor, const Scalar *block);

/// Returns all existing rows of a tensor whose leading axes are blocks and rows, as one range, or
/// the tensor itself if every row exists. A tensor with one block contains this rank's block.
Value *existingRows(LoweringState &state, ProgramBuilder &builder,
                    const std::optional<UnevenRows> &uneven, Value *tensor);

/// Clips `begin .. end`, counted in rows of full blocks, to the rows of `tensor`, which may itself
/// be clipped.
std::pair<const Scalar *, const Scalar *> clipTo(ScalarContext &scalars, const Value &tensor,
                                                 const Scalar *begin, const Scalar *end);

/// Creates aliases of the existing rows in ranges that span several blocks.
class BlockRanges {
public:
  /// The arguments must outlive this object.
  BlockRanges(LoweringState &state, const Stage &stage, ProgramBuilder &builder)
      : state_(state), stage_(stage), scalars_(builder.scalars()), builder_(builder) {}

  /// Returns the existing rows of `count` blocks, starting with block `first`.
  Value *blocks(const std::string &name, Value *tensor, const Scalar *first, int64_t count);

private:
  LoweringState &state_;
  const Stage &stage_;
  ScalarContext &scalars_;
  ProgramBuilder &builder_;
  llvm::DenseMap<Value *, Value *> flattened_; ///< tensors reshaped to have one row axis
};

} // namespace braid
