//===- tools/simulate.cpp - `braid simulate` --------------------------------------------------===//

#include "api/autotune/candidate.h"
#include "api/simulate/machines.h"
#include "api/simulate/sweep.h"
#include "api/simulate/what_if.h"
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

constexpr size_t kMostListBytes = 16 << 20; ///< of schedules

struct SimulateFlags {
  SourceFlags source;
  std::string machine = shippedMachines().front().name, whatIf, schedules, sweep, beside, csv, svg;
  bool json = false;
};

constexpr const char *kSimulateFooter = R"(
Predicts how long a run would take on a machine that need not be here. E is the larger of all GEMMs
alone and all else alone, over the time of the run: how much is hidden, not how busy GEMMs are.
--what-if multiplies, and any may be named:

{}
  braid simulate examples/mlp.braid --ranks 8
  braid simulate examples/ag_matmul.braid --set M=32768 --set K=16384 --set N=8192 --schedule auto
  braid simulate examples/ag_matmul.braid --what-if link=2x,gemm=0.9x,launch=0
  braid simulate examples/ag_matmul.braid --set M=65536 --sweep ranks=2..64 --svg ranks.svg)";

void addFlags(CLI::App &app, SimulateFlags &flags) {
  flags.source.isRun = true;
  flags.source.addTo(app);
  std::string names;
  for (const ShippedMachine &machine : shippedMachines())
    names += machine.name + "|";
  addText(app, "--machine", flags.machine, names + "FILE",
          "whose cost model predicts (default " + flags.machine + ")");
  addText(app, "--what-if", flags.whatIf, "WHAT=FACTOR,...", "as if the machine were other");
  addText(app, "--schedules", flags.schedules, "FILE", "predict each schedule of FILE, one a line");
  addText(app, "--sweep", flags.sweep, "NAME=FROM..TO",
          "a row for each value from FROM on, each twice the one before; NAME is a parameter, or "
          "ranks");
  addText(app, "--beside", flags.beside, "SCHEDULE",
          "a second schedule in the rows and the drawing of --sweep, where it is possible");
  addText(app, "--csv", flags.csv, "OUT.csv", "write the rows of --sweep there (default: print)");
  addText(app, "--svg", flags.svg, "OUT.svg", "draw time, memory and E of --sweep");
  app.add_flag("--json", flags.json, "the prediction as JSON");
  app.footer(fmt::format(kSimulateFooter, whatIfHelp()));
}

/// What is predicted, and with what.
struct Subject {
  std::unique_ptr<Source> &source;
  CostModel model;
  CompileOptions options;
};

Status optionsOf(const SourceFlags &flags, CompileOptions &options) {
  BRAID_TRY(flags.toOptions(options));
  options.transport = transportOf(options.schedule.all, Transport::PeerMemory);
  return Status::ok();
}

/// By the schedule of `options`.
Result<PredictedSchedule> predictOne(const Subject &subject, const CompileOptions &options,
                                     const ProgressFn &listener) {
  const std::unique_ptr<Source> source =
      parseSource(subject.source->diags.fileName(), subject.source->diags.text());
  auto failed = [&](const Status &status) {
    return source->diags.hasErrors() ? Status(status.code(), source->diags.str()) : status;
  };
  Result<Compiled> compiled = compile(*source, options);
  if (!compiled)
    return failed(compiled.status());
  const Configuration &run = options.schedule.all;
  Result<MachinePrediction> prediction = predictProgram(
      *compiled, subject.model,
      {.launchMode = launchModeOf(run), .transferMode = transferModeOf(run), .progress = listener});
  if (!prediction)
    return failed(prediction.status());
  return PredictedSchedule{options.schedule, std::move(*prediction)};
}

Result<std::vector<PredictedSchedule>> predict(const SourceFlags &flags, const Subject &subject) {
  StepProgress progress("simulate");
  const ProgressFn listener = std::ref(progress);
  if (flags.isAuto())
    return predictSchedules(subject.source->diags.fileName(), subject.source->diags.text(),
                            subject.options, subject.model, listener);
  std::vector<PredictedSchedule> one;
  one.push_back(BRAID_TRY(predictOne(subject, subject.options, listener)));
  return one;
}

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

void print(const SimulateFlags &flags, const Subject &subject,
           const std::vector<PredictedSchedule> &all) {
  const MachinePrediction &best = all.front().prediction;
  llvm::outs() << fmt::format(
      "@{} on {} ranks of {}{}\n"
      "  time       {:.1f} µs a run, {:.1f} µs where runs follow one another\n"
      "  E          {:.3f}: all GEMMs alone take {:.1f} µs, all else alone {:.1f} µs\n"
      "  GEMMs      {:.0f} % of the run\n"
      "  memory     {} a rank\n"
      "  limits     {} of the critical path\n"
      "  simulated  {} of {} ranks{}\n",
      best.program, best.ranks, printable(subject.model.machine),
      flags.whatIf.empty() ? "" : ", if " + flags.whatIf, best.us, best.burstUs, best.efficiency(),
      best.gemmsUs, best.othersUs, best.us > 0 ? 100 * best.gemmsUs / best.us : 0,
      strOfBytes(static_cast<double>(best.memoryBytes)), limitsOf(best), best.simulated, best.ranks,
      best.simulated < best.ranks ? "; the others do the same" : "");
  if (best.ranks > subject.model.ranks)
    llvm::outs() << fmt::format(
        "  measured   with {} ranks: for {} the machine's figures are taken as they are\n",
        subject.model.ranks, best.ranks);
  if (all.size() == 1)
    return;
  constexpr size_t kShown = 12;
  llvm::outs() << fmt::format("  of {} schedules, the best:\n  {:>12}  {:>11}  {:>6}  schedule\n",
                              all.size(), "µs", "burst", "E");
  for (size_t i = 0; i < all.size() && i < kShown; ++i)
    llvm::outs() << fmt::format("  {:>11.1f}  {:>11.1f}  {:>6.3f}  {}\n", all[i].prediction.us,
                                all[i].prediction.burstUs, all[i].prediction.efficiency(),
                                all[i].schedule.str());
}

using Json = nlohmann::ordered_json;

Json toJson(const std::string &schedule, const MachinePrediction &prediction) {
  Json parts = Json::object();
  for (const auto &[what, us] : prediction.parts)
    parts[what] = us;
  return {{"schedule", schedule},           {"us", prediction.us},
          {"burst_us", prediction.burstUs}, {"E", prediction.efficiency()},
          {"gemms_us", prediction.gemmsUs}, {"others_us", prediction.othersUs},
          {"critical_path_us", parts}};
}

void print(const Json &json) {
  llvm::outs() << json.dump(2, ' ', false, Json::error_handler_t::replace) << "\n";
}

void printJson(const Subject &subject, const std::vector<PredictedSchedule> &all) {
  Json rows = Json::array();
  for (const PredictedSchedule &each : all)
    rows.push_back(toJson(each.schedule.str(), each.prediction));
  const Json json = {{"program", all.front().prediction.program},
                     {"machine", subject.model.machine},
                     {"ranks", all.front().prediction.ranks},
                     {"memory_bytes", all.front().prediction.memoryBytes},
                     {"simulated", all.front().prediction.simulated},
                     {"predictions", rows}};
  print(json);
}

/// The schedules of --schedules, as they are written and in their order. One that is refused says
/// why in its place.
class ListedSchedules {
public:
  ListedSchedules(const SimulateFlags &flags, const Subject &subject)
      : flags_(flags), subject_(subject) {}

  Status predictAll(llvm::StringRef lines) {
    llvm::SmallVector<llvm::StringRef> schedules;
    lines.split(schedules, '\n', -1, /*KeepEmpty=*/false);
    for (llvm::StringRef schedule : schedules)
      if (!schedule.trim().empty())
        add(schedule.trim().str());
    return rows_.empty()
               ? badInput("--schedules: expected a schedule in '{}', got none", flags_.schedules)
               : Status::ok();
  }

  void show() const {
    if (flags_.json)
      return print(Json{{"machine", subject_.model.machine}, {"predictions", rows_}});
    llvm::outs() << fmt::format("  {:>11}  {:>10}  {:>6}  schedule\n", "µs", "burst", "E");
    for (const Json &row : rows_)
      llvm::outs() << (row.contains("error")
                           ? fmt::format("  {:>10}  {:>10}  {:>6}  {}: {}\n", "-", "-", "-",
                                         row["schedule"].get<std::string>(),
                                         row["error"].get<std::string>())
                           : fmt::format("  {:>10.1f}  {:>10.1f}  {:>6.3f}  {}\n",
                                         row["us"].get<double>(), row["burst_us"].get<double>(),
                                         row["E"].get<double>(),
                                         row["schedule"].get<std::string>()));
  }

private:
  void add(const std::string &schedule) {
    Result<PredictedSchedule> predicted = predictBy(schedule);
    rows_.push_back(predicted
                        ? toJson(schedule, predicted->prediction)
                        : Json{{"schedule", schedule}, {"error", predicted.status().message()}});
  }

  Result<PredictedSchedule> predictBy(const std::string &schedule) const {
    SourceFlags flags = flags_.source;
    flags.schedule = schedule;
    if (flags.isAuto())
      return badInput("expected a schedule, got {}, which chooses one", schedule);
    CompileOptions options;
    BRAID_TRY(optionsOf(flags, options));
    return predictOne(subject_, options, {});
  }

  const SimulateFlags &flags_;
  const Subject &subject_;
  Json rows_ = Json::array();
};

/// The source flags with the schedule of --beside.
SourceFlags flagsBeside(const SimulateFlags &flags) {
  SourceFlags beside = flags.source;
  beside.schedule = flags.beside;
  return beside;
}

/// The curves of a sweep.
class Sweeper {
public:
  Sweeper(const SimulateFlags &flags, const Subject &subject, std::string name)
      : subject_(subject), sweep_{std::move(name), subject.model.machine, {}} {
    flags_.push_back(flags.source);
    if (!flags.beside.empty())
      flags_.push_back(flagsBeside(flags));
  }

  Status add(int64_t value, size_t curve) {
    Subject point{subject_.source, subject_.model, {}};
    BRAID_TRY(optionsOf(flags_[curve], point.options));
    if (sweep_.name == "ranks")
      point.options.ranks = value;
    else
      point.options.parameters.emplace_back(sweep_.name, value);
    Result<std::vector<PredictedSchedule>> all = predict(flags_[curve], point);
    if (!all)
      return all.status().annotated(fmt::format("--sweep {}={}", sweep_.name, value));
    const PredictedSchedule &best = all->front();
    sweep_.points.push_back({value, curve, best.schedule.str(), best.prediction});
    llvm::errs() << fmt::format("{} = {}: {:.1f} µs{}\n", sweep_.name, value, best.prediction.us,
                                curve == 0 ? "" : " beside");
    return Status::ok();
  }

  /// The first curve ends where it fails, and what came before is kept. The second one has the
  /// points that it can have: BadInput and Unsupported leave one out.
  Status addAll(llvm::ArrayRef<int64_t> values) {
    Status refused;
    for (int64_t value : values) {
      BRAID_TRY(add(value, 0));
      if (flags_.size() == 1)
        continue;
      const Status status = add(value, 1);
      if (!status.isOk() && status.code() != StatusCode::BadInput &&
          status.code() != StatusCode::Unsupported)
        return status;
      if (!status.isOk() && refused.isOk())
        refused = status;
    }
    const bool isThere =
        llvm::any_of(sweep_.points, [](const SweepPoint &point) { return point.curve == 1; });
    return flags_.size() == 1 || isThere ? Status::ok() : refused;
  }

  const Sweep &named() {
    if (flags_.size() > 1)
      for (const SourceFlags &flags : flags_)
        sweep_.curves.push_back(flags.schedule.value_or(flags.defaultSchedule));
    return sweep_;
  }

private:
  const Subject &subject_;
  std::vector<SourceFlags> flags_; ///< of each curve
  Sweep sweep_;
};

/// What is swept has no value of its own.
Status checkFree(const std::string &name, const CompileOptions &options) {
  if (name == "ranks" && options.ranks)
    return badInput("--sweep {}: expected no --ranks with it", name);
  for (const auto &[parameter, value] : options.parameters)
    if (parameter == name)
      return badInput("--sweep {0}: expected no --set {0} with it", name);
  return Status::ok();
}

Status sweep(const SimulateFlags &flags, const Subject &subject) {
  const auto [name, values] = BRAID_TRY(parseSweep(flags.sweep));
  BRAID_TRY(checkFree(name, subject.options));
  Sweeper sweeper(flags, subject, name);
  const Status failed = sweeper.addAll(values);
  const Sweep &sweep = sweeper.named();
  if (sweep.points.empty())
    return failed;
  if (!flags.svg.empty())
    BRAID_TRY(writeFile(flags.svg, toSvg(sweep)));
  if (flags.csv.empty())
    llvm::outs() << toCsv(sweep);
  else
    BRAID_TRY(writeFile(flags.csv, toCsv(sweep)));
  return failed;
}

Status checkFlags(const SimulateFlags &flags) {
  const std::pair<const char *, const std::string &> ofSweep[] = {
      {"--csv", flags.csv}, {"--svg", flags.svg}, {"--beside", flags.beside}};
  for (const auto &[flag, value] : ofSweep)
    if (flags.sweep.empty() && !value.empty())
      return badInput("{}: expected --sweep with it", flag);
  for (const std::string &input : {flags.source.file, flags.schedules, flags.machine}) {
    BRAID_TRY(expectOtherFile("--csv", flags.csv, input));
    BRAID_TRY(expectOtherFile("--svg", flags.svg, input));
  }
  if (flags.csv == "-" && flags.svg == "-")
    return badInput("expected one of --csv and --svg to be -, got both");
  BRAID_TRY(expectTwoFiles({"--csv", flags.csv}, {"--svg", flags.svg}));
  if (!flags.sweep.empty() && flags.json)
    return badInput("--json: expected no --sweep with it");
  if (!flags.schedules.empty() && (!flags.sweep.empty() || flags.source.schedule))
    return badInput("--schedules: expected no --schedule and no --sweep with it");
  return Status::ok();
}

Result<int> simulateCommand(const SimulateFlags &flags, std::unique_ptr<Source> &source) {
  BRAID_TRY(checkFlags(flags));
  Subject subject{source, {}, {}};
  subject.model = BRAID_TRY(findMachine(flags.machine));
  subject.model = BRAID_TRY(applyWhatIf(std::move(subject.model), flags.whatIf));
  BRAID_TRY(optionsOf(flags.source, subject.options));
  if (CompileOptions beside; !flags.beside.empty())
    BRAID_TRY(optionsOf(flagsBeside(flags), beside).annotated("--beside"));
  source = BRAID_TRY(readSource(flags.source.file));
  if (!flags.sweep.empty()) {
    BRAID_TRY(sweep(flags, subject));
    return 0;
  }
  if (!flags.schedules.empty()) {
    ListedSchedules listed(flags, subject);
    const std::string lines = BRAID_TRY(readFile(flags.schedules, kMostListBytes));
    BRAID_TRY(listed.predictAll(lines));
    listed.show();
    return 0;
  }
  const std::vector<PredictedSchedule> all = BRAID_TRY(predict(flags.source, subject));
  if (flags.json)
    printJson(subject, all);
  else
    print(flags, subject, all);
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
