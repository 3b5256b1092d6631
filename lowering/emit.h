//===- lowering/emit.h - nodes that several passes make ---------------------------------------===//
#pragma once

#include "lowering/state.h"

namespace braid {

/// A builder that takes names as given: the passes get them from Names.
ProgramBuilder builderFor(LoweringState &state);

/// Inserts after the allocations and handles that begin the program.
void insertAfterPreamble(ProgramBuilder &builder);

/// Emits `gemm` on `first`, slices or whole. `addend`: what it adds to its result, or null.
MatmulOp *emitGemm(ProgramBuilder &builder, const Gemm &gemm, Value *dst, Value *first,
                   Value *addend = nullptr);

/// Emits a chain of functions; `aliasOf` makes the part of a whole tensor that it is computed on.
void emitPointwise(ProgramBuilder &builder, const Pointwise &pointwise,
                   llvm::function_ref<Value *(Value *)> aliasOf);

/// Emits all that a stage computes of `first`, a part of its operand: the GEMMs, each on that or on
/// what it builds on, and behind them pointwise functions and copies. `aliasOf` makes the part of a
/// whole tensor that belongs to it.
void emitGemms(ProgramBuilder &builder, const Stage &stage, Value *first,
               llvm::function_ref<Value *(Value *)> aliasOf);

/// The same of one step, of each tensor the slice at `slot`. `nameOf` names it.
void emitStep(LoweringState &state, ProgramBuilder &builder, const Stage &stage, Value *block,
              const Scalar *slot, llvm::function_ref<std::string(const Value &)> nameOf);

/// A sum, and behind it the nodes that compute functions of what it has made.
llvm::SmallVector<Op *, 2> withFunctions(Program &program, SumOp &sum);

/// The tensor that a node writes on the spot, or null.
Value *writtenBy(const Op &op);

bool isGemm(const Op &op);
/// A GEMM, or what is computed of its result.
bool computes(const Op &op);

/// "mine" if only one stage gathers; "A_mine" if there is more than one.
std::string nameInStage(const LoweringState &state, const Stage &stage, llvm::StringRef name);

} // namespace braid
