//===- lowering/passes/pass.h - one step from a fusion to its host program --------------------===//
#pragma once

#include "llvm/ADT/StringRef.h"

namespace braid {

struct LoweringState;

/// A pass has no state of its own: what it knows is in the LoweringState. It leaves a valid program
/// or reports errors, never both; and a pass that says it changed nothing has changed nothing.
struct Pass {
  llvm::StringRef name;    ///< as in `--print-after`
  llvm::StringRef summary; ///< one line
  /// True if the program changed.
  bool (*run)(LoweringState &state);
};

} // namespace braid
