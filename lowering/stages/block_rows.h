//===- lowering/stages/block_rows.h - the rows of blocks that exist ---------------------------===//
//
// 1001 rows on 8 devices are 7 blocks of 126 rows and one of 119. Buffers hold full blocks, and
// what works on a block works on those of its rows that exist, however few:
//
//   %block_full = select %A_all[(rank + %i) mod 8]
//   %block = slice %block_full[0 .. min(1001 - (rank + %i) mod 8 * 126, 126)]
//
// Both sides of a transfer compute this from the same block number. Where rows divide, a block is
// its alias alone. This is the only place that knows which rows exist.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "lowering/state.h"

#include "llvm/ADT/DenseMap.h"

namespace braid {

/// The number of rows of a block that exist; null if all do.
const Scalar *rowsOfBlock(ScalarContext &scalars, const Stage &stage, const Scalar *block);

/// An alias of the rows that exist of `block`, which is entry `index` of `tensor`.
Value *selectBlock(LoweringState &state, ProgramBuilder &builder, const Stage &stage,
                   const std::string &name, Value *tensor, const Scalar *index,
                   const Scalar *block);
/// The same of a tensor that holds all blocks.
Value *selectBlock(LoweringState &state, ProgramBuilder &builder, const Stage &stage,
                   const std::string &name, Value *tensor, const Scalar *block);

/// The same of a tensor whose rows are one axis.
Value *sliceBlock(LoweringState &state, ProgramBuilder &builder, const Stage &stage,
                  const std::string &name, Value *tensor, const Scalar *block);

/// All rows that exist of a tensor whose leading axes are blocks and rows, as one range; the
/// tensor itself where every row does. A tensor of one block holds that of this rank.
Value *existingRows(LoweringState &state, ProgramBuilder &builder,
                    const std::optional<UnevenRows> &uneven, Value *tensor);

/// `begin .. end`, in rows of full blocks, as far as it lies in `tensor`, which may be clipped.
std::pair<const Scalar *, const Scalar *> clipTo(ScalarContext &scalars, const Value &tensor,
                                                 const Scalar *begin, const Scalar *end);

/// Aliases of ranges of whole tensors that span blocks: as far as their rows exist.
class BlockRanges {
public:
  /// All outlive this.
  BlockRanges(LoweringState &state, const Stage &stage, ProgramBuilder &builder)
      : state_(state), stage_(stage), scalars_(builder.scalars()), builder_(builder) {}

  /// `count` blocks from `first` on.
  Value *blocks(const std::string &name, Value *tensor, const Scalar *first, int64_t count);

private:
  LoweringState &state_;
  const Stage &stage_;
  ScalarContext &scalars_;
  ProgramBuilder &builder_;
  llvm::DenseMap<Value *, Value *> flattened_; ///< tensors with their rows as one axis
};

} // namespace braid
