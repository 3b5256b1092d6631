//===- backends/cuda/waiting_budget.cpp - multiprocessors on which kernels may wait -----------===//

#include "backends/cuda/waiting_budget.h"

#include "runtime/execute/peer_memory.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <map>

namespace braid {

/// Returns an upper bound on the blocks that any launch for this batch can use. The batch may be
/// split into several launches.
static int workersOf(const Plan &plan, size_t first, size_t end) {
  const cuda::CopyAndSignalBlocks all;
  int64_t copies = 0, tiles = 0, adders = 0;
  for (size_t i = first; i < end; ++i) {
    const Command &command = plan.commands[i];
    if (command.kind == CommandKind::Copy) {
      ++copies;
      tiles += (command.dst.bytes + cuda::kTileBytes - 1) / cuda::kTileBytes;
    } else if (command.kind == CommandKind::Sum && i != first) {
      adders = plan.sums[command.sum].elements() / cuda::kThreadsOfAdder + 1;
    }
  }
  return static_cast<int>(
      std::max(std::min<int64_t>(tiles, copies == 1 ? all.ofOne : all.ofSeveral),
               std::min<int64_t>(adders, all.ofSeveral)));
}

/// Copy engines occupy no multiprocessors, and kernels that wait or signal for copy engines have
/// one warp.
WaitingKernels waitingKernels(const Plan &plan, TransferMode mode) {
  std::vector<bool> works(plan.streams.size(), false), waits = works;
  WaitingKernels kernels;
  for (size_t first = 0, end; first < plan.commands.size(); first = end) {
    end = endOfBatch(plan, first);
    const uint32_t stream = plan.commands[first].stream;
    for (size_t i = first; i < end; ++i) {
      const CommandKind kind = plan.commands[i].kind;
      waits[stream] = waits[stream] || kind == CommandKind::Await;
      const bool isWork = kind == CommandKind::Copy || (kind == CommandKind::Sum && i != first);
      works[stream] = works[stream] || (isWork && mode.copies == CopyBy::Kernel);
    }
    if (mode.copies == CopyBy::Kernel)
      kernels.workers = std::max(kernels.workers, workersOf(plan, first, end));
  }
  for (size_t stream = 0; stream < works.size(); ++stream) {
    kernels.working += works[stream];
    kernels.onlyWaiting += waits[stream] && !works[stream];
  }
  return kernels;
}

LaunchLimits limitsFor(const WaitingKernels &kernels, int multiprocessors) {
  LaunchLimits limits;
  if (kernels.working == 0)
    return limits;
  // Excludes the coordinating block of each launch.
  const int share = (multiprocessors - kernels.onlyWaiting) / kernels.working - 1;
  limits.waitsApart = share < 1;
  limits.blocks.ofOne = std::clamp(share, 1, limits.blocks.ofOne);
  limits.blocks.ofSeveral = std::clamp(share, 1, limits.blocks.ofSeveral);
  return limits;
}

/// Leaves an eighth of the GPU free for GEMMs. GEMMs use thread block clusters, whose blocks must
/// all fit in one GPC of the GPU, so a few free multiprocessors would not suffice.
WaitingBudget::WaitingBudget(int multiprocessors)
    : most_(multiprocessors / 2), total_(multiprocessors - multiprocessors / 8) {}

WaitingBudget &WaitingBudget::ofDevice(int device, int multiprocessors) {
  static std::mutex mutex;
  // Never destroyed, because devices may be destroyed at exit.
  static auto &budgets = *new std::map<int, WaitingBudget>;
  std::lock_guard lock(mutex);
  return budgets.try_emplace(device, multiprocessors).first->second;
}

/// Returns the number left for `wanted`. Runs of a program never overlap, even in different lanes.
int WaitingBudget::leftFor(const Reservation &wanted) const {
  std::map<std::pair<const void *, Lane>, int> held;
  for (const Reservation &each : reservations_)
    if (each.program != wanted.program && (each.job != wanted.job || each.lane != wanted.lane)) {
      int &ofLane = held[{each.job, each.lane}];
      ofLane = std::max(ofLane, each.multiprocessors);
    }
  int left = total_;
  for (const auto &[lane, multiprocessors] : held)
    left -= multiprocessors;
  return left;
}

int WaitingBudget::reserve(const void *job, Lane lane, const void *program,
                           const WaitingKernels &kernels) {
  std::lock_guard lock(mutex_);
  Reservation wanted{job, lane, program, 0};
  wanted.multiprocessors =
      std::max(kernels.least(), std::min({kernels.wanted(), most_, leftFor(wanted)}));
  for (Reservation &each : reservations_)
    if (each.program == program && each.lane == lane) {
      each.multiprocessors = std::max(each.multiprocessors, wanted.multiprocessors);
      return each.multiprocessors;
    }
  reservations_.push_back(wanted);
  return wanted.multiprocessors;
}

void WaitingBudget::release(const void *program) {
  std::lock_guard lock(mutex_);
  llvm::erase_if(reservations_, [&](const Reservation &each) { return each.program == program; });
}

} // namespace braid
