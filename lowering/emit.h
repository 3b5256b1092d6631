//===- lowering/emit.h - nodes that several passes make ---------------------------------------===//
#pragma once

#include "lowering/state.h"

namespace braid {

/// A builder that takes names as given: the passes get them from Names.
ProgramBuilder builderFor(LoweringState &state);

/// Inserts after the allocations and handles that begin the program.
void insertAfterPreamble(ProgramBuilder &builder);

/// Emits `gemm` on `first`, slices or whole.
Op *emitGemm(ProgramBuilder &builder, const Gemm &gemm, Value *dst, Value *first);

/// Emits all GEMMs of a stage, each on `first` or on what the GEMM it builds on has made.
/// `aliasOf` makes the part of a result that is computed.
void emitGemms(ProgramBuilder &builder, const Stage &stage, Value *first,
               llvm::function_ref<Value *(const Gemm &)> aliasOf);

/// Emits all GEMMs of one step: each result's slice at `slot`, then the GEMM on `block` or on
/// the slice of the GEMM it builds on. `nameOf` names the slice of a result.
void emitStep(LoweringState &state, ProgramBuilder &builder, const Stage &stage, Value *block,
              const Scalar *slot, llvm::function_ref<std::string(const Gemm &)> nameOf);

/// "mine" if only one stage gathers; "A_mine" if there is more than one.
std::string nameInStage(const LoweringState &state, const Stage &stage, llvm::StringRef name);

} // namespace braid
