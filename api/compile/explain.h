//===- api/compile/explain.h - explains how a program was lowered -----------------------------===//
#pragma once

#include "api/compile/compile.h"

namespace braid {

/// Returns one line of an explanation, with its line break: the subject, its value, and the reason.
std::string explainLine(llvm::StringRef what, const std::string &value, const std::string &why);

/// Adds a warning to the source's diags for each stage of a lowered program that hides none of its
/// transfers, unless `given`, the configuration of the lowering, asks for that.
void warnOfNoOverlap(const Compiled &compiled, const Configurations &given);

} // namespace braid
