//===- tests/support/check_text.h - compiles and checks generated programs --------------------===//
#pragma once

#include "api/compile/compile.h"

#include <string>

namespace braid::test {

/// Compiles `text` and checks it with one hardware queue per rank, over peer memory and, if the
/// options allow it, over messages. Returns an error unless all checks succeed.
Status checkText(const std::string &text, const CompileOptions &options);

} // namespace braid::test
