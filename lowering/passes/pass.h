//===- lowering/passes/pass.h - one step in lowering a fusion to a host program ---------------===//
#pragma once

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

namespace braid {

struct LoweringState;

/// A stateless pass; all data is in the LoweringState. A pass either leaves a valid program or
/// reports errors, never both. A pass that returns false has not changed the program.
struct Pass {
  llvm::StringRef name; ///< the name for `--print-after`
  /// Returns true if the program changed.
  bool (*run)(LoweringState &state);
};

/// Returns the passes in the order in which they run.
llvm::ArrayRef<Pass> allPasses();

} // namespace braid
