//===- runtime/plan/plan_parts.h - isolates a Plan's GEMMs or its transfers -------------------===//
//
// The time of each part is a lower bound on the time of the Plan: the time if the other part were
// free. A part keeps the Plan's streams and the events that order them; its results are
// meaningless. A GEMM that stores into peer memory appears in both parts: as a GEMM with a local
// result in one part, and as a copy of that result to the peer in the other.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "runtime/plan/plan.h"

#include "llvm/ADT/STLFunctionalExtras.h"

namespace braid {

using AddCommand = llvm::function_ref<void(const Command &, std::vector<Command> &)>;
/// Replaces each command with the commands that `add` appends. Buffers released before a command
/// are then released directly before the command's replacement.
void rewriteCommands(Plan &plan, AddCommand add);

/// Returns the GEMMs of a Plan, which need no peer. Arena buffers are appended to `outputs` if a
/// command writes them, otherwise to `inputs`, so that the caller controls the data that the GEMMs
/// read: multiplying zeros, for example, is faster.
Plan gemmsOf(Plan plan);

/// Returns the transfers of a Plan: copies (including local ones), sums of transferred parts,
/// messages, signals and awaits. Ranks synchronize as in the Plan.
Plan transfersOf(Plan plan);

} // namespace braid
