//===- lowering/pipeline.h - the passes, in order ---------------------------------------------===//
#pragma once

#include "lowering/passes/pass.h"

namespace braid {

/// Returns the passes in the order in which they run.
llvm::ArrayRef<Pass> allPasses();

} // namespace braid
