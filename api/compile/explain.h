//===- api/compile/explain.h - how a program was lowered, and who said so -------------------===//
#pragma once

#include "api/compile/compile.h"

namespace braid {

/// One line of an explanation, with its end: what there is, which value, and why.
std::string explainLine(llvm::StringRef what, const std::string &value, const std::string &why);

/// Every knob, with who chose it: `chosen` by measuring, `given` by the user, or nobody; and which
/// stages hide what they move, with the reason where one does not. A program that was read was not
/// lowered. Lines, as `braid run --explain` prints them.
std::string explainProgram(const Compiled &compiled, const Configurations &given,
                           const Configurations *chosen);

} // namespace braid
