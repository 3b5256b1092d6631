//===- tools/run_summary.cpp - the output of `braid run` --------------------------------------===//

#include "ir/counted.h"
#include "ir/printable.h"
#include "tools/run_command.h"

#include "llvm/Support/raw_ostream.h"

#include <fmt/format.h>

#include <climits>

namespace braid::tools {
namespace {

std::string timeText(double seconds) {
  if (seconds >= 1)
    return fmt::format("{:.2f} s", seconds);
  return seconds >= 1e-3 ? fmt::format("{:.2f} ms", seconds * 1e3)
                         : fmt::format("{:.1f} us", seconds * 1e6);
}

/// Returns a line that explains whether the ranks are threads or processes, and why.
std::string explainRanks(const RunFlags &flags, const RankSetup &setup, int64_t ranks) {
  if (setup.areThreads())
    return explainLine("ranks", counted(ranks, "thread") + " of this process",
                       "this process was not started by a launcher, and --processes is not set");
  if (!setup.isLaunched())
    return explainLine("ranks", fmt::format("rank {} of {}", setup.place->rank, ranks),
                       "from " + setup.place->source);
  return explainLine(
      "ranks", fmt::format("{} process{} started by this command", ranks, ranks == 1 ? "" : "es"),
      flags.processes ? "--processes" : "--backend " + flags.backend);
}

} // namespace

void printSummary(llvm::raw_ostream &os, const RunFlags &flags, const ProgramState &program,
                  const RunReport &report) {
  const Compiled &compiled = program.compiled;
  const int64_t iterations = flags.run.iterations;
  std::string compared = "nothing (--verify compares every element with a reference)";
  if (flags.run.verify)
    compared = fmt::format("{} with the reference for @{}: all equal",
                           counted(report.elementsCompared, "element"), compiled.fusion->name());
  os << fmt::format("@{} on {} of backend {}, {} with fresh inputs\n"
                    "  compared  {}\n"
                    "  time      {} per iteration, {} in total; prepared in {}\n"
                    "  program   {} per run on rank 0, on {} besides the caller's; {}\n",
                    compiled.program->name(), counted(compiled.program->ranks(), "rank"),
                    flags.backend, counted(iterations, "iteration"), compared,
                    timeText(report.runSeconds / static_cast<double>(iterations)),
                    timeText(report.runSeconds), timeText(report.prepareSeconds),
                    counted(report.commandsPerRun, "command"), counted(report.streams, "stream"),
                    flags.noCheck ? "not checked" : "proved safe");
  if (!program.choice.empty())
    os << "  schedule  " << program.choice << "\n";
  for (const auto &[output, digest] : report.digests)
    os << fmt::format("  digest    {:016x} of the bits of %{}, over all ranks and iterations\n",
                      digest, output);
  if (!flags.trace.empty())
    os << fmt::format("  trace     {} (open it in https://ui.perfetto.dev)\n",
                      printable(flags.trace, PATH_MAX));
}

void printChoices(llvm::raw_ostream &os, const RunFlags &flags, const RankSetup &setup,
                  const ProgramState &program, const RunReport &report) {
  os << "choices\n"
     << program.explain() << explainRanks(flags, setup, program.compiled.program->ranks());
  // Print lines that describe the machine, not the program, on standard error.
  for (const std::string &line : {report.choices, report.messages})
    if (!line.empty())
      llvm::errs() << "braid: " << line << "\n";
}

} // namespace braid::tools
