//===- lowering/lower.h - Fusion -> Program ---------------------------------------------------===//
#pragma once

#include "api/status.h"
#include "ir/module.h"
#include "lowering/passes/pass.h"
#include "lowering/schedule/configuration.h"

#include <functional>

namespace braid {

/// Called after every pass, with the program as it left it.
using AfterPass = std::function<void(const Pass &pass, const Program &program, bool changed)>;

/// Lowers a verified fusion, and runs the verifier after each pass. The program is called
/// `<fusion>_<schedule>` if anything is gathered, else `<fusion>_local`; it has concrete shapes and
/// says that it implements the fusion. `module` is the one that holds the fusion. Where results are
/// to be reproducible, schedules that give other bits are refused.
///
/// A fusion that cannot be lowered is reported to `diags`, located at the GEMM, with the axis, the
/// reason and what would be accepted; the status is then Unsupported, or BadInput if an option is
/// at fault. A program that the verifier rejects is a bug in a pass: Internal, naming it.
Result<std::unique_ptr<Program>> lower(const Module &module, const Fusion &fusion,
                                       const Configurations &options, Diagnostics &diags,
                                       const AfterPass &afterPass = {},
                                       bool isReproducible = false);

} // namespace braid
