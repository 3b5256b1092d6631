//===- lowering/stages/unrolled_steps.h - unrolling the steps of a pipeline -------------------===//
#pragma once

#include "lowering/state.h"

namespace braid {

/// One iteration of a stage's loop, as top-level nodes.
struct UnrolledStep {
  int64_t number;          ///< the value of the loop's index
  std::vector<Op *> nodes; ///< in order; inner loops are also unrolled
  Value *block;            ///< Stage::block in this step
};

/// Unrolls a loop of the stage and inserts the nodes before it. The caller must erase the loop.
std::vector<UnrolledStep> unrollSteps(LoweringState &state, Stage &stage, ForOp &loop);

/// Returns true if the stage has few enough transfers to be unrolled. Otherwise reports an error
/// and returns false.
bool checkUnrolledSize(const Stage &stage, Diagnostics &diags);

} // namespace braid
