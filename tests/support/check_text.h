//===- tests/support/check_text.h - what generated programs have to live up to ----------------===//
#pragma once

#include "api/compile/compile.h"

#include <string>

namespace braid::test {

/// Compiles `text` and checks it with one hardware queue a rank, over peers' memory and, if the
/// options would do for it, over messages. Ok if everything was proved, the result included; else
/// what was not.
Status checkText(const std::string &text, const CompileOptions &options);

} // namespace braid::test
