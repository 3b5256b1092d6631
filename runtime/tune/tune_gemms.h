//===- runtime/tune/tune_gemms.h - one rank measures how all multiply -------------------------===//
#pragma once

#include "runtime/execute/compute.h"
#include "runtime/execute/control_plane.h"

namespace braid {

/// The treatment of a GEMM that no job has measured yet.
enum class UnknownGemms : uint8_t {
  Measure, ///< takes up to 0.6 s for one, and 1 s for all of a program
  Guess,   ///< multiplied as the library thinks best, until a later job measures it
};

/// Has every GEMM that `plan` warms tuned, and the choices set; to be called before warm().
/// Rank 0 measures for all ranks whose devices have its key: they multiply alike then, and need not
/// measure side by side. What rank 0 does not multiply is measured where it is needed, and so is
/// everything on a rank whose device is another one.
///
/// Collective where devices have something to tune, which they have on all ranks or on none: one
/// exchange, whatever is multiplied where. Blocks; a rank that fails does not come to it.
Status tuneGemms(const Plan &plan, GemmTuning &tuning, ControlPlane &control,
                 UnknownGemms unknown = UnknownGemms::Measure);

} // namespace braid
