//===- lowering/passes/hoist_syncs.cpp - one fork before a pipeline, one join after it --------===//
//
// assign-streams makes every step wait for the previous step through the caller's stream. However,
// the steps of a stage use different slices, or are ordered by their stream. Therefore, steps only
// need to wait for the caller's previous work, and the caller's later work for all steps:
//
//   for %j in 0 .. 4 {
//     set_current_stream stream(%j)
//     synchronize %main
//   }
//   ... all steps ...
//   set_current_stream %main
//   for %j in 0 .. 4 {
//     synchronize stream(%j)
//   }
//
// The fork must be a separate loop before the first step: if a later step synchronized with %main,
// it would also wait for all steps that had already joined %main.
//
//===----------------------------------------------------------------------------------------===//

#include "lowering/emit.h"
#include "lowering/passes/passes.h"

#include "llvm/Support/ErrorHandling.h"

namespace braid {
namespace {

/// Returns the caller's stream, as named in the steps' synchronize nodes.
StreamRef mainOf(const Stage &stage) {
  for (auto [block, op] : stage.syncs)
    if (const auto *set = llvm::dyn_cast<SetCurrentStreamOp>(op))
      return set->stream;
  llvm_unreachable("every step ends on the caller's stream");
}

/// Emits `for %j in 0 .. streams`, sets the insertion point inside, and returns stream(%j).
StreamRef loopOverStreams(LoweringState &state, const Stage &stage, ProgramBuilder &builder) {
  ScalarContext &scalars = state.program->scalars();
  ForOp *loop =
      builder.forLoop(state.names.local("j"), scalars.constant(0), scalars.constant(stage.streams));
  builder.insertAtEnd(loop->body);
  return {nullptr, loop->index};
}

/// Emits a fork before `first` and a join after `last`, both of which are top-level nodes.
void hoist(LoweringState &state, const Stage &stage, Op &first, Op &last) {
  ProgramBuilder builder = builderFor(state);
  builder.setLocation(stage.location());
  Block &body = state.program->body();
  StreamRef main = mainOf(stage);

  builder.insertBefore(body, first);
  builder.setCurrentStream(loopOverStreams(state, stage, builder));
  builder.synchronize(main);

  builder.insertAfter(body, last);
  builder.setCurrentStream(main);
  builder.synchronize(loopOverStreams(state, stage, builder));
}

} // namespace

bool hoistSyncs(LoweringState &state) {
  bool changed = false;
  for (Stage &stage : state.stages) {
    if (stage.syncs.empty())
      continue;
    hoist(state, stage, stage.ownStream ? *stage.ownStream : stage.top(), stage.top());
    if (stage.gather && !stage.chunkLoop)
      hoist(state, stage, *stage.gather, *stage.gather);
    for (auto [block, op] : stage.syncs)
      block->erase(op->getIterator());
    stage.syncs.clear();
    changed = true;
  }
  return changed;
}

} // namespace braid
