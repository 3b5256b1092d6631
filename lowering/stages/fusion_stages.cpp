//===- lowering/stages/fusion_stages.cpp - the stages of a fusion, before it is lowered -------===//

#include "lowering/stages/fusion_stages.h"

#include "lowering/passes/passes.h"

namespace braid {

std::vector<FusionStage> stagesOf(const Fusion &fusion, Diagnostics &diags) {
  LoweringState state{fusion, {}, diags};
  std::vector<FusionStage> stages;
  if (!findStages(state))
    return stages;
  for (const Stage &stage : state.stages) {
    if (stage.kind == StageKind::Straight)
      continue;
    stages.push_back({stage.tensors(), stage.isReduction(), stage.rows});
  }
  return stages;
}

} // namespace braid
