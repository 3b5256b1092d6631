//===- api/compile/explain.h - explains how a program was lowered -----------------------------===//
#pragma once

#include "api/compile/compile.h"

namespace braid {

/// Formats one explanation line, including the newline: the subject, its value, and the reason.
std::string explainLine(llvm::StringRef what, const std::string &value, const std::string &why);

/// Adds a warning to the source's diags for each stage of a lowered program that overlaps none of
/// its transfers, unless the requested schedule `given` rules out overlap for the stage.
void warnOfNoOverlap(const Compiled &compiled, const Configurations &given);

} // namespace braid
