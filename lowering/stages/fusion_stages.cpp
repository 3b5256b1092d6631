//===- lowering/stages/fusion_stages.cpp - the stages of a fusion before lowering -------------===//

#include "lowering/stages/fusion_stages.h"

#include "lowering/passes/passes.h"
#include "lowering/stages/configure_stages.h"
#include "lowering/stages/reduced_rows.h"
#include "lowering/stages/reduction.h"

#include "llvm/ADT/STLExtras.h"

namespace braid {

static std::optional<int64_t> rowsInTwoShots(const Fusion &fusion, Stage stage) {
  stage.config.set(Knob::Reduction, schedule::Reduction::TwoShot);
  if (!stage.isTwoShot())
    return std::nullopt;
  countReducedRows(fusion, stage);
  return stage.rows;
}

/// See FusionStage::gemmsMayAdd. With more than two ranks, intermediate sums are forwarded and
/// therefore rounded.
static bool gemmsMayAdd(const Stage &stage) {
  return stage.isReduction() && stage.steps == 2 && canEndInGemm(stage);
}

std::vector<FusionStage> stagesOf(const Fusion &fusion, Diagnostics &diags) {
  LoweringState state{fusion, {}, diags};
  std::vector<FusionStage> stages;
  if (!findStages(state))
    return stages;
  for (const Stage &stage : state.stages) {
    if (stage.kind == StageKind::Straight)
      continue;
    stages.push_back({stage.tensors(), stage.isReduction(), stage.rows,
                      rowsInTwoShots(fusion, stage), stage.moves(), gemmsMayAdd(stage),
                      stage.isShared()});
  }
  return stages;
}

/// If types or knobs prevent GEMMs from overlapping the stage's transfers, returns the reason.
static std::string whyWhole(const Stage &stage) {
  const Configuration &config = stage.config;
  auto value = [&](Knob knob) {
    return rowOf(knob).name + "=" + rowOf(knob).str(config.valueOf(knob));
  };
  if (stage.isGather() && !stage.isStreamed)
    return "axis 0 of %" + stage.result().name +
           " is not Stream, so the GEMM begins only after all of %" + stage.name().str() +
           " has arrived";
  if (stage.isCollective())
    return value(Knob::Transfers);
  if (stage.multipliesWhole())
    return value(Knob::Granularity);
  if (stage.isReduction() && !stage.isScattered() && config.chunks() == 1)
    return "one GEMM computes all partial results before any of them is sent (" +
           value(Knob::Reduction) + ", " + value(Knob::Chunks) + ")" +
           (stage.rows > 1 ? "; use chunks=2" : "");
  return "";
}

std::vector<MovingStage> movingStagesOf(const Fusion &fusion, const Configurations &given) {
  Diagnostics unheard(fusion.name(), "");
  LoweringState state{fusion, given, unheard};
  std::vector<MovingStage> moving;
  if (!findStages(state) || !configureStages(state))
    return moving;
  for (const Stage &stage : state.stages) {
    if (!stage.moves())
      continue;
    Configuration asked = given.all;
    for (const Configurations::OfStage &named : given.stages)
      if (llvm::is_contained(stage.tensors(), named.tensor))
        asked = named.config.over(given.all);
    const bool asksForWhole = asked.granularity() == schedule::Granularity::Whole ||
                              asked.transfers() == schedule::Transfers::Collective;
    moving.push_back({stage.result().name, stage.location(), whyWhole(stage), asksForWhole});
  }
  return moving;
}

} // namespace braid
