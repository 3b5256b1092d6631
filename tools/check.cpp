//===- tools/check.cpp - `braid check` --------------------------------------------------------===//

#include "api/compile/plans.h"
#include "ir/failure.h"
#include "runtime/json.h"
#include "tools/command.h"
#include "tools/step_progress.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/raw_ostream.h"

#include <fmt/format.h>

#include <limits>

namespace braid::tools {
namespace {

struct CheckFlags {
  SourceFlags source;
  uint32_t queues = CheckOptions().queues;
  int64_t runs = CheckOptions().runs;
  bool json = false;
  std::string emit = "text";
  std::string backend = "cuda";
};

constexpr const char *kCheckFooter = R"(
Follows the program on all ranks through successive runs, between which the caller writes inputs and
reads outputs. Prints what was proved, or prints a counterexample and exits with code 3.

  braid check examples/ag_matmul.braid --ranks 8
  braid check examples/by_hand.braid --queues 1
  braid check examples/by_hand.braid --backend nccl
  braid check broken.braid --emit dot | dot -Tsvg > why.svg
  braid view broken.braid --check --out why.html)";

void addFlags(CLI::App &app, CheckFlags &flags) {
  flags.source.addTo(app);
  addInteger(app, "--queues", flags.queues, "Q",
             "hardware queues per rank (default: find the smallest safe number)");
  addInteger(app, "--runs", flags.runs, "R", "number of successive runs to check (default: 3)");
  addText(app, "--backend", flags.backend, "NAME",
          "backend to check for: cuda (default) or cpu, which access the memory of peers, or "
          "nccl, which sends messages");
  app.add_flag("--json", flags.json, "print the report as JSON");
  addText(app, "--emit", flags.emit, "WHAT",
          "text (default), or the counterexample as a graph (dot)");
  app.footer(kCheckFooter);
}

void writeEvent(JsonWriter &json, const CheckedEvent &event) {
  json.object([&] {
    json.attribute("rank", event.rank);
    json.attribute("run", event.run);
    json.attribute("command", event.command == kNone ? std::nullopt : std::optional(event.command));
    json.attribute("text", event.text);
    if (!event.detail.empty())
      json.attribute("detail", event.detail);
    if (!event.waitsFor.empty()) {
      json.attribute("waits_for", event.waitsFor);
      json.attribute("behind", event.behind);
    }
  });
}

void writeViolation(JsonWriter &json, const Violation &violation) {
  json.attributeObject("violation", [&] {
    json.attribute("rule", name(violation.rule));
    json.attribute("summary", violation.summary);
    json.attributeList("events", violation.events, writeEvent);
    json.attributeList("notes", violation.notes,
                       [](JsonWriter &to, const std::string &note) { to.value(note); });
  });
}

void writeReport(JsonWriter &json, const CheckReport &report) {
  json.object([&] {
    json.attribute("safe", report.isSafe());
    json.attribute("ranks", report.ranks);
    json.attribute("hosts", report.hosts);
    json.attribute("runs", report.runs);
    json.attribute("queues", report.queues);
    json.attribute("commands", report.commands);
    json.attribute("transfers", report.transfers);
    json.attribute("messages", report.isOfMessages);
    json.attribute("collectives", report.collectives);
    json.attribute("accesses", report.accesses);
    json.attribute("seams_checked", report.seamsChecked);
    json.attribute("result_checked", report.resultChecked);
    json.attribute("order_checked", report.orderChecked);
    if (report.violation)
      writeViolation(json, *report.violation);
    else
      json.attribute("violation", nullptr);
    if (!report.resultChecked)
      json.attribute("result_not_checked", report.resultNotChecked);
  });
}

/// Returns the DOT edge between two events of a violation: a wait or a missing order.
std::string edge(const Violation &violation, size_t index, size_t next) {
  const std::string &awaited = violation.events[index].waitsFor;
  if (!awaited.empty())
    return fmt::format("  e{} -> e{} [label={}];\n", index, next,
                       dotText("waits for an event that is queued after it: " + awaited));
  if (violation.isUnordered() && next > index)
    return fmt::format("  e{} -> e{} [dir=none, style=dashed, color=red];\n", index, next);
  return "";
}

/// Prints the violation as a DOT graph, whose edges are the wait cycle or the unordered pairs.
void printDot(const CheckReport &report) {
  llvm::raw_ostream &os = llvm::outs();
  os << "digraph check {\n  node [shape=box, fontname=monospace];\n";
  if (!report.violation) {
    os << "  safe;\n}\n";
    return;
  }
  const Violation &violation = *report.violation;
  os << "  label=" << dotText(name(violation.rule).str() + ": " + violation.summary) << ";\n";
  for (size_t i = 0; i < violation.events.size(); ++i)
    os << "  e" << i << " [label=" << dotText(violation.events[i].text) << "];\n";
  const size_t count = violation.events.size();
  for (size_t i = 0; i < count; ++i)
    os << edge(violation, i, (i + 1) % count);
  os << "}\n";
}

Result<int> checkCommand(const CheckFlags &flags) {
  const std::vector<std::string> choices = {"text", "dot"};
  if (!llvm::is_contained(choices, flags.emit))
    return badChoice("--emit", flags.emit, choices);
  constexpr int64_t kMost = std::numeric_limits<uint32_t>::max();
  if (flags.runs < 1 || flags.runs > kMost)
    return badInput("expected --runs to be an integer from 1 to {}, got {}", kMost, flags.runs);
  if (flags.json && flags.emit != "text")
    return badInput("--json and --emit {} cannot be used together", flags.emit);
  CompileOptions options = BRAID_TRY(flags.source.toOptions());
  if (flags.backend == "nccl")
    options.transport = Transport::Messages;
  else if (flags.backend != "cuda" && flags.backend != "cpu")
    return badChoice("--backend", flags.backend, {"cpu", "cuda", "nccl"});
  const std::unique_ptr<Source> source = BRAID_TRY(readSource(flags.source.file));
  const Compiled compiled = BRAID_TRY(compile(*source, options));
  StepProgress progress("check");
  const CheckReport checked =
      BRAID_TRY(checkProgram(compiled, {.queues = flags.queues,
                                        .runs = static_cast<uint32_t>(flags.runs),
                                        .ordered = flags.source.reproducible,
                                        .progress = std::ref(progress)}));
  if (flags.json)
    llvm::outs() << jsonText([&](JsonWriter &json) { writeReport(json, checked); }, 2) << "\n";
  else if (flags.emit == "dot")
    printDot(checked);
  else
    llvm::outs() << verdictOn(compiled, checked);
  return checked.isSafe() ? 0 : static_cast<int>(StatusCode::Rejected);
}

} // namespace

Command addCheck(CLI::App &app) {
  auto flags = std::make_shared<CheckFlags>();
  CLI::App *command = app.add_subcommand("check", "Prove that a program is safe across all ranks");
  addFlags(*command, *flags);
  return {command,
          [flags] { return runCommand([&] { return checkCommand(*flags); }, flags->source.file); }};
}

} // namespace braid::tools
