//===- lowering/lower.h - Fusion -> Program ---------------------------------------------------===//
#pragma once

#include "api/status.h"
#include "ir/module.h"
#include "lowering/passes/pass.h"
#include "lowering/schedule/configuration.h"

#include <functional>

namespace braid {

/// A callback that lower() calls after every pass with the resulting program.
using AfterPass = std::function<void(const Pass &pass, const Program &program, bool changed)>;

/// Lowers a verified fusion in `module`, and runs the verifier after each pass. The program has
/// concrete shapes and implements `fusion`. Its name is `<fusion>_<schedule>` if ranks communicate,
/// otherwise `<fusion>_local`. If `isReproducible`, rejects schedules that do not add partial
/// results in rank order.
///
/// If the fusion cannot be lowered, reports the axis, the reason and accepted alternatives to
/// `diags`, at the node's location, and fails with Unsupported, or with BadInput if an option is
/// the cause. Fails with Internal, naming the pass, if the verifier rejects a program.
Result<std::unique_ptr<Program>> lower(const Module &module, const Fusion &fusion,
                                       const Configurations &options, Diagnostics &diags,
                                       const AfterPass &afterPass = {},
                                       bool isReproducible = false);

} // namespace braid
