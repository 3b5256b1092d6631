//===- api/view/of_plans.cpp - pages about a program's Plans ----------------------------------===//

#include "api/view/of_plans.h"

#include "api/compile/plans.h"
#include "ir/failure.h"
#include "ir/program.h"
#include "runtime/simulate/alike_ranks.h"

#include "llvm/ADT/StringExtras.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>

namespace braid::view {
namespace {

Kind kindOf(CommandKind kind) {
  switch (kind) {
  case CommandKind::Copy:
    return Kind::Copy;
  case CommandKind::Matmul:
    return Kind::Gemm;
  case CommandKind::Sum:
  case CommandKind::Pointwise:
    return Kind::Compute;
  case CommandKind::Signal:
    return Kind::Signal;
  case CommandKind::Await:
    return Kind::Await;
  case CommandKind::Record:
    return Kind::Record;
  case CommandKind::WaitEvent:
    return Kind::WaitEvent;
  case CommandKind::Group:
  case CommandKind::Collective:
    return Kind::Message;
  }
  return Kind::Message;
}

int64_t bytesOf(const Plan &plan, const braid::Command &command) {
  switch (command.kind) {
  case CommandKind::Copy:
    return command.dst.bytes;
  case CommandKind::Matmul:
    return plan.matmuls[command.matmul].c.bytes;
  case CommandKind::Sum:
    return plan.sums[command.sum].dst.bytes;
  case CommandKind::Pointwise:
    return plan.pointwise[command.pointwise].dst.bytes;
  default:
    return 0;
  }
}

/// Which command of which rank gives the signal that an endpoint awaits.
class Signals {
public:
  explicit Signals(llvm::ArrayRef<Plan> plans) : period_(static_cast<int64_t>(plans.size())) {
    for (size_t rank = 0; rank < plans.size(); ++rank)
      for (uint32_t i = 0; i < plans[rank].commands.size(); ++i)
        if (const braid::Command &command = plans[rank].commands[i];
            command.kind == CommandKind::Signal)
          given_[keyOf(plans[rank], plans[rank].endpoints[command.endpoint])] = {
              static_cast<int32_t>(rank), i};
  }
  CommandRef awaitedBy(const Plan &plan, const Endpoint &endpoint) const {
    const auto found = given_.find(partnerKeyOf(plan, endpoint, period_));
    return found == given_.end() ? CommandRef() : found->second;
  }

private:
  const int64_t period_; ///< ranks that stand for all
  std::map<EndpointKey, CommandRef> given_;
};

/// The commands of one rank, run after run.
class RankWriter {
public:
  RankWriter(const Plan &plan, const Signals &signals, uint32_t lines)
      : plan_(plan), signals_(signals), lines_(lines), lastRecord_(plan.events, kNone) {}

  Rank write(uint32_t runs) {
    Rank rank;
    rank.numbers = {plan_.rank};
    rank.streams = plan_.streams;
    for (uint32_t run = 1; run <= runs; ++run)
      for (uint32_t i = 0; i < plan_.commands.size(); ++i)
        rank.commands.push_back(commandOf(i, run));
    return rank;
  }

private:
  Command commandOf(uint32_t index, uint32_t run) {
    const braid::Command &from = plan_.commands[index];
    const Origin &origin = plan_.origins[from.origin];
    Command command{.kind = kindOf(from.kind), .stream = from.stream, .run = run};
    const uint32_t line = lineOf(plan_, from.origin);
    command.line = line <= lines_ ? line : 0;
    command.bytes = bytesOf(plan_, from);
    const auto *first = plan_.trips.data() + origin.firstTrip;
    command.trips = fmt::format("{}", fmt::join(first, first + origin.tripCount, ", "));
    if (from.endpoint != kNone)
      command.peer = plan_.endpoints[from.endpoint].peer;
    command.cause = causeOf(from, index, run);
    return command;
  }

  CommandRef causeOf(const braid::Command &command, uint32_t index, uint32_t run) {
    const auto perRun = static_cast<uint32_t>(plan_.commands.size());
    if (command.kind == CommandKind::Record)
      lastRecord_[command.event] = (run - 1) * perRun + index;
    if (command.kind == CommandKind::WaitEvent && lastRecord_[command.event] != kNone)
      return {static_cast<int32_t>(plan_.rank), lastRecord_[command.event]};
    if (command.kind != CommandKind::Await)
      return {};
    // That of the first run: pageOf(), which has the Plans of all ranks, moves it to this one.
    return signals_.awaitedBy(plan_, plan_.endpoints[command.endpoint]);
  }

  const Plan &plan_;
  const Signals &signals_;
  const uint32_t lines_;
  std::vector<uint32_t> lastRecord_; ///< by event, over all runs
};

std::vector<std::string> linesOf(llvm::StringRef text) {
  std::vector<std::string> lines;
  llvm::SmallVector<llvm::StringRef> parts;
  text.rtrim().split(parts, '\n');
  for (llvm::StringRef part : parts)
    lines.push_back(part.str());
  return lines;
}

} // namespace

static Result<PrintedProgram> parseAgain(const std::string &name, const std::string &text,
                                         Transport transport) {
  PrintedProgram printed;
  printed.lines = linesOf(text);
  printed.source = parseSource(name, text);
  CompileOptions options;
  options.transport = transport;
  Result<Compiled> compiled = compile(*printed.source, options);
  if (!compiled)
    return badInput("{}", printed.source->diags.str());
  printed.title = "@" + compiled->program->name();
  printed.compiled = *compiled;
  Result<std::vector<Plan>> plans = makePlans(*compiled);
  if (!plans)
    return printed.source->diags.hasErrors() ? badInput("{}", printed.source->diags.str())
                                             : plans.status();
  printed.plans = std::move(*plans);
  return printed;
}

/// A program may stand alone if it does not say what it implements.
Result<PrintedProgram> readAgain(const std::string &name, const std::string &text,
                                 Transport transport) {
  const auto [head, rest] = llvm::StringRef(text).split(" implements @");
  const auto [fusion, body] = rest.split(' ');
  const bool isFirst = !rest.empty() && !head.contains('\n');
  PrintedProgram printed =
      BRAID_TRY(parseAgain(name, isFirst ? (head + " " + body).str() : text, transport));
  printed.program = text;
  return printed;
}

Result<PrintedProgram> printAgain(const Compiled &compiled) {
  const std::string program = str(*compiled.program);
  if (!compiled.isLowered) {
    PrintedProgram inFile;
    inFile.title = "@" + compiled.program->name();
    inFile.lines = linesOf(compiled.source->diags.text());
    inFile.program = program;
    inFile.compiled = compiled;
    inFile.plans = BRAID_TRY(makePlans(compiled));
    return inFile;
  }
  const std::string fusion = compiled.fusion ? str(*compiled.fusion) + "\n" : "";
  PrintedProgram printed = BRAID_TRY(parseAgain("page", fusion + program, compiled.transport));
  printed.program = program;
  return printed;
}

Page pageOf(const PrintedProgram &program, llvm::ArrayRef<Plan> plans, uint32_t runs) {
  Page page;
  page.title = program.title;
  page.text = program.lines;
  page.program = program.program;
  const Signals signals(plans);
  for (const Plan &plan : plans)
    page.ranks.push_back(
        RankWriter(plan, signals, static_cast<uint32_t>(page.text.size())).write(runs));
  for (Rank &rank : page.ranks)
    for (Command &command : rank.commands)
      if (command.kind == Kind::Await && command.cause.isValid())
        command.cause.command +=
            (command.run - 1) *
            static_cast<uint32_t>(plans[static_cast<size_t>(command.cause.rank)].commands.size());
  return page;
}

} // namespace braid::view
