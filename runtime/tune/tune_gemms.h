//===- runtime/tune/tune_gemms.h - one rank measures how all multiply -------------------------===//
#pragma once

#include "runtime/execute/compute.h"
#include "runtime/execute/control_plane.h"

namespace braid {

/// Has every GEMM that `plan` warms tuned, and the choices set; to be called before warm().
/// Rank 0 measures for all ranks whose devices have its key: they multiply alike then, and need not
/// measure side by side. What rank 0 does not multiply is measured where it is needed, and so is
/// everything on a rank whose device is another one.
///
/// Collective where devices have something to tune, which they have on all ranks or on none: one
/// exchange, whatever is multiplied where. Blocks; a rank that fails does not come to it.
Status tuneGemms(const Plan &plan, GemmTuning &tuning, ControlPlane &control);

} // namespace braid
