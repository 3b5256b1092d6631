//===- api/view/of_plans.cpp - pages that show a program's Plans ------------------------------===//

#include "api/view/pages.h"

#include "api/compile/plans.h"
#include "ir/failure.h"
#include "ir/program.h"
#include "runtime/plan/alike_ranks.h"

#include "llvm/ADT/StringExtras.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>

namespace braid::view {
namespace {

/// Returns the number of bytes that a command writes.
int64_t bytesOf(const Plan &plan, const braid::Command &command) {
  int64_t bytes = 0;
  forEachOperand(plan, command, [&](const Range &range, Access access, OperandRole) {
    bytes += access == Access::Write ? range.bytes : 0;
  });
  return bytes;
}

/// Converts Plans to the commands of a page, one run at a time.
class CommandWriter {
public:
  CommandWriter(llvm::ArrayRef<Plan> plans, size_t lines)
      : plans_(plans), lines_(static_cast<uint32_t>(lines)) {
    for (size_t rank = 0; rank < plans.size(); ++rank)
      for (uint32_t i = 0; i < plans[rank].commands.size(); ++i)
        if (const braid::Command &command = plans[rank].commands[i];
            command.kind == CommandKind::Signal)
          signals_[keyOf(plans[rank], plans[rank].endpoints[command.endpoint])] = {
              static_cast<int32_t>(rank), i};
  }

  Rank write(size_t index, uint32_t runs) {
    const Plan &plan = plans_[index];
    Rank rank{plan.rank, plan.streams, {}};
    std::vector<CommandRef> records(plan.events); // the latest Record command of each event
    for (uint32_t run = 1; run <= runs; ++run)
      for (const braid::Command &from : plan.commands) {
        Command command = commandOf(plan, from);
        command.run = run;
        if (from.kind == CommandKind::Record)
          records[from.event] = {static_cast<int32_t>(index),
                                 static_cast<uint32_t>(rank.commands.size())};
        if (from.kind == CommandKind::WaitEvent)
          command.cause = records[from.event];
        if (from.kind == CommandKind::Await)
          command.cause = signalOf(plan, plan.endpoints[from.endpoint], run);
        rank.commands.push_back(std::move(command));
      }
    return rank;
  }

private:
  Command commandOf(const Plan &plan, const braid::Command &from) const {
    const Origin &origin = plan.origins[from.origin];
    const uint32_t line = lineOf(plan, from.origin);
    const auto *first = plan.trips.data() + origin.firstTrip;
    return {.kind = from.kind,
            .stream = from.stream,
            .line = line <= lines_ ? line : 0,
            .peer = from.endpoint == kNone ? -1 : plan.endpoints[from.endpoint].peer,
            .bytes = bytesOf(plan, from),
            .trips = fmt::format("{}", fmt::join(first, first + origin.tripCount, ", "))};
  }

  /// Returns the command that sends the signal that `endpoint` awaits in `run`.
  CommandRef signalOf(const Plan &plan, const Endpoint &endpoint, uint32_t run) const {
    const auto period = static_cast<int64_t>(plans_.size());
    const auto found = signals_.find(partnerKeyOf(plan, endpoint, period));
    if (found == signals_.end())
      return {};
    const size_t perRun = plans_[static_cast<size_t>(found->second.rank)].commands.size();
    return {found->second.rank, found->second.command + (run - 1) * static_cast<uint32_t>(perRun)};
  }

  llvm::ArrayRef<Plan> plans_;
  const uint32_t lines_; ///< number of lines in the page's text
  std::map<EndpointKey, CommandRef> signals_;
};

Result<PrintedProgram> parseAgain(const std::string &name, const std::string &text,
                                  Transport transport, std::string program) {
  std::unique_ptr<Source> source = parseSource(name, text);
  const Compiled compiled = BRAID_TRY(compile(*source, {.transport = transport}));
  std::vector<Plan> plans = BRAID_TRY(makePlans(compiled));
  return PrintedProgram{std::move(program), std::move(source), compiled, std::move(plans)};
}

} // namespace

/// Drops "implements @FUSION", because the text does not contain the fusion.
Result<PrintedProgram> readAgain(const std::string &name, const std::string &text,
                                 Transport transport) {
  const auto [head, rest] = llvm::StringRef(text).split(" implements @");
  const auto [fusion, body] = rest.split(' ');
  const bool isFirst = !rest.empty() && !head.contains('\n');
  return parseAgain(name, isFirst ? (head + " " + body).str() : text, transport, text);
}

Result<PrintedProgram> printAgain(const Compiled &compiled) {
  const std::string program = str(*compiled.program);
  if (!compiled.isLowered) {
    std::vector<Plan> plans = BRAID_TRY(makePlans(compiled));
    return PrintedProgram{program, nullptr, compiled, std::move(plans)};
  }
  const std::string fusion = compiled.fusion ? str(*compiled.fusion) + "\n" : "";
  return parseAgain("page", fusion + program, compiled.transport, program);
}

Page pageOf(const PrintedProgram &program, llvm::ArrayRef<Plan> plans, uint32_t runs) {
  Page page;
  page.title = "@" + plans.front().program;
  const llvm::StringRef text = program.compiled.source->diags.text();
  for (llvm::StringRef line : llvm::split(text.rtrim(), '\n'))
    page.text.push_back(line.str());
  page.program = program.program;
  CommandWriter writer(plans, page.text.size());
  for (size_t rank = 0; rank < plans.size(); ++rank)
    page.ranks.push_back(writer.write(rank, runs));
  return page;
}

} // namespace braid::view
