//===- runtime/tune/tune_gemms.h - measures GEMMs on one rank for all ranks -------------------===//
#pragma once

#include "runtime/execute/compute.h"
#include "runtime/execute/control_plane.h"

namespace braid {

/// Policy for GEMMs that no job has measured yet.
enum class UnknownGemms : uint8_t {
  Measure, ///< takes up to 0.6 s per GEMM, and about 1 s per program
  Guess,   ///< uses the library's heuristic until a later job measures the GEMM
};

/// Tunes every distinct GEMM of `plan`, and sets the chosen algorithms. Must be called before
/// warm(). Rank 0 measures for all ranks whose devices have the same key, so that these ranks use
/// the same algorithms and do not disturb each other's measurements. Every other rank measures only
/// the GEMMs that rank 0 does not execute, or all of its GEMMs if its device has a different key.
///
/// Collective, with a single exchange. Must be called on all ranks or on none, depending on whether
/// the devices have a GemmTuning. Blocks. A rank that fails does not join the exchange.
Status tuneGemms(const Plan &plan, GemmTuning &tuning, ControlPlane &control,
                 UnknownGemms unknown = UnknownGemms::Measure);

} // namespace braid
