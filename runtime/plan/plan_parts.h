//===- runtime/plan/plan_parts.h - isolates a Plan's GEMMs or its transfers -------------------===//
//
// A Plan has two parts, its GEMMs and its transfers, which can be timed separately. The time of
// each part is a lower bound on the time of the Plan, because a part runs as if the other part took
// no time. Each part keeps the Plan's streams and the events that order them, but computes
// meaningless results. A GEMM that stores into peer memory appears in both parts: as a GEMM with a
// local result in one part, and as a copy of that result to the peer in the other.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "runtime/plan/plan.h"

#include "llvm/ADT/STLFunctionalExtras.h"

namespace braid {

using AddCommand = llvm::function_ref<void(const Command &, std::vector<Command> &)>;
/// Replaces each command with the commands that `add` appends. A buffer released before a command
/// is then released directly before the replacement of that command.
void rewriteCommands(Plan &plan, AddCommand add);

/// Returns the GEMMs of a Plan, which do not access peers. Appends each arena buffer to `outputs`
/// if a command writes the buffer, and otherwise to `inputs`, so that the caller controls the input
/// values, which affect the speed of GEMMs.
Plan gemmsOf(Plan plan);

/// Returns the transfers of a Plan: copies (including local ones), sums of transferred parts,
/// messages, signals and awaits. Ranks synchronize as in the Plan.
Plan transfersAlone(Plan plan);

} // namespace braid
