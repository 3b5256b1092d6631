//===- runtime/check/provenance.h - is every output what the definition says? -----------------===//
#pragma once

#include "ir/fusion.h"
#include "runtime/check/history.h"

namespace braid::checker {

/// Follows blocks symbolically through `order`, in which the history can run; without races, every
/// order gives the same. Reports the first read of bytes that nothing wrote, by a command or the
/// caller, and the first output block that is not computed exactly once from exactly the right
/// blocks of its run; the latter only if there is a definition that can be followed (else
/// `notChecked` says why). `ordered`: see CheckOptions.
std::optional<Violation> findWrongResult(const History &history, llvm::ArrayRef<EventId> order,
                                         const Fusion *fusion, bool ordered,
                                         std::string &notChecked, const ProgressFn &progress);

} // namespace braid::checker
