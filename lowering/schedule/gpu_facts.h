//===- lowering/schedule/gpu_facts.h - measurements of one GPU model --------------------------===//
//
// Measured properties that devices do not report. Lowering and schedule selection use them to
// determine which schedules to try and for how long. The final choice is based on measurements on
// the actual machine.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

namespace braid {

struct GpuFacts {
  /// A run with more operations than this draws so much power that GPU clocks drop. The clocks are
  /// steady after `steadyUs` microseconds. Source: tools/bench/README.md.
  double manyOperations;
  double steadyUs;
};

inline constexpr GpuFacts kH200 = {
    .manyOperations = 5e10,
    .steadyUs = 100e3,
};

} // namespace braid
