//===- lowering/emit.h - helpers that emit nodes for several passes ---------------------------===//
#pragma once

#include "lowering/state.h"

namespace braid {

/// Base class of the classes that emit nodes.
class Emitter {
public:
  explicit Emitter(LoweringState &state)
      : state_(state), body_(state.program->body()), scalars_(state.program->scalars()),
        builder_(*state.program) {}

protected:
  const Scalar *constant(int64_t value) const { return scalars_.constant(value); }
  /// See Names.
  std::string local(llvm::StringRef name) const { return state_.names.local(name); }
  std::string global(llvm::StringRef name) const { return state_.names.global(name); }
  /// Emits the loop over a stage's steps at the insertion point. In the hierarchical order, each
  /// step handles one host, and contains a loop over the blocks that ranks of this host forward.
  /// `formBlock` selects the block of the given name at `slot`, and may emit what is done with it.
  void formSteps(Stage &stage,
                 llvm::function_ref<Value *(const char *name, const Scalar *slot)> formBlock);

  LoweringState &state_;
  Block &body_; ///< the body of the program
  ScalarContext &scalars_;
  ProgramBuilder builder_;
};

/// Sets the insertion point after the allocations and handles at the start of the program.
void insertAfterPreamble(ProgramBuilder &builder);

/// Emits `gemm` with `first` as its first operand. Operands are slices or full tensors. `addend`,
/// if not null, is added to the result.
MatmulOp *emitGemm(ProgramBuilder &builder, const Gemm &gemm, Value *dst, Value *first,
                   Value *addend = nullptr);

/// Emits a chain of functions. `aliasOf` maps a full tensor to the slice to compute on.
void emitPointwise(ProgramBuilder &builder, const Pointwise &pointwise,
                   llvm::function_ref<Value *(Value *)> aliasOf);

/// Emits everything that a stage computes from `first`, a slice of its operand: GEMMs (each on
/// `first` or on a result of this stage), pointwise functions and copies. `aliasOf` maps a full
/// tensor to the corresponding slice.
void emitGemms(ProgramBuilder &builder, const Stage &stage, Value *first,
               llvm::function_ref<Value *(Value *)> aliasOf);

/// Like emitGemms(), for one step: uses the slice of each tensor at `slot`, named by `nameOf`.
void emitStep(LoweringState &state, ProgramBuilder &builder, const Stage &stage, Value *block,
              const Scalar *slot, llvm::function_ref<std::string(const Value &)> nameOf);

/// Returns the tensor that `op` writes when it is issued, or null.
Value *writtenBy(const Op &op);

bool isGemm(const Op &op);
/// True for GEMMs and pointwise nodes.
bool computes(const Op &op);

/// Returns `name` if only one stage gathers; otherwise adds the stage's name, as in "A_mine".
std::string nameInStage(const LoweringState &state, const Stage &stage, llvm::StringRef name);

} // namespace braid
