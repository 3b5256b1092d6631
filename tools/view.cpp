//===- tools/view.cpp - `braid view` ----------------------------------------------------------===//

#include "api/autotune/candidates.h"
#include "api/compile/plans.h"
#include "api/simulate/machines.h"
#include "api/simulate/simulate_program.h"
#include "api/view/pages.h"
#include "ir/failure.h"
#include "runtime/files.h"
#include "runtime/job/flight_record.h"
#include "tools/command.h"
#include "tools/step_progress.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/Process.h"
#include "llvm/Support/raw_ostream.h"

namespace braid::tools {
namespace {

constexpr size_t kMostBytes = size_t(1) << 30; ///< maximum size of an input file
constexpr const char *kMachine = "h200-4";

struct ViewFlags {
  SourceFlags source;
  std::optional<std::string> machine;
  std::string trace, records, out;
  bool check = false;
};

constexpr const char *kViewFooter = R"(
Writes a self-contained HTML file that shows the text of the program beside a timeline of the
commands of all ranks, what each wait waits for, and the critical path.

  braid view examples/mlp.braid --ranks 4 --out mlp.html      a predicted run
  braid run examples/mlp.braid --ranks 4 --trace run.json
  braid view --trace run.json --out run.html                  a measured run
  braid view examples/mlp.braid --ranks 4 --trace run.json    both, one above the other
  braid view broken.braid --check                             why a program is unsafe
  braid view --records records/host0.txt                      what a failed job was doing)";

void addFlags(CLI::App &app, ViewFlags &flags) {
  flags.source.isRun = true; // launch and transfer modes affect predictions
  flags.source.takesAuto = false;
  flags.source.addTo(app, /*isFileOptional=*/true);
  std::string machines;
  for (const ShippedMachine &machine : shippedMachines())
    machines += machine.name + "|";
  addText(app, "--machine", flags.machine, machines + "FILE",
          std::string("machine to predict for; FILE is written by braid calibrate (default: ") +
              kMachine + ")");
  addText(app, "--trace", flags.trace, "RUN.json",
          "show the last run that braid run --trace measured");
  app.add_flag("--check", flags.check, "show the counterexample that braid check finds");
  addText(app, "--records", flags.records, "FILE", "show a failed job from its flight records");
  addText(app, "--out", flags.out, "OUT.html",
          "file to write the page to (default: standard output)");
  app.footer(kViewFooter);
}

Result<view::Page> predict(const Compiled &compiled, const std::string &machine,
                           const Configuration &run) {
  const CostModel model = BRAID_TRY(findMachine(machine));
  const SimulationOptions options{launchModeOf(run), transferModeOf(run)};
  const std::vector<Plan> plans = BRAID_TRY(makePlans(compiled));
  const view::PrintedProgram program = BRAID_TRY(view::printAgain(compiled));
  Result<view::Page> page = view::predictedPage(program, model, options);
  if (!page) // simulate again, so that the error has FILE's line numbers, not the page's
    BRAID_TRY(simulateProgram(plans, model, options));
  return page;
}

Result<view::Page> pageOfSource(const ViewFlags &flags) {
  CompileOptions options = BRAID_TRY(flags.source.toOptions());
  options.transport = transportOf(options.schedule.all, Transport::PeerMemory);
  const std::unique_ptr<Source> source = BRAID_TRY(readSource(flags.source.file));
  const Compiled compiled = BRAID_TRY(compile(*source, options));
  if (!flags.check)
    return predict(compiled, flags.machine.value_or(kMachine), options.schedule.all);
  StepProgress progress("check");
  CheckOptions checkOptions;
  checkOptions.progress = std::ref(progress);
  BRAID_TRY(makePlans(compiled));
  const view::PrintedProgram program = BRAID_TRY(view::printAgain(compiled));
  const CheckReport report = BRAID_TRY(checkProgram(program.compiled, checkOptions));
  return view::counterexamplePage(program, report);
}

/// Returns true if `flag` affects only predictions.
bool isOfModel(const std::string &flag) {
  return flag == "--machine" || llvm::any_of(allKnobs(), [&](const KnobRow &row) {
           return row.isOfRun() && row.knob != Knob::DataPlane && flag == "--" + row.name;
         }); // the transport also affects checks
}

/// Accepts FILE, --trace, both, or only --records. Refuses flags that would have no effect.
Status checkFlags(const CLI::App &app, const ViewFlags &flags) {
  const bool hasFile = !flags.source.file.empty(), hasTrace = !flags.trace.empty();
  if (!flags.records.empty() && (hasFile || hasTrace || flags.check))
    return badInput("--records cannot be combined with FILE, --trace or --check");
  if (!hasFile && !hasTrace && flags.records.empty())
    return badInput("expected FILE, --trace or --records");
  if (flags.check && (!hasFile || hasTrace))
    return badInput("--check requires FILE, and cannot be combined with --trace");
  const std::vector<std::string> always = {"FILE", "--trace", "--check", "--records", "--out"};
  for (const CLI::Option *option : app.get_options()) {
    const std::string flag = option->get_name();
    if (option->count() == 0 || llvm::is_contained(always, flag))
      continue;
    if (!hasFile)
      return badInput("{} requires FILE", flag);
    if (flags.check && isOfModel(flag))
      return badInput("{} cannot be combined with --check", flag);
  }
  return Status::ok();
}

/// Refuses to read standard input twice, to overwrite an input, or to write to a terminal.
Status checkFiles(const ViewFlags &flags) {
  const std::string inputs[] = {flags.records, flags.source.file, flags.trace,
                                flags.machine.value_or("")};
  if (const auto count = llvm::count(inputs, "-"); count > 1)
    return badInput("only one input can be -, but {} are", count);
  for (const std::string &input : inputs)
    BRAID_TRY(expectOtherFile("--out", flags.out, input));
  if (flags.out.empty() && llvm::sys::Process::StandardOutIsDisplayed())
    return badInput("standard output is a terminal: specify --out OUT.html, or redirect standard "
                    "output to a file or a pipe");
  return flags.out.empty() ? Status::ok() : checkWritable(flags.out);
}

Result<view::Page> makePage(const ViewFlags &flags) {
  if (!flags.records.empty())
    return view::recordedPage(BRAID_TRY(readFlightRecords(flags.records)));
  if (flags.trace.empty())
    return pageOfSource(flags);
  const std::string trace = BRAID_TRY(readFile(flags.trace, kMostBytes));
  view::Page measured = BRAID_TRY(view::measuredPage(flags.trace, trace));
  if (flags.source.file.empty())
    return measured;
  view::Page predicted = BRAID_TRY(pageOfSource(flags));
  return view::layOver(measured, std::move(predicted));
}

Result<int> viewCommand(const CLI::App &app, const ViewFlags &flags) {
  BRAID_TRY(checkFlags(app, flags));
  BRAID_TRY(checkFiles(flags));
  const std::string html = view::toHtml(BRAID_TRY(makePage(flags)));
  if (flags.out.empty())
    llvm::outs() << html;
  else
    BRAID_TRY(writeFile(flags.out, html));
  return 0;
}

} // namespace

Command addView(CLI::App &app) {
  auto flags = std::make_shared<ViewFlags>();
  CLI::App *command = app.add_subcommand(
      "view", "Write an HTML page that shows a run, a counterexample or a failed job");
  addFlags(*command, *flags);
  return {command, [command, flags] {
            return runCommand([&] { return viewCommand(*command, *flags); }, flags->source.file);
          }};
}

} // namespace braid::tools
