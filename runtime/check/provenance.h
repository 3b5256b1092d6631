//===- runtime/check/provenance.h - compares outputs with their definition --------------------===//
#pragma once

#include "ir/fusion.h"
#include "runtime/check/history.h"

namespace braid::checker {

/// Executes the history symbolically in `order`, in which it can run; without races, every order
/// has the same result. Reports the first read of unwritten bytes, by a command or the caller, and
/// the first output block that is not computed exactly once from the correct blocks of its run. The
/// latter requires a definition that can be followed; otherwise `notChecked` states the reason. See
/// CheckOptions for `ordered`.
std::optional<Violation> findWrongResult(const History &history, llvm::ArrayRef<EventId> order,
                                         const Fusion *fusion, bool ordered,
                                         std::string &notChecked, const ProgressFn &progress);

} // namespace braid::checker
