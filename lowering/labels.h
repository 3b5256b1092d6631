//===- lowering/labels.h - what passes know, as labels in the program -------------------------===//
//
// Between two passes everything that the second has to know stands in the program: in its header
// the passes that have run and how each stage is lowered, and on nodes what they are to a stage.
//
//   program @ag_matmul_pairwise implements @ag_matmul mesh [0 .. 8)
//       (%A: bf16[1, 128, 1024], %B: bf16[1024, 1024]) -> (%C: bf16[8, 128, 1024])
//       lowered by find_moves, form_pipelines {
//     @C whole: %A_all = allocate symmetric bf16[8, 128, 1024]
//     @C first: @C steps: for %i in 0 .. 8 {
//
// A stage is called by the first tensor that it makes. So a text that was printed after any pass
// can be read back, and the remaining passes run on it.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "api/status.h"
#include "lowering/passes/pass.h"
#include "lowering/state.h"

namespace braid {

/// Says in state.program that `pass` has run, and labels its nodes, in place of the labels that are
/// there.
void writeLabels(const Pass &pass, LoweringState &state);

/// Fills what the passes before have found out into `state`, which has a program that implements
/// its fusion. False after an error, located at the label or at the program, if the labels are not
/// such as the passes in the program's header leave.
bool readLabels(LoweringState &state);

/// Lays `options` over what the header of a program that some passes have run on says of its
/// stages. BadInput if that is no configuration.
Status overlay(Program &program, const Configurations &options);

/// Removes all labels.
void dropLabels(Program &program);

/// "form_pipelines", as a program's header says it.
std::string wordOf(llvm::StringRef pass);

} // namespace braid
