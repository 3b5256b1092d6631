//===- lowering/stages/default_schedules.h - schedules for shapes that were not measured ------===//
#pragma once

#include "ir/fusion.h"
#include "lowering/schedule/configuration.h"
#include "lowering/stages/fusion_stages.h"

namespace braid {

/// Returns default schedules for a stage of `fusion` on GPUs that access peers' memory, best first:
/// those that were fastest for similar amounts of arithmetic on 2 and 4 GPUs (docs/performance.md).
/// Lowering may reject any of them. Returns an empty vector for a stage without transfers.
std::vector<Configuration> defaultSchedules(const Fusion &fusion, const FusionStage &stage);

} // namespace braid
