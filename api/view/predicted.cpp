//===- api/view/predicted.cpp - pages that show predictions -----------------------------------===//

#include "api/view/pages.h"
#include "ir/failure.h"

#include <fmt/format.h>

namespace braid::view {

Result<Page> predictedPage(const PrintedProgram &program, const CostModel &model,
                           const SimulationOptions &options) {
  const Simulation simulation = BRAID_TRY(simulate(program.plans, model, options));
  const llvm::ArrayRef<Plan> plans = shownPlans(program.plans, simulation);
  const auto ranks = static_cast<int64_t>(program.plans.size());
  Page page = pageOf(program, plans);
  Timing timing{.name = "predicted"};
  for (const std::vector<SimulatedSpan> &rank : simulation.spans) {
    std::vector<Span> &spans = timing.spans.emplace_back();
    for (const SimulatedSpan &span : rank)
      spans.push_back({span.beginUs, span.endUs});
  }
  findCriticalPath(page, timing);
  page.subtitle = fmt::format("predicted for {} ranks: {}, {}", ranks, model.machine,
                              options.launchMode == LaunchMode::Graph ? "replayed as a graph"
                                                                      : "issued eagerly");
  page.findings.push_back(fmt::format("A run takes {}, of which {} is spent before the first "
                                      "command is issued and after the last one ends; {}.",
                                      timeText(simulation.us, page.unit),
                                      timeText(simulation.us - timing.total, page.unit),
                                      whatLimits(timing, page.unit)));
  if (ranks > model.ranks)
    page.findings.push_back(
        fmt::format("The machine was measured with {} ranks; the same figures are used for {}.",
                    model.ranks, ranks));
  page.timings.push_back(std::move(timing));
  return page;
}

} // namespace braid::view
