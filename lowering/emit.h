//===- lowering/emit.h - emitting nodes that several passes need ------------------------------===//
#pragma once

#include "lowering/state.h"

namespace braid {

/// Returns a builder that uses names as given: the passes obtain unique names from Names.
ProgramBuilder builderFor(LoweringState &state);

/// Sets the insertion point after the allocations and handles that begin the program.
void insertAfterPreamble(ProgramBuilder &builder);

/// Emits `gemm` with `first` as its first operand. Operands are slices or full tensors. `addend` is
/// a tensor to add to the result, or null.
MatmulOp *emitGemm(ProgramBuilder &builder, const Gemm &gemm, Value *dst, Value *first,
                   Value *addend = nullptr);

/// Emits a chain of functions. `aliasOf` returns the slice of a full tensor on which to compute.
void emitPointwise(ProgramBuilder &builder, const Pointwise &pointwise,
                   llvm::function_ref<Value *(Value *)> aliasOf);

/// Emits everything that a stage computes from `first`, a slice of its operand: the GEMMs, each on
/// `first` or on a result of this stage, then pointwise functions and copies. `aliasOf` returns the
/// corresponding slice of a full tensor.
void emitGemms(ProgramBuilder &builder, const Stage &stage, Value *first,
               llvm::function_ref<Value *(Value *)> aliasOf);

/// As above, for one step: the slice of each tensor at `slot`, named by `nameOf`.
void emitStep(LoweringState &state, ProgramBuilder &builder, const Stage &stage, Value *block,
              const Scalar *slot, llvm::function_ref<std::string(const Value &)> nameOf);

/// Returns a sum and the nodes after it that compute functions of its result.
llvm::SmallVector<Op *, 2> withFunctions(Program &program, SumOp &sum);

/// Returns the tensor that a node writes when it is issued, or null.
Value *writtenBy(const Op &op);

bool isGemm(const Op &op);
/// True for GEMMs and for functions of their results.
bool computes(const Op &op);

/// Returns "mine" if only one stage gathers, otherwise "A_mine".
std::string nameInStage(const LoweringState &state, const Stage &stage, llvm::StringRef name);

} // namespace braid
