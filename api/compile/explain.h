//===- api/compile/explain.h - how a program was lowered, and who said so -------------------===//
#pragma once

#include "api/compile/compile.h"

namespace braid {

/// One line of an explanation, with its end: what there is, which value, and why.
std::string explainLine(llvm::StringRef what, const std::string &value, const std::string &why);

/// Adds a warning to the source's diags for each stage of a lowered program that hides none of what
/// it moves, though `given`, by which it was lowered, does not ask for that.
void warnOfNoOverlap(const Compiled &compiled, const Configurations &given);

} // namespace braid
