//===- lowering/peel_own_step.cpp - computes a rank's own block before the loop --------------===//
//
// Step 0 moves nothing, so it becomes straight-line code and the loop loses its condition:
//
//   %C_own = select %C[rank]
//   matmul %C_own, %mine, %B
//   for %i in 1 .. 8 { ... }
//
//===----------------------------------------------------------------------------------------===//

#include "lowering/emit.h"
#include "lowering/passes.h"

namespace braid {
namespace {

/// Moves what the guard holds to where the guard stands.
void dropGuard(Stage &stage) {
  Block &body = stage.loop->body;
  body.splice(stage.guard->getIterator(), stage.guard->thenBlock);
  body.erase(stage.guard->getIterator());
  stage.guard = nullptr;
}

/// Computes the own block where the loop stands, ahead of it.
void emitOwnStep(LoweringState &state, Stage &stage) {
  ProgramBuilder builder = builderFor(state);
  Block &body = state.program->body();
  builder.insertBefore(body, *stage.loop);
  Op *before = &*std::prev(stage.loop->getIterator());
  emitStep(builder, stage, stage.mine, state.program->scalars().rank(),
           [&](const Product &product) { return state.names.global(product.dst->name + "_own"); });
  stage.ownFirst = &*std::next(before->getIterator());
}

} // namespace

bool peelOwnStep(LoweringState &state) {
  bool changed = false;
  for (Stage &stage : state.stages) {
    if (!stage.guard)
      continue;
    if (state.options.schedule != Schedule::None)
      emitOwnStep(state, stage);
    stage.loop->begin = state.program->scalars().constant(1);
    dropGuard(stage);
    changed = true;
  }
  return changed;
}

} // namespace braid
