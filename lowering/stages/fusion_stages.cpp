//===- lowering/stages/fusion_stages.cpp - the stages of a fusion, before it is lowered -------===//

#include "lowering/stages/fusion_stages.h"

#include "lowering/passes/passes.h"
#include "lowering/stages/configure_stages.h"
#include "lowering/stages/reduced_rows.h"

namespace braid {

static std::optional<int64_t> rowsInTwoShots(const Fusion &fusion, Stage stage) {
  stage.config.set(Knob::Reduction, schedule::Reduction::TwoShot);
  if (!stage.isTwoShot())
    return std::nullopt;
  countReducedRows(fusion, stage);
  return stage.rows;
}

std::string whyNotOverlapped(const Stage &stage) {
  const std::string &result = resultOf(*stage.gemms.front().node)->name;
  return "%" + result + " is not overlapped: its GEMM begins when all of %" + stage.name().str() +
         " is here, because axis 0 of %" + result + " is not Stream";
}

/// Of more ranks, sums are passed on, and rounded for that.
static bool gemmsMayAdd(const Stage &stage) {
  return stage.isReduction() && stage.steps == 2 && whyNoGemmAdds(stage).empty();
}

std::vector<FusionStage> stagesOf(const Fusion &fusion, Diagnostics &diags) {
  LoweringState state{fusion, {}, diags};
  std::vector<FusionStage> stages;
  if (!findStages(state))
    return stages;
  for (const Stage &stage : state.stages) {
    if (stage.kind == StageKind::Straight)
      continue;
    const bool hasHosts = stage.moves() && !stage.gathersSlices && stage.ranksPerHost > 1 &&
                          stage.ranksPerHost < fusion.ranks();
    const bool isWhole = stage.isGather() && !stage.isStreamed;
    stages.push_back({stage.tensors(), stage.isReduction(), stage.rows,
                      rowsInTwoShots(fusion, stage), stage.moves(), stage.gathersSlices, hasHosts,
                      fusion.ranksPerHost() == fusion.ranks(), gemmsMayAdd(stage),
                      isWhole ? whyNotOverlapped(stage) : ""});
  }
  return stages;
}

} // namespace braid
