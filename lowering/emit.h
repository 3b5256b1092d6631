//===- lowering/emit.h - helpers that emit nodes for several passes ---------------------------===//
#pragma once

#include "lowering/state.h"

namespace braid {

/// Base class of all classes that emit nodes.
class Emitter {
public:
  explicit Emitter(LoweringState &state)
      : state_(state), body_(state.program->body()), scalars_(state.program->scalars()),
        builder_(*state.program) {}

protected:
  const Scalar *constant(int64_t value) const { return scalars_.constant(value); }
  /// Return a unique name; see Names.
  std::string local(llvm::StringRef name) const { return state_.names.local(name); }
  std::string global(llvm::StringRef name) const { return state_.names.global(name); }
  /// Emits the loop over a stage's steps at the insertion point. In the hierarchical order, each
  /// step handles one host, and contains a loop over the blocks that other local ranks forward.
  /// `formBlock` selects the block at `slot`, names it, and may emit the nodes that process it.
  void formSteps(Stage &stage,
                 llvm::function_ref<Value *(const char *name, const Scalar *slot)> formBlock);

  using AliasFn = llvm::function_ref<Value *(Value *)>;
  /// Emits `gemm` with `lefts` as the first operands of its pairs. Operands are slices or full
  /// tensors. `addend`, if not null, is added to the result. Each pair after the first adds its
  /// product to `dst`. Returns the node of the first pair.
  MatmulOp *emitGemm(const Gemm &gemm, Value *dst, llvm::ArrayRef<Value *> lefts,
                     Value *addend = nullptr);
  /// Emits a chain of functions. `aliasOf` maps a full tensor to the slice to compute on.
  void emitPointwise(const Pointwise &pointwise, AliasFn aliasOf);
  /// Emits everything that a stage computes from `first`, a slice of its operand: GEMMs (each on
  /// `first` or on a result of this stage), pointwise functions and copies. `aliasOf` maps a full
  /// tensor to the corresponding slice.
  void emitGemms(const Stage &stage, Value *first, AliasFn aliasOf);
  /// Emits one step by calling emitGemms() with each tensor's slice at `slot`. `nameOf` names the
  /// slices.
  void emitStep(const Stage &stage, Value *block, const Scalar *slot,
                llvm::function_ref<std::string(const Value &)> nameOf);

  // Defined in stages/block_rows.cpp:
  /// Returns an alias of block `block`, which is entry `index` of `tensor`, without padding rows.
  Value *selectBlock(const Stage &stage, const std::string &name, Value *tensor,
                     const Scalar *index, const Scalar *block);
  /// Same, for a tensor that contains all blocks, so the index is `block`.
  Value *selectBlock(const Stage &stage, const std::string &name, Value *tensor,
                     const Scalar *block) {
    return selectBlock(stage, name, tensor, block, block);
  }
  /// Same, for a tensor in which the rows of all blocks form one axis.
  Value *sliceBlock(const Stage &stage, const std::string &name, Value *tensor,
                    const Scalar *block);
  /// For a tensor whose leading axes are blocks and rows, returns an alias with a single row axis
  /// and without padding rows, or the tensor itself if it has no padding. If the tensor has only
  /// one block, that block must be the rank's local block.
  Value *existingRows(const std::optional<UnevenRows> &uneven, Value *tensor);
  /// Returns an alias of `count` blocks of `tensor`, starting with block `first`, without padding
  /// rows. `flattened` caches aliases in which the rows of all blocks form one axis.
  Value *selectBlocks(const Stage &stage, const std::string &name, Value *tensor,
                      const Scalar *first, int64_t count,
                      llvm::DenseMap<Value *, Value *> &flattened);

  // Defined in stages/reduced_rows.cpp:
  /// Returns `tensor` reshaped to have one row axis, or `tensor` itself if liesInBlocks() is true.
  Value *joinRows(const Stage &stage, Value *tensor);
  /// Selects the rows of rank `block` from the result of joinRows(). If each rank keeps only its
  /// local rows, `tensor` contains only those rows and `index` is 0.
  Value *selectReduced(const Stage &stage, const std::string &name, Value *tensor,
                       const Scalar *index, const Scalar *block);

  LoweringState &state_;
  Block &body_; ///< the body of the program
  ScalarContext &scalars_;
  ProgramBuilder builder_;
};

/// Sets the insertion point after the allocations and handles at the start of the program.
void insertAfterPreamble(ProgramBuilder &builder);

/// Returns the tensor that `op` writes when it is issued, or null.
Value *writtenBy(const Op &op);

bool isGemm(const Op &op);
/// True for GEMMs and pointwise nodes.
bool computes(const Op &op);

/// Returns `name`, with the stage's name as a prefix if several stages gather, as in "A_mine".
std::string nameInStage(const LoweringState &state, const Stage &stage, llvm::StringRef name);

} // namespace braid
