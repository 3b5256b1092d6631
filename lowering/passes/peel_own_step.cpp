//===- lowering/passes/peel_own_step.cpp - computes the local block before the loop -----------===//
//
// Step 0 moves no data, so it is peeled off, and the loop needs no condition:
//
//   %C_own = select %C[rank]
//   matmul %C_own, %mine, %B
//   for %i in 1 .. 8 { ... }
//
// If a rank pushes its local block, its local GEMM reads the input directly. The staged copy is
// then unused, and is removed unless a later stage also reads the gathered buffer. If the gathered
// buffer is an output, the local step makes the copy.
//
// In the hierarchical order, step 0 handles the local host, whose ranks exchange their blocks. Only
// the local block's GEMM is then peeled off, and work on blocks from other hosts is guarded:
//
//   for %host in 0 .. 2 {
//     %block = select %A_all[(rank + %host * 4) mod 8]
//     if %host != 0 {
//       ... received over the network, and multiplied
//     }
//     for %i in 1 .. 4 {
//       ... forwarded
//
//===----------------------------------------------------------------------------------------===//

#include "lowering/emit.h"
#include "lowering/passes/passes.h"

#include "llvm/ADT/STLExtras.h"

namespace braid {
namespace {

/// Replaces the guard with its contents.
void dropGuard(Stage &stage) {
  Block &body = stage.loop->body;
  body.splice(stage.guard->getIterator(), stage.guard->thenBlock);
  body.erase(stage.guard->getIterator());
  stage.guard = nullptr;
}

/// Guards the GEMM for a block received over the network, together with the transfer. Blocks from
/// the local host need no network transfer, but this rank still forwards its local block.
void guardStep(Stage &stage) {
  Block &body = stage.loop->body, &guarded = stage.guard->thenBlock;
  const auto first = std::next(stage.guard->getIterator());
  const auto end = std::find_if(first, body.end(), [&](Op &op) { return &op == stage.relay; });
  guarded.splice(guarded.end(), body, first, end);
}

/// Emits the GEMM for the local block before the loop.
struct OwnStepEmitter : Emitter {
  using Emitter::Emitter;
  void run(Stage &stage) {
    builder_.insertBefore(body_, *stage.loop);
    Op *before = &*std::prev(stage.loop->getIterator());
    emitStep(stage, stage.mine, scalars_.rank(),
             [&](const Value &whole) { return global(whole.name + "_own"); });
    stage.ownFirst = &*std::next(before->getIterator());
  }
};

bool isStagingNeeded(const LoweringState &state, const Stage &stage) {
  const size_t index = static_cast<size_t>(&stage - state.stages.data());
  return stage.mine == stage.staging->dst ||
         (stage.reshards.empty() &&
          llvm::any_of(state.stages, [&](const Stage &s) { return s.gatheredBy == index; }));
}

} // namespace

bool peelOwnStep(LoweringState &state) {
  bool changed = false;
  for (Stage &stage : state.stages) {
    if (!stage.guard || !stage.isGather())
      continue;
    if (!stage.multipliesWhole()) {
      OwnStepEmitter(state).run(stage);
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
