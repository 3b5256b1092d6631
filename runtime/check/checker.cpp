//===- runtime/check/checker.cpp - proves the Plans of all ranks safe, or shows why not -------===//

#include "runtime/check/checker.h"

#include "ir/failure.h"
#include "runtime/check/alike.h"
#include "runtime/check/alike_races.h"
#include "runtime/check/history.h"
#include "runtime/check/messages.h"
#include "runtime/check/provenance.h"
#include "runtime/check/races.h"
#include "runtime/check/transfers.h"
#include "runtime/memory_limit.h"
#include "runtime/plan/spell_out.h"

#include "llvm/ADT/STLExtras.h"

#include <fmt/format.h>

#include <algorithm>

namespace braid {

using namespace checker;

llvm::StringRef name(CheckRule rule) {
  switch (rule) {
  case CheckRule::Transfers:
    return "transfers";
  case CheckRule::Deadlock:
    return "deadlock";
  case CheckRule::Race:
    return "race";
  case CheckRule::Lifetime:
    return "lifetime";
  case CheckRule::Result:
    return "result";
  }
  return "";
}

namespace {

/// `queues` is 0 if no number of them helps.
Violation deadlock(const History &history, const Execution &stuck, uint32_t queues) {
  Violation violation{CheckRule::Deadlock, "", {}, {}};
  for (size_t i = 0; i < stuck.cycle.size(); ++i) {
    CheckedEvent event = history.describe(stuck.cycle[i]);
    const EventId cause = history.event(stuck.cycle[i]).cause;
    const EventId ahead = stuck.cycle[(i + 1) % stuck.cycle.size()];
    if (cause == kNever) {
      violation.notes.push_back("nothing ever signals it");
    } else {
      event.waitsFor = history.describe(cause).text;
      event.behind = history.describe(ahead).text;
    }
    violation.events.push_back(std::move(event));
  }
  std::string count = queues == 0 ? "any number of" : std::to_string(queues);
  violation.summary =
      fmt::format("with {} hardware queue{} a rank, nobody goes on", count, queues == 1 ? "" : "s");
  return violation;
}

/// The smallest number of queues with which nothing gets stuck; or, with the cycle, none: what gets
/// stuck though every stream has a queue of its own does so with fewer, too.
uint32_t smallestSafeQueues(const History &history, uint32_t streams, Execution &execution,
                            const ProgressFn &progress) {
  execution = execute(history, 1, progress);
  if (execution.cycle.empty() || streams == 1)
    return execution.cycle.empty() ? 1 : 0;
  Execution apart = execute(history, streams, progress);
  for (uint32_t queues = 2; apart.cycle.empty() && queues < streams; ++queues) {
    execution = execute(history, queues, progress);
    if (execution.cycle.empty())
      return queues;
  }
  execution = std::move(apart);
  return execution.cycle.empty() ? streams : 0;
}

uint32_t mostStreams(llvm::ArrayRef<Plan> plans) {
  size_t most = 1;
  for (const Plan &plan : plans)
    most = std::max(most, plan.streams.size());
  return static_cast<uint32_t>(most);
}

double memoryOfAll(llvm::ArrayRef<Plan> plans) {
  double bytes = 0;
  for (const Plan &plan : plans)
    bytes += memoryOf(plan);
  return bytes;
}

/// The memory that the check takes besides the Plans if it follows the first `period` ranks only,
/// which represent all.
Result<double> expectRoom(llvm::ArrayRef<Plan> plans, const Fusion *fusion, uint32_t period,
                          const CheckReport &report) {
  double bytes = 0;
  size_t commands = 0;
  for (const Plan &plan : plans.take_front(period)) {
    bytes += memoryToCheck(plan, report.runs);
    commands += commandsToCheck(plan, report.runs);
  }
  for (const Plan &plan : plans.drop_front(period))
    bytes += memoryToCheckAlike(plan, fusion, report.runs);
  constexpr size_t kMostCommands = size_t(1) << 28; // event numbers have 32 bits
  if (commands > kMostCommands)
    return Status(StatusCode::Unsupported,
                  fmt::format("{} commands of {} rank{} in {} runs are more than the checker "
                              "follows; check fewer runs or ranks",
                              commands, period, period == 1 ? "" : "s", report.runs));
  BRAID_TRY(expectMemoryToCheck(bytes, report.ranks, report.runs));
  return bytes;
}

} // namespace

Status expectMemoryToCheck(double bytes, int64_t ranks, uint32_t runs) {
  return expectMemory(bytes,
                      fmt::format("checking {} run{} of {} rank{} takes", runs,
                                  runs == 1 ? "" : "s", ranks, ranks == 1 ? "" : "s"),
                      "check fewer runs or ranks");
}

namespace {

/// Transfers of one run, without messages.
size_t transfersOf(llvm::ArrayRef<Plan> plans) {
  size_t endpoints = 0;
  for (const Plan &plan : plans)
    endpoints += plan.endpoints.size();
  return endpoints / 2;
}

/// Follows a history whose endpoints meet, and puts what it finds into the report.
class Following {
public:
  Following(llvm::ArrayRef<Plan> plans, const Partners &partners, const Fusion *fusion,
            bool relyOnMeetings, const CheckOptions &options, const ProgressFn &progress)
      : plans_(plans), partners_(partners), fusion_(fusion), relyOnMeetings_(relyOnMeetings),
        options_(options), progress_(progress) {}

  void follow(Alike alike, CheckReport &report) const {
    const History history(plans_, partners_, options_.runs, alike, progress_);
    Execution execution = run(history, report);
    if (!report.violation)
      report.violation = findRaceIn(history, execution.order, report.accesses);
    if (report.violation)
      return;
    report.violation = findWrongResult(history, execution.order, fusion_, options_.ordered,
                                       report.resultNotChecked, progress_);
    report.resultChecked = report.resultNotChecked.empty();
    report.orderChecked = report.resultChecked && options_.ordered;
  }

private:
  Execution run(const History &history, CheckReport &report) const {
    Execution execution;
    const uint32_t streams = mostStreams(plans_);
    const bool share =
        options_.queues == 0 && options_.ownQueues != 0 && streams > options_.ownQueues;
    const uint32_t queues = share ? 1 : options_.queues;
    report.queues = queues;
    if (queues != 0)
      execution = execute(history, queues, progress_);
    else
      report.queues = smallestSafeQueues(history, streams, execution, progress_);
    if (!execution.cycle.empty())
      report.violation = deadlock(history, execution, queues);
    if (report.violation && share)
      report.violation->notes.push_back(
          fmt::format("{} streams share {} hardware queues here, in a way that nobody knows",
                      streams, options_.ownQueues));
    return execution;
  }

  /// Without the order of meetings there is less order, so more races: what they alone show comes
  /// last.
  std::optional<Violation> findRaceIn(const History &history, llvm::ArrayRef<EventId> order,
                                      size_t &accesses) const {
    if (history.blocks() > 1)
      return findRaceOfAlike(history, order, relyOnMeetings_, accesses, progress_);
    std::optional<Violation> race = findRace(history, order, true, accesses, progress_);
    if (!race && !relyOnMeetings_)
      race = findRace(history, order, false, accesses, progress_);
    return race;
  }

  llvm::ArrayRef<Plan> plans_;
  const Partners &partners_;
  const Fusion *fusion_;
  const bool relyOnMeetings_;
  const CheckOptions &options_;
  const ProgressFn &progress_;
};

/// Checks Plans without groups and collectives, or with those spelled out. `bytes` is the size of
/// all existing Plans.
Result<CheckReport> checkSpelled(llvm::ArrayRef<Plan> plans, const Fusion *fusion,
                                 bool relyOnMeetings, double bytes, const CheckOptions &options) {
  CheckReport report;
  report.ranks = static_cast<int64_t>(plans.size());
  report.runs = options.runs;
  report.seamsChecked = options.runs > 1;
  for (const Plan &plan : plans)
    report.commands += commandsToCheck(plan, options.runs);
  report.transfers = transfersOf(plans);
  Partners partners;
  report.violation = matchTransfers(plans, partners, withMemory(options.progress, bytes));
  if (report.violation)
    return report;
  auto follow = [&](Alike alike, CheckReport of) -> Result<CheckReport> {
    const double more = BRAID_TRY(expectRoom(plans, fusion, alike.period, of));
    const ProgressFn progress = withMemory(options.progress, bytes + more);
    Following(plans, partners, fusion, relyOnMeetings, options, progress).follow(alike, of);
    return of;
  };
  const auto ranks = static_cast<uint32_t>(plans.size());
  const Alike each{ranks}, alike = options.eachRank ? each : findAlike(plans, partners);
  if (alike.period == ranks)
    return follow(each, report);
  Result<CheckReport> ofAlike = follow(alike, report);
  if (!ofAlike || ofAlike->isSafe())
    return ofAlike;
  Result<CheckReport> ofAll = follow(each, report);
  return ofAll ? ofAll : ofAll.status().annotated("not proved safe, and to say why");
}

bool sendsMessages(const Plan &plan) {
  return plan.mayHaveMessages() || !plan.groups.empty() || !plan.collectives.empty();
}

/// Messages of one run, over all ranks.
size_t messagesOf(llvm::ArrayRef<Plan> plans) {
  size_t count = 0;
  for (const Plan &plan : plans)
    for (const PlanGroup &group : plan.groups)
      count += llvm::count_if(
          group, [](const PlanMessage &message) { return message.direction == Direction::Send; });
  return count;
}

} // namespace

Result<CheckReport> check(llvm::ArrayRef<Plan> plans, const Fusion *fusion,
                          const CheckOptions &options) {
  if (plans.empty() || options.runs == 0)
    return Status(StatusCode::BadInput, "expected at least one rank and one run to check");
  if (!llvm::any_of(plans, sendsMessages))
    return checkSpelled(plans, fusion, true, memoryOfAll(plans), options);
  CheckReport report;
  report.violation = matchMessages(plans);
  if (!report.violation)
    report.violation = findUnprovable(plans, options.ordered, fusion != nullptr);
  if (report.violation)
    return report;
  // That all of a whole have come holds ranks up, and is no order that they may rely on where they
  // also reach each other's memory: a library may let a rank go on when its own messages are over.
  const bool relyOnMeetings = transfersOf(plans) == 0;
  const std::vector<Plan> spelled = spellOut(plans);
  report = BRAID_TRY(checkSpelled(spelled, fusion, relyOnMeetings,
                                  memoryOfAll(plans) + memoryOfAll(spelled), options));
  report.messages = messagesOf(plans);
  report.transfers = report.messages + transfersOf(plans);
  report.collectives = plans.front().collectives.size();
  report.hosts = plans.front().hosts();
  report.isOfMessages = true;
  return report;
}

namespace {

std::string str(const CheckedEvent &event) {
  std::string text = "  " + event.text + "\n";
  if (!event.detail.empty())
    text += "    " + event.detail + "\n";
  if (!event.waitsFor.empty())
    text += fmt::format("    waits for {}\n    which is queued behind {}\n", event.waitsFor,
                        event.behind);
  return text;
}

/// The number of events of a cycle after which it repeats on other ranks; all if it never repeats.
size_t repeatingEvents(llvm::ArrayRef<CheckedEvent> events) {
  auto doSame = [](const CheckedEvent &a, const CheckedEvent &b) {
    return a.command == b.command && a.line == b.line && a.run == b.run;
  };
  size_t count = 1;
  while (count < events.size() && !std::equal(events.begin() + count, events.end(), events.begin(),
                                              events.end() - count, doSame))
    ++count;
  return count;
}

/// Prints a violation. If ranks repeat each other in a cycle, only the first ones are printed.
std::string str(const Violation &violation) {
  constexpr size_t kShown = 3;
  const llvm::ArrayRef<CheckedEvent> events = violation.events;
  size_t shown = events.size();
  if (violation.rule == CheckRule::Deadlock && !events.empty()) {
    const size_t repeating = repeatingEvents(events);
    shown = repeating * ((kShown + repeating - 1) / repeating);
    shown = events.size() <= shown + repeating ? events.size() : shown;
  }
  std::string text;
  for (const CheckedEvent &event : events.take_front(shown))
    text += str(event);
  if (shown < events.size())
    text += fmt::format("  and {} more alike\n", events.size() - shown);
  return text;
}

/// Which order of a pair leaves data stale, of events that stand above it.
std::string orderOf(const Violation &violation) {
  auto inWords = [](const std::string &text) {
    std::string words;
    for (char c : text)
      words += c == '1' ? "the first" : c == '2' ? "the second" : std::string(1, c);
    return words;
  };
  const size_t first = violation.staleIfFirst + 1;
  return inWords(fmt::format("if {} comes before {}, {}", first, 3 - first, violation.stale));
}

} // namespace

std::string str(const CheckReport &report) {
  if (report.violation) {
    const Violation &v = *report.violation;
    std::string text = fmt::format("unsafe ({}): {}\n", name(v.rule).str(), v.summary);
    text += str(v);
    for (const std::string &note : v.notes)
      text += "  " + note + "\n";
    if (!v.stale.empty())
      text += "  " + orderOf(v) + "\n";
    return text;
  }
  const std::string messages =
      report.isOfMessages
          ? fmt::format(
                "  messages   {}groups meet as a whole; {} collectives a rank, in one order\n",
                report.hosts > 1 ? fmt::format("{} of these; ", report.messages) : "",
                report.collectives)
          : std::string();
  const std::string hosts =
      report.hosts > 1 ? fmt::format(" of {} hosts", report.hosts) : std::string();
  std::string text = fmt::format(
      "safe on {} rank{}{}, {} successive run{}, {} commands\n"
      "  transfers  {} a run: each send meets one receive, same bytes, type and order\n{}"
      "  deadlock   none, with {} hardware queue{} a rank{}\n"
      "  races      none: {} accesses to memory, every conflicting pair ordered\n",
      report.ranks, report.ranks == 1 ? "" : "s", hosts, report.runs, report.runs == 1 ? "" : "s",
      report.commands, report.transfers, messages, report.queues, report.queues == 1 ? "" : "s",
      report.queues == 1 ? ", so with any number" : "", report.accesses);
  if (!report.seamsChecked)
    text += "  seams      not looked at: what a run does to the next shows with 2 runs or more\n";
  text += report.resultChecked
              ? "  result     every output computed once, from the right blocks of its run\n"
              : fmt::format("  result     not checked: {}\n", report.resultNotChecked);
  if (report.orderChecked)
    text += "  order      partial results are added in the order of ranks, in one sum\n";
  return text;
}

} // namespace braid
