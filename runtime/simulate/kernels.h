//===- runtime/simulate/kernels.h - which commands of a Plan one kernel does ------------------===//
#pragma once

#include "runtime/execute/transfer_mode.h"
#include "runtime/plan/plan.h"

#include <vector>

namespace braid::simulator {

/// For each command of a Plan.
struct Kernels {
  /// The number of commands from this one on that begin and end together: copies that one kernel
  /// makes, with the signals after them and the sum that it adds on the way. Else 1.
  std::vector<uint32_t> together;
  /// The multiple of OperationCosts::launchUs that the command takes more: 1 for a signal or an
  /// await that is launched by itself, -1 for a copy by a kernel that has begun before.
  std::vector<int8_t> launches;
};
Kernels findKernels(const Plan &plan, TransferMode transferMode);

} // namespace braid::simulator
