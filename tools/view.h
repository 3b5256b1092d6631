//===- tools/view.h - prints pages ------------------------------------------------------------===//
#pragma once

#include "api/compile/compile.h"
#include "runtime/check/checker.h"

namespace braid::tools {

/// Each of these prints a page of api/view to stdout.
Status printPredicted(const Compiled &compiled);
Status printCounterexample(const Compiled &compiled, const CheckOptions &options);

} // namespace braid::tools
