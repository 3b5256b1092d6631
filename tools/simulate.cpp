//===- tools/simulate.cpp - `braid simulate` --------------------------------------------------===//

#include "api/autotune/candidates.h"
#include "api/simulate/machines.h"
#include "api/simulate/simulate_program.h"
#include "ir/failure.h"
#include "ir/printable.h"
#include "runtime/json.h"
#include "runtime/memory_limit.h"
#include "tools/command.h"
#include "tools/step_progress.h"

#include "llvm/Support/raw_ostream.h"

#include <fmt/format.h>

namespace braid::tools {
namespace {

struct SimulateFlags {
  SourceFlags source;
  std::string machine = shippedMachines().front().name;
  bool json = false;
};

constexpr const char *kSimulateFooter = R"(
Predicts the time of a run on a machine that need not be this one. E measures how well communication
is hidden: the time of all GEMMs alone, or of everything else alone if that is longer, divided by
the time of the run.

  braid simulate examples/mlp.braid --ranks 8
  braid simulate examples/ag_matmul.braid --set M=32768 --set K=16384 --set N=8192 --schedule auto
  for n in 2 4 8; do braid simulate examples/ag_matmul.braid --ranks $n --json; done)";

void addFlags(CLI::App &app, SimulateFlags &flags) {
  flags.source.isRun = true;
  flags.source.addTo(app);
  std::string names;
  for (const ShippedMachine &machine : shippedMachines())
    names += machine.name + "|";
  addText(app, "--machine", flags.machine, names + "FILE",
          "machine to predict for; FILE is written by braid calibrate (default: " + flags.machine +
              ")");
  app.add_flag("--json", flags.json, "print the prediction as JSON");
  app.footer(kSimulateFooter);
}

/// Returns the prediction for --schedule or, for `auto`, one prediction per candidate, best first.
Result<std::vector<PredictedSchedule>> predict(const SimulateFlags &flags, Source &source,
                                               const CostModel &model) {
  StepProgress progress("simulate");
  const ProgressFn listener = std::ref(progress);
  CompileOptions options = BRAID_TRY(flags.source.toOptions());
  const Configuration &run = options.schedule.all;
  options.transport = transportOf(run, Transport::PeerMemory);
  if (options.isAuto)
    return predictSchedules(source, options, model, listener);
  const Compiled compiled = BRAID_TRY(compile(source, options));
  const std::vector<Plan> plans = BRAID_TRY(plansToSimulate(compiled, 0, listener));
  MachinePrediction prediction =
      BRAID_TRY(simulateProgram(plans, model, {launchModeOf(run), transferModeOf(run)}));
  return std::vector<PredictedSchedule>{{options.schedule, std::move(prediction)}};
}

// -- Printing. --

void print(llvm::ArrayRef<PredictedSchedule> rows, const CostModel &model) {
  const MachinePrediction &best = rows.front().prediction;
  llvm::outs() << fmt::format(
      "@{} on {} ranks of {}\n"
      "  time       {:.1f} µs per run, {:.1f} µs in a series of runs\n"
      "  E          {:.3f}: all GEMMs alone take {:.1f} µs, everything else alone {:.1f} µs\n"
      "  GEMMs      {:.0f} % of the run\n"
      "  memory     {} per rank\n"
      "  simulated  {} of {} ranks{}\n",
      best.program, best.ranks, printable(model.machine), best.us, best.burstUs, best.efficiency(),
      best.gemmsUs, best.othersUs, best.us > 0 ? 100 * best.gemmsUs / best.us : 0,
      strOfBytes(static_cast<double>(best.memoryBytes)), best.simulated, best.ranks,
      best.simulated < best.ranks ? "; the other ranks behave identically" : "");
  if (best.ranks > model.ranks)
    llvm::outs() << fmt::format("  measured   with {} ranks; the same figures are used for {}\n",
                                model.ranks, best.ranks);
  if (rows.size() == 1)
    return;
  constexpr size_t kShown = 12;
  llvm::outs() << fmt::format("  the best of {} schedules:\n  {:>12}  {:>11}  {:>6}  schedule\n",
                              rows.size(), "µs per run", "in a burst", "E");
  for (const PredictedSchedule &each : rows.take_front(kShown))
    llvm::outs() << fmt::format("  {:>11.1f}  {:>11.1f}  {:>6.3f}  {}\n", each.prediction.us,
                                each.prediction.burstUs, each.prediction.efficiency(),
                                each.schedule.str());
}

void printJson(llvm::ArrayRef<PredictedSchedule> rows, const CostModel &model) {
  const MachinePrediction &best = rows.front().prediction;
  JsonWriter json(llvm::outs(), 2);
  json.object([&] {
    json.attribute("machine", model.machine);
    json.attribute("program", best.program);
    json.attribute("ranks", best.ranks);
    json.attribute("memory_bytes", best.memoryBytes);
    json.attribute("simulated", best.simulated);
    json.attributeList("predictions", rows, [](JsonWriter &list, const PredictedSchedule &row) {
      list.object([&] {
        list.attribute("schedule", row.schedule.str());
        list.attribute("us", row.prediction.us);
        list.attribute("burst_us", row.prediction.burstUs);
        list.attribute("E", row.prediction.efficiency());
        list.attribute("gemms_us", row.prediction.gemmsUs);
        list.attribute("others_us", row.prediction.othersUs);
      });
    });
  });
  llvm::outs() << "\n";
}

Result<int> simulateCommand(const SimulateFlags &flags) {
  const CostModel model = BRAID_TRY(findMachine(flags.machine));
  const std::unique_ptr<Source> source = BRAID_TRY(readSource(flags.source.file));
  const std::vector<PredictedSchedule> rows = BRAID_TRY(predict(flags, *source, model));
  flags.json ? printJson(rows, model) : print(rows, model);
  return 0;
}

} // namespace

Command addSimulate(CLI::App &app) {
  auto flags = std::make_shared<SimulateFlags>();
  CLI::App *command =
      app.add_subcommand("simulate", "Predict how long a program takes on a machine");
  addFlags(*command, *flags);
  return {command, [flags] {
            return runCommand([&] { return simulateCommand(*flags); }, flags->source.file);
          }};
}

} // namespace braid::tools
