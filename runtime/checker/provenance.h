//===- runtime/checker/provenance.h - is every output what the definition says? ---------------===//
#pragma once

#include "ir/fusion.h"
#include "runtime/checker/history.h"

namespace braid::checker {

/// Follows blocks symbolically through `order`, in which the history can run; without races,
/// every order gives the same. Reports the first output block that is not computed exactly once
/// from exactly the right blocks of its run, and the first read of bytes that nothing wrote. What
/// cannot be followed (`notChecked` says why) is neither proved nor refuted.
std::optional<Violation> findWrongResult(const History &history, llvm::ArrayRef<EventId> order,
                                         const Fusion &fusion, std::string &notChecked);

} // namespace braid::checker
