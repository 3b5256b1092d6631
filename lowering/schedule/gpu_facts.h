//===- lowering/schedule/gpu_facts.h - measurements of one GPU model --------------------------===//
//
// Measured properties that no device reports. Lowering and schedule selection use these properties
// to determine which schedules are tried and for how long. The final choice is measured on the
// actual machine.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

namespace braid {

struct GpuFacts {
  /// A run with more operations than this draws so much power that clocks drop, and take `steadyUs`
  /// to settle. Source: tools/bench/README.md.
  double manyOperations;
  double steadyUs;
};

inline constexpr GpuFacts kH200 = {
    .manyOperations = 5e10,
    .steadyUs = 100e3,
};

} // namespace braid
