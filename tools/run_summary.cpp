//===- tools/run_summary.cpp - what `braid run` prints when it is done ------------------------===//

#include "tools/run_command.h"

#include "llvm/Support/raw_ostream.h"

#include <fmt/format.h>

namespace braid::tools {
namespace {

std::string timeText(double seconds) {
  if (seconds >= 1)
    return fmt::format("{:.2f} s", seconds);
  return seconds >= 1e-3 ? fmt::format("{:.2f} ms", seconds * 1e3)
                         : fmt::format("{:.1f} us", seconds * 1e6);
}

std::string chosenBy(bool isUsers) { return isUsers ? "as asked" : "the default"; }

void printLine(llvm::StringRef what, const std::string &value, const std::string &why) {
  llvm::outs() << fmt::format("  {:<12}{}: {}\n", what.str(), value, why);
}

/// What --schedule auto came to.
void printChosen(const Candidate &chosen) {
  const std::string why = "chosen by measuring";
  printLine("schedule", name(chosen.schedule).str(), why);
  printLine("protocol", name(chosen.protocol).str(), why);
  printLine("streams", std::to_string(chosen.streams), why);
  printLine("chunks", chosen.chunks > 0 ? std::to_string(chosen.chunks) : "one a slice", why);
  printLine("taper", std::to_string(chosen.taper), why);
  printLine("wave rows", std::to_string(chosen.waveRows), why);
  printLine("transfers", name(chosen.transfers).str(), why);
  printLine("means", str(chosen.means), why);
  printLine("issued", chosen.issuing == Issuing::Graph ? "as a graph" : "one by one", why);
}

void printLowering(const SourceFlags &source) {
  printLine("schedule", source.schedule.value_or("pairwise"),
            chosenBy(source.schedule.has_value()));
  printLine("protocol", source.protocol.value_or("get"), chosenBy(source.protocol.has_value()));
  printLine("streams", std::to_string(source.streams.value_or(LoweringOptions().streams)),
            chosenBy(source.streams.has_value()));
  printLine("chunks", source.chunks ? std::to_string(*source.chunks) : "one a slice",
            chosenBy(source.chunks.has_value()));
  printLine("taper", std::to_string(source.taper.value_or(LoweringOptions().taper)),
            chosenBy(source.taper.has_value()));
  printLine("wave rows", std::to_string(source.waveRows.value_or(LoweringOptions().waveRows)),
            chosenBy(source.waveRows.has_value()));
}

/// Where the ranks are, and who said so.
void printRanks(const RunFlags &flags, const RankSetup &setup, const RunReport &report,
                double joinSeconds) {
  if (setup.kind == RankSetup::Threads) {
    printLine("ranks", fmt::format("{} threads of this process", report.ranks),
              "no launcher has started it, and without --processes");
    return;
  }
  if (setup.isLaunched())
    printLine("ranks", fmt::format("{} processes of this command", report.ranks),
              flags.processes ? "--processes" : "--backend " + flags.backend);
  else
    printLine("ranks", fmt::format("rank {} of {}", setup.place->rank, report.ranks),
              "from " + setup.place->source);
  llvm::outs() << fmt::format("  {:<12}met in {}, prepared in {}\n", "start",
                              timeText(joinSeconds + report.meetSeconds),
                              timeText(report.prepareSeconds));
}

} // namespace

void printSummary(const RunFlags &flags, const Compiled &compiled, const RunReport &report) {
  std::string compared = "nothing (--verify compares every element with a reference)";
  if (flags.verify)
    compared = fmt::format("{} elements with the reference for @{}: all equal",
                           report.elementsCompared, compiled.fusion->name());
  llvm::outs() << fmt::format(
      "@{} on {} ranks of backend {}, {} iterations with fresh inputs\n"
      "  compared  {}\n"
      "  time      {} an iteration, {} in all; prepared in {}\n"
      "  program   {} commands a run on rank 0, on {} streams besides the caller's; {}\n",
      compiled.program->name(), report.ranks, flags.backend, report.iterations, compared,
      timeText(report.runSeconds / static_cast<double>(report.iterations)),
      timeText(report.runSeconds), timeText(report.prepareSeconds), report.commandsPerRun,
      report.streams, flags.noCheck ? "not checked" : "proved safe");
  if (!flags.trace.empty())
    llvm::outs() << fmt::format("  trace     {} (open it in https://ui.perfetto.dev)\n",
                                flags.trace);
}

void printChoices(const RunFlags &flags, const RankSetup &setup, const Compiled &compiled,
                  const std::optional<Candidate> &chosen, const RunReport &report,
                  double joinSeconds) {
  llvm::outs() << "choices\n";
  if (chosen)
    printChosen(*chosen);
  else if (compiled.isLowered)
    printLowering(flags.source);
  else
    printLine("program", "@" + compiled.program->name(), "read from the file, not lowered");
  printLine("in flight", std::to_string(report.runsInFlight),
            fmt::format("runs issued before the host waits; at most {}, and a gigabyte of inputs "
                        "and outputs",
                        kMaxRunsInFlight));
  printRanks(flags, setup, report, joinSeconds);
  // Of the machine, not of the program.
  if (!report.choices.empty())
    llvm::errs() << "braid: " << report.choices << "\n";
}

} // namespace braid::tools
