//===- api/compile/explain.cpp - how a program was lowered, and who said so -----------------===//

#include "api/compile/explain.h"

#include "ir/counted.h"
#include "lowering/stages/fusion_stages.h"

#include <fmt/format.h>

namespace braid {
namespace {

std::string explainKnobs(const Configurations &given, const Configurations *chosen) {
  const Configuration used = chosen ? chosen->all.over(given.all) : given.all;
  const bool isByStage = chosen && !chosen->stages.empty();
  auto why = [&](bool isGiven) {
    return chosen ? "chosen by auto" : isGiven ? "as asked" : "the default";
  };
  std::string text;
  if (!isByStage)
    text += explainLine("schedule", used.preset().str(),
                        why(used.get(presetFields().front()).has_value()));
  for (const KnobRow &row : allKnobs()) {
    if (isByStage && !row.isOfRun())
      continue;
    const std::optional<int64_t> value = used.get(row.knob);
    text += explainLine(row.name, row.str(value ? value : row.fallback), why(value.has_value()));
  }
  for (const Configurations::OfStage &stage : isByStage ? chosen->stages : given.stages)
    text += explainLine("%" + stage.tensor, stage.config.str(),
                        std::string(isByStage ? "chosen by auto" : "as asked") +
                            ", for the stage that makes it");
  return text;
}

/// How many of the stages that move something can hide it, and why others cannot.
std::string explainOverlap(const Fusion &fusion) {
  Diagnostics diags(fusion.name(), "");
  int moving = 0, hidden = 0;
  std::string reasons;
  for (const FusionStage &stage : stagesOf(fusion, diags)) {
    moving += stage.moves;
    hidden += stage.moves && stage.notOverlapped.empty();
    reasons += (reasons.empty() || stage.notOverlapped.empty() ? "" : "; ") + stage.notOverlapped;
  }
  return explainLine("overlap", fmt::format("{} of {}", hidden, counted(moving, "stage")),
                     reasons.empty() ? "all that move something" : reasons);
}

} // namespace

std::string explainLine(llvm::StringRef what, const std::string &value, const std::string &why) {
  return fmt::format("  {:<12}{}: {}\n", what.str(), value, why);
}

std::string explainProgram(const Compiled &compiled, const Configurations &given,
                           const Configurations *chosen) {
  std::string text;
  if (!compiled.isLowered)
    text +=
        explainLine("program", "@" + compiled.program->name(), "read from the file, not lowered");
  if (compiled.isLowered)
    text += explainKnobs(given, chosen);
  if (compiled.isReproducible)
    text += explainLine("same bits", "yes",
                        "as asked: GEMMs do not depend on M, partial results are added in the "
                        "order of ranks");
  if (compiled.isLowered)
    text += explainOverlap(*compiled.fusion);
  return text;
}

} // namespace braid
