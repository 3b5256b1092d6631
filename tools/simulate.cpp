//===- tools/simulate.cpp - `braid simulate` --------------------------------------------------===//

#include "api/autotune/candidate.h"
#include "api/simulate/machines.h"
#include "api/simulate/simulate_program.h"
#include "ir/failure.h"
#include "ir/printable.h"
#include "runtime/files.h"
#include "runtime/memory_limit.h"
#include "tools/command.h"
#include "tools/step_progress.h"

#include "llvm/Support/raw_ostream.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace braid::tools {
namespace {

constexpr size_t kMostListBytes = 16 << 20; ///< a list's

struct SimulateFlags {
  SourceFlags source;
  std::string machine = shippedMachines().front().name, schedules;
  bool json = false;
};

constexpr const char *kSimulateFooter = R"(
Predicts how long a run would take on a machine that need not be here. E is the larger of all GEMMs
alone and all else alone, over the time of the run: how much is hidden, not how busy GEMMs are.

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
          "whose cost model predicts (default " + flags.machine + ")");
  addText(app, "--schedules", flags.schedules, "FILE", "predict each schedule of FILE, one a line");
  app.add_flag("--json", flags.json, "the prediction as JSON");
  app.footer(kSimulateFooter);
}

Status optionsOf(const SourceFlags &flags, CompileOptions &options) {
  BRAID_TRY(flags.toOptions(options));
  options.transport = transportOf(options.schedule.all, Transport::PeerMemory);
  return Status::ok();
}

// -- Predicting. --

/// A failure stands in the place of its schedule.
struct Row {
  std::string schedule;
  Result<MachinePrediction> prediction;
};

Result<MachinePrediction> predictOne(const Source &given, const CompileOptions &options,
                                     const CostModel &model, const ProgressFn &listener) {
  const std::unique_ptr<Source> source = parseSource(given.diags.fileName(), given.diags.text());
  auto predict = [&]() -> Result<MachinePrediction> {
    const Compiled compiled = BRAID_TRY(compile(*source, options));
    const std::vector<Plan> plans = BRAID_TRY(plansToSimulate(compiled, 0, listener));
    const Configuration &run = options.schedule.all;
    return simulateProgram(plans, model,
                           {.launchMode = launchModeOf(run),
                            .transferMode = transferModeOf(run),
                            .progress = listener});
  };
  Result<MachinePrediction> prediction = predict();
  if (!prediction && source->diags.hasErrors())
    return Status(prediction.status().code(), source->diags.str());
  return prediction;
}

/// Predicts --schedule: one row, or with auto one for each candidate, the best first.
Result<std::vector<Row>> predict(const SimulateFlags &flags, const Source &source,
                                 const CostModel &model) {
  StepProgress progress("simulate");
  const ProgressFn listener = std::ref(progress);
  CompileOptions options;
  BRAID_TRY(optionsOf(flags.source, options));
  std::vector<Row> rows;
  if (!flags.source.isAuto()) {
    MachinePrediction prediction = BRAID_TRY(predictOne(source, options, model, listener));
    rows.push_back({options.schedule.str(), std::move(prediction)});
    return rows;
  }
  std::vector<PredictedSchedule> all = BRAID_TRY(
      predictSchedules(source.diags.fileName(), source.diags.text(), options, model, listener));
  for (PredictedSchedule &each : all)
    rows.push_back({each.schedule.str(), std::move(each.prediction)});
  return rows;
}

Result<MachinePrediction> predictBy(const std::string &schedule, SourceFlags flags,
                                    const Source &source, const CostModel &model) {
  flags.schedule = schedule;
  if (flags.isAuto())
    return badInput("expected a schedule, got {}, which chooses one", schedule);
  CompileOptions options;
  BRAID_TRY(optionsOf(flags, options));
  return predictOne(source, options, model, {});
}

/// Predicts the schedules of --schedules, as they are written and in their order.
Result<std::vector<Row>> predictListed(const SimulateFlags &flags, const Source &source,
                                       const CostModel &model) {
  const std::string text = BRAID_TRY(readFile(flags.schedules, kMostListBytes));
  llvm::SmallVector<llvm::StringRef> lines;
  llvm::StringRef(text).split(lines, '\n', -1, /*KeepEmpty=*/false);
  std::vector<Row> rows;
  for (llvm::StringRef line : lines)
    if (const std::string schedule = line.trim().str(); !schedule.empty())
      rows.push_back({schedule, predictBy(schedule, flags.source, source, model)});
  if (rows.empty())
    return badInput("--schedules: expected a schedule in '{}', got none", flags.schedules);
  return rows;
}

// -- Printing. --

std::string limitsOf(const MachinePrediction &prediction) {
  double all = 0;
  for (const auto &part : prediction.parts)
    all += part.second;
  std::string text;
  for (const auto &[what, us] : prediction.parts)
    if (us >= 0.005 * all)
      text += fmt::format("{}{:.0f} % {}", text.empty() ? "" : ", ", 100 * us / all, what);
  return text;
}

void print(const MachinePrediction &best, const CostModel &model) {
  llvm::outs() << fmt::format(
      "@{} on {} ranks of {}\n"
      "  time       {:.1f} µs a run, {:.1f} µs where runs follow one another\n"
      "  E          {:.3f}: all GEMMs alone take {:.1f} µs, all else alone {:.1f} µs\n"
      "  GEMMs      {:.0f} % of the run\n"
      "  memory     {} a rank\n"
      "  limits     {} of the critical path\n"
      "  simulated  {} of {} ranks{}\n",
      best.program, best.ranks, printable(model.machine), best.us, best.burstUs, best.efficiency(),
      best.gemmsUs, best.othersUs, best.us > 0 ? 100 * best.gemmsUs / best.us : 0,
      strOfBytes(static_cast<double>(best.memoryBytes)), limitsOf(best), best.simulated, best.ranks,
      best.simulated < best.ranks ? "; the others do the same" : "");
  if (best.ranks > model.ranks)
    llvm::outs() << fmt::format(
        "  measured   with {} ranks: for {} the machine's figures are taken as they are\n",
        model.ranks, best.ranks);
}

void printTable(const std::vector<Row> &rows, size_t shown) {
  llvm::outs() << fmt::format("  {:>12}  {:>11}  {:>6}  schedule\n", "µs", "burst", "E");
  for (size_t i = 0; i < rows.size() && i < shown; ++i)
    if (const Result<MachinePrediction> &each = rows[i].prediction)
      llvm::outs() << fmt::format("  {:>11.1f}  {:>11.1f}  {:>6.3f}  {}\n", each->us, each->burstUs,
                                  each->efficiency(), rows[i].schedule);
    else
      llvm::outs() << fmt::format("  {:>11}  {:>11}  {:>6}  {}: {}\n", "-", "-", "-",
                                  rows[i].schedule, each.status().message());
}

using Json = nlohmann::ordered_json;

Json toJson(const Row &row) {
  if (!row.prediction)
    return {{"schedule", row.schedule}, {"error", row.prediction.status().message()}};
  const MachinePrediction &prediction = *row.prediction;
  Json parts = Json::object();
  for (const auto &[what, us] : prediction.parts)
    parts[what] = us;
  return {{"schedule", row.schedule},       {"us", prediction.us},
          {"burst_us", prediction.burstUs}, {"E", prediction.efficiency()},
          {"gemms_us", prediction.gemmsUs}, {"others_us", prediction.othersUs},
          {"critical_path_us", parts}};
}

void printJson(const std::vector<Row> &rows, const CostModel &model) {
  Json json = {{"machine", model.machine}};
  for (const Row &row : rows)
    if (row.prediction) {
      json["program"] = row.prediction->program;
      json["ranks"] = row.prediction->ranks;
      json["memory_bytes"] = row.prediction->memoryBytes;
      json["simulated"] = row.prediction->simulated;
      break;
    }
  json["predictions"] = Json::array();
  for (const Row &row : rows)
    json["predictions"].push_back(toJson(row));
  llvm::outs() << json.dump(2, ' ', false, Json::error_handler_t::replace) << "\n";
}

Result<int> simulateCommand(const SimulateFlags &flags, std::unique_ptr<Source> &source) {
  const bool isList = !flags.schedules.empty();
  if (isList && flags.source.schedule)
    return badInput("--schedules: expected no --schedule with it");
  const CostModel model = BRAID_TRY(findMachine(flags.machine));
  source = BRAID_TRY(readSource(flags.source.file));
  const std::vector<Row> rows =
      BRAID_TRY(isList ? predictListed(flags, *source, model) : predict(flags, *source, model));
  constexpr size_t kShown = 12;
  if (flags.json) {
    printJson(rows, model);
  } else if (isList) {
    printTable(rows, rows.size());
  } else {
    print(*rows.front().prediction, model);
    if (rows.size() > 1)
      llvm::outs() << fmt::format("  of {} schedules, the best:\n", rows.size());
    if (rows.size() > 1)
      printTable(rows, kShown);
  }
  return 0;
}

} // namespace

Command addSimulate(CLI::App &app) {
  auto flags = std::make_shared<SimulateFlags>();
  CLI::App *command =
      app.add_subcommand("simulate", "Predict how long a program takes on a machine");
  addFlags(*command, *flags);
  return {command, [flags] {
            return runCommand([&](auto &source) { return simulateCommand(*flags, source); });
          }};
}

} // namespace braid::tools
