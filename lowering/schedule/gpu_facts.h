//===- lowering/schedule/gpu_facts.h - what was measured on one GPU model ---------------------===//
//
// Numbers that lowering and the choice of a schedule start from, and that no device tells. They
// steer what is tried and for how long; what is chosen is measured on the machine at hand.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

namespace braid {

struct GpuFacts {
  /// The factor by which chunks take longer that engines copy to several peers, once ranks have
  /// drifted apart. Source: 1.23 to 1.28 measured on 4 GPUs (docs/cost-model.md).
  double driftedFactor;
  /// A run of more operations than this draws so much power that clocks fall, and go on falling for
  /// `steadyUs`. Source: tools/bench/README.md.
  double manyOperations;
  double steadyUs;
};

inline constexpr GpuFacts kH200 = {
    .driftedFactor = 1.2,
    .manyOperations = 5e10,
    .steadyUs = 100e3,
};

} // namespace braid
