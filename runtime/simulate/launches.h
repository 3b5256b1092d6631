//===- runtime/simulate/launches.h - which commands of a Plan one kernel does -----------------===//
#pragma once

#include "runtime/execute/transfer_mode.h"
#include "runtime/plan/plan.h"

#include <vector>

namespace braid::simulator {

/// Of each copy: how many commands from it on are one step of its stream. 1 but for several copies
/// that one kernel makes at the same time, with the signals that it sends when all are done, and
/// for those whose kernel adds what they bring.
std::vector<uint32_t> findTogether(const Plan &plan, TransferMode transferMode);

/// Of each signal and await: whether it takes OperationCosts::launchUs, as the first that a kernel
/// does which copies nothing and adds nothing, or as a memory operation. Copies are those by
/// kernels; between copies by engines nothing does.
std::vector<bool> findLaunches(const Plan &plan, TransferMode transferMode);

/// Of each copy: whether the kernel that makes it has copied and added before, so that it takes no
/// launch.
std::vector<bool> findGoingOn(const Plan &plan, TransferMode transferMode);

} // namespace braid::simulator
