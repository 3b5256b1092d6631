//===- runtime/check/provenance.h - compares outputs with their definition --------------------===//
#pragma once

#include "ir/fusion.h"
#include "runtime/check/history.h"

namespace braid::checker {

/// Executes the history symbolically in `order`, a valid order of execution; without races, every
/// valid order has the same result. Reports the first read of unwritten bytes, by a command or the
/// caller, and the first output block that is not computed exactly once from the correct blocks of
/// its run. The second check needs a definition that can be followed; otherwise `notChecked` says
/// why not. See CheckOptions for `ordered`.
std::optional<Violation> findWrongResult(const History &history, llvm::ArrayRef<EventId> order,
                                         const Fusion *fusion, bool ordered,
                                         std::string &notChecked, const ProgressFn &progress);

} // namespace braid::checker
