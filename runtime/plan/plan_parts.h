//===- runtime/plan/plan_parts.h - the GEMMs of a Plan alone, and its transfers alone ---------===//
//
// The time of each part is a lower bound for the time of the Plan, as if the other part cost
// nothing. A part keeps the Plan's streams and the events that order them; its results are
// meaningless. A GEMM that stores into peer memory is in both parts: it stores locally in one, and
// a copy transfers its result in the other.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "runtime/plan/plan.h"

#include "llvm/ADT/STLFunctionalExtras.h"

namespace braid {

using AddCommand = llvm::function_ref<void(const Command &, std::vector<Command> &)>;
/// Replaces each command by those that `add` appends for it. Releases of buffers keep their place
/// before the replaced command.
void rewriteCommands(Plan &plan, AddCommand add);

/// Returns the GEMMs of a Plan, which need no peer. Buffers in an arena become parameters at the
/// end of `inputs`, or results at the end of `outputs` if a GEMM writes them. So the caller
/// determines what the GEMMs read: zeros, for example, are multiplied faster.
Plan gemmsOf(Plan plan);

/// Returns the transfers of a Plan: its copies, local ones included, the sums of the transferred
/// parts, signals and awaits. Ranks synchronize as in the Plan.
Plan transfersOf(Plan plan);

} // namespace braid
