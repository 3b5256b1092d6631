//===- api/autotune/default_schedules.h - schedules for shapes that were not measured ---------===//
#pragma once

#include "ir/fusion.h"
#include "lowering/schedule/configuration.h"
#include "lowering/stages/fusion_stages.h"

namespace braid {

/// The schedules for a stage of `fusion` on GPUs that reach their peers' memory, the best first:
/// those that were fastest for about as much arithmetic on 2 and on 4 GPUs (docs/performance.md).
/// A fusion may refuse any of them. None for a stage without transfers.
std::vector<Configuration> defaultSchedules(const Fusion &fusion, const FusionStage &stage);

} // namespace braid
