//===- lowering/passes/peel_own_step.cpp - computes a rank's own block before the loop --------===//
//
// Step 0 moves nothing, so it becomes straight-line code and the loop loses its condition:
//
//   %C_own = select %C[rank]
//   matmul %C_own, %mine, %B
//   for %i in 1 .. 8 { ... }
//
// A rank that pushes its block multiplies it from where it lies, too. Then nobody reads the staged
// copy, and it goes; unless a later stage takes its steps from the gathered buffer. In an output
// the own step makes that copy.
//
// In a hierarchical order step 0 is that of the own host, which passes its blocks on. There it is
// only the own block's GEMM that goes, and what follows of other hosts' blocks is guarded:
//
//   for %host in 0 .. 2 {
//     %block = select %A_all[(rank + %host * 4) mod 8]
//     if %host != 0 {
//       ... comes over the network, and is multiplied
//     }
//     for %i in 1 .. 4 {
//       ... is passed on
//
//===----------------------------------------------------------------------------------------===//

#include "lowering/emit.h"
#include "lowering/passes/passes.h"

#include "llvm/ADT/STLExtras.h"

namespace braid {
namespace {

/// Moves what the guard holds to where the guard stands.
void dropGuard(Stage &stage) {
  Block &body = stage.loop->body;
  body.splice(stage.guard->getIterator(), stage.guard->thenBlock);
  body.erase(stage.guard->getIterator());
  stage.guard = nullptr;
}

/// A GEMM of the block that came over the network belongs after its transfer. This host's blocks do
/// not come that way, but this rank still passes its block on.
void guardStep(Stage &stage) {
  Block &body = stage.loop->body, &guarded = stage.guard->thenBlock;
  const auto first = std::next(stage.guard->getIterator());
  const auto end = std::find_if(first, body.end(), [&](Op &op) { return &op == stage.relay; });
  guarded.splice(guarded.end(), body, first, end);
}

/// Computes the own block where the loop stands, ahead of it.
void emitOwnStep(LoweringState &state, Stage &stage) {
  ProgramBuilder builder = builderFor(state);
  Block &body = state.program->body();
  builder.insertBefore(body, *stage.loop);
  Op *before = &*std::prev(stage.loop->getIterator());
  emitStep(state, builder, stage, stage.mine, state.program->scalars().rank(),
           [&](const Value &whole) { return state.names.global(whole.name + "_own"); });
  stage.ownFirst = &*std::next(before->getIterator());
}

bool isStagingNeeded(const LoweringState &state, const Stage &stage) {
  const size_t index = static_cast<size_t>(&stage - state.stages.data());
  return stage.mine == stage.staging->dst ||
         (!stage.gatheredOutput() &&
          llvm::any_of(state.stages, [&](const Stage &s) { return s.gatheredBy == index; }));
}

} // namespace

bool peelOwnStep(LoweringState &state) {
  bool changed = false;
  for (Stage &stage : state.stages) {
    if (!stage.guard || !stage.isGather())
      continue;
    if (!stage.multipliesWhole()) {
      emitOwnStep(state, stage);
      if (!isStagingNeeded(state, stage)) {
        state.program->body().erase(stage.staging->getIterator());
        stage.staging = nullptr;
      }
    }
    if (stage.isHierarchical()) {
      guardStep(stage);
    } else {
      stage.loop->begin = state.program->scalars().constant(1);
      dropGuard(stage);
    }
    changed = true;
  }
  return changed;
}

} // namespace braid
