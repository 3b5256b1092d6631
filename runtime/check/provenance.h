//===- runtime/check/provenance.h - compares outputs with their definition --------------------===//
#pragma once

#include "ir/fusion.h"
#include "runtime/check/history.h"

namespace braid::checker {

/// Executes the history symbolically in `order`, a valid execution order; in the absence of races,
/// every valid order gives the same result. Reports the first read of unwritten bytes, by a command
/// or the caller, or the first output block that is not computed exactly once from the correct
/// blocks of its run. Outputs are checked only if their definition can be followed; otherwise
/// `notChecked` is set to the reason. See CheckOptions for `ordered`.
std::optional<Violation> findWrongResult(const History &history, llvm::ArrayRef<EventId> order,
                                         const Fusion *fusion, bool ordered,
                                         std::string &notChecked, const ProgressFn &progress);

} // namespace braid::checker
