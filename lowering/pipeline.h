//===- lowering/pipeline.h - the passes, in order ---------------------------------------------===//
#pragma once

#include "lowering/passes/pass.h"
#include "lowering/schedule/knobs.h"

namespace braid {

/// Returns the passes in the order in which they run.
llvm::ArrayRef<Pass> allPasses();
/// Returns the knobs that a pass reads.
std::vector<Knob> knobsOf(const Pass &pass);

} // namespace braid
