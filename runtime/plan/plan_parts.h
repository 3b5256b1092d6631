//===- runtime/plan/plan_parts.h - the GEMMs of a Plan alone, and its transfers alone ---------===//
//
// Limits of a Plan that is timed: what is left of it if the rest cost nothing. Each part runs by
// itself, with the streams of the whole, and with the events that order them; its results mean
// nothing. A GEMM that stores at a peer is both: it stores here, and a copy goes there.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "runtime/plan/plan.h"

#include "llvm/ADT/STLFunctionalExtras.h"

namespace braid {

using AddCommand = llvm::function_ref<void(const Command &, std::vector<Command> &)>;
/// Replaces each command by what `add` appends for it. Buffers end where they did: before the
/// command that now stands there.
void rewriteCommands(Plan &plan, AddCommand add);

/// Its matmuls. They meet no peer. What lies in an arena becomes a parameter at the end of
/// `inputs`, or a result at the end of `outputs` if a GEMM writes it: so the caller says what the
/// GEMMs read, and zeros, which are multiplied faster, are not left to chance.
Plan gemmsOf(Plan plan);

/// Its copies, local ones too, sums of what they bring, signals and awaits. Ranks meet as they do
/// in the whole.
Plan transfersOf(Plan plan);

} // namespace braid
