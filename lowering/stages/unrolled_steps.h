//===- lowering/stages/unrolled_steps.h - the steps of a pipeline, written out ----------------===//
#pragma once

#include "lowering/state.h"

namespace braid {

/// One trip of a stage's loop, as top-level nodes.
struct UnrolledStep {
  int64_t number;          ///< the value of the loop's index
  std::vector<Op *> nodes; ///< in order, those of inner loops written out, too
  Value *block;            ///< Stage::block of this step
};

/// Writes the steps out where the stage's loop stands, ahead of it. The loop stays, and is the
/// caller's to erase.
std::vector<UnrolledStep> unrollSteps(LoweringState &state, Stage &stage);
/// The same of the second shot of an all-reduce.
std::vector<UnrolledStep> unrollSumGather(LoweringState &state, Stage &stage);

/// Reports a stage with so many transfers that nobody could read them one by one; true if it is
/// fine.
bool checkUnrolledSize(const Stage &stage, Diagnostics &diags);

} // namespace braid
