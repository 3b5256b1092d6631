//===- lowering/lower.h - Fusion -> Program ---------------------------------------------------===//
#pragma once

#include "api/status.h"
#include "lowering/pipeline.h"

#include <functional>

namespace braid {

/// Called after every pass, with the program as it left it.
using AfterPass = std::function<void(const Pass &pass, const Program &program, bool changed)>;

/// Runs `passes` on a verified fusion, and the verifier after each of them. The program is called
/// `<fusion>_<schedule>` if anything is gathered, else `<fusion>_local`; it has concrete shapes and
/// says that it implements the fusion. `module` is the one that holds the fusion.
///
/// What cannot be lowered is reported to `diags`, located at the GEMM, with the axis, the reason
/// and what would be accepted; the status is Unsupported then, and BadInput if an option is at
/// fault. A program that the verifier rejects is a bug in a pass: Internal, naming it.
///
/// `program` is one that some passes have been run on, as printed after any of them: `passes` go on
/// with it. By default they begin.
///
/// A list without insert-transfers gives a program that does not compute the fusion, for reading
/// only.
Result<std::unique_ptr<Program>> lower(const Module &module, const Fusion &fusion,
                                       const PassList &passes, Diagnostics &diags,
                                       const AfterPass &afterPass = {},
                                       std::unique_ptr<Program> program = nullptr);
/// The same with all passes.
Result<std::unique_ptr<Program>> lower(const Module &module, const Fusion &fusion,
                                       const Configurations &options, Diagnostics &diags,
                                       const AfterPass &afterPass = {});

} // namespace braid
