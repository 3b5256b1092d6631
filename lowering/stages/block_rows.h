//===- lowering/stages/block_rows.h - the rows of blocks that exist ---------------------------===//
//
// 1001 rows on 8 devices are 7 blocks of 126 rows and one of 119. Buffers hold full blocks, and
// operations on a block process only its existing rows, of which there may be none:
//
//   %block_full = select %A_all[(rank + %i) mod 8]
//   %block = slice %block_full[0 .. min(1001 - (rank + %i) mod 8 * 126, 126)]
//
// Both sides of a transfer compute this range from the same block number. If the rows divide
// evenly, the alias is the full block. No other file computes which rows exist.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "lowering/state.h"

#include "llvm/ADT/DenseMap.h"

namespace braid {

/// Returns the number of existing rows of a block, or null if all exist.
const Scalar *rowsOfBlock(ScalarContext &scalars, const Stage &stage, const Scalar *block);

/// Returns an alias of the existing rows of block `block`, which is entry `index` of `tensor`.
Value *selectBlock(LoweringState &state, ProgramBuilder &builder, const Stage &stage,
                   const std::string &name, Value *tensor, const Scalar *index,
                   const Scalar *block);
/// As above, for a tensor that holds all blocks.
Value *selectBlock(LoweringState &state, ProgramBuilder &builder, const Stage &stage,
                   const std::string &name, Value *tensor, const Scalar *block);

/// As above, for a tensor whose rows form one axis.
Value *sliceBlock(LoweringState &state, ProgramBuilder &builder, const Stage &stage,
                  const std::string &name, Value *tensor, const Scalar *block);

/// Returns all existing rows of a tensor whose leading axes are blocks and rows, as one range; the
/// tensor itself if all rows exist. A tensor with one block holds the block of this rank.
Value *existingRows(LoweringState &state, ProgramBuilder &builder,
                    const std::optional<UnevenRows> &uneven, Value *tensor);

/// Clips `begin .. end`, in rows of full blocks, to the rows of `tensor`, which may itself be
/// clipped.
std::pair<const Scalar *, const Scalar *> clipTo(ScalarContext &scalars, const Value &tensor,
                                                 const Scalar *begin, const Scalar *end);

/// Creates aliases of the existing rows of ranges that span several blocks.
class BlockRanges {
public:
  /// The arguments must outlive this object.
  BlockRanges(LoweringState &state, const Stage &stage, ProgramBuilder &builder)
      : state_(state), stage_(stage), scalars_(builder.scalars()), builder_(builder) {}

  /// Returns the rows of `count` blocks from `first` on.
  Value *blocks(const std::string &name, Value *tensor, const Scalar *first, int64_t count);

private:
  LoweringState &state_;
  const Stage &stage_;
  ScalarContext &scalars_;
  ProgramBuilder &builder_;
  llvm::DenseMap<Value *, Value *> flattened_; ///< tensors reshaped to have one row axis
};

} // namespace braid
