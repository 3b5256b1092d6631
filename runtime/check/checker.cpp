//===- runtime/check/checker.cpp - proves Plans safe or finds a violation ---------------------===//

#include "runtime/check/checker.h"

#include "ir/counted.h"
#include "ir/failure.h"
#include "runtime/check/history.h"
#include "runtime/check/messages.h"
#include "runtime/check/provenance.h"
#include "runtime/check/races.h"
#include "runtime/check/transfers.h"
#include "runtime/plan/spell_out.h"

#include "llvm/ADT/STLExtras.h"

#include <fmt/format.h>

#include <algorithm>

namespace braid {

using namespace checker;

llvm::StringRef name(CheckRule rule) {
  constexpr llvm::StringLiteral kNames[] = {"transfers", "deadlock", "race", "lifetime", "result"};
  return kNames[static_cast<size_t>(rule)];
}

namespace {

/// Describes a deadlock. `queues` is 0 if the deadlock occurs with any number of queues.
Violation deadlock(const History &history, const Execution &stuck, uint32_t queues) {
  Violation violation{CheckRule::Deadlock, "", {}, {}};
  for (size_t i = 0; i < stuck.cycle.size(); ++i) {
    CheckedEvent event = history.describe(stuck.cycle[i]);
    const EventId cause = history.event(stuck.cycle[i]).cause;
    const EventId ahead = stuck.cycle[(i + 1) % stuck.cycle.size()];
    if (cause == kNever) {
      violation.notes.push_back("no command ever sends the awaited signal");
    } else {
      event.waitsFor = history.describe(cause).text;
      event.behind = history.describe(ahead).text;
    }
    violation.events.push_back(std::move(event));
  }
  violation.summary = fmt::format("with {} per rank, no rank can make progress",
                                  queues == 0 ? "any number of hardware queues"
                                              : counted(queues, "hardware queue"));
  return violation;
}

/// Returns the smallest number of queues without a deadlock. If there is a cycle even with one
/// queue per stream, returns 0 and leaves the cycle in `execution`.
uint32_t smallestSafeQueues(const History &history, uint32_t streams, Execution &execution,
                            const ProgressFn &progress) {
  for (uint32_t queues = 1; queues <= streams; ++queues) {
    execution = execute(history, queues, progress);
    if (execution.cycle.empty())
      return queues;
  }
  return 0;
}

uint32_t mostStreams(llvm::ArrayRef<Plan> plans) {
  size_t most = 1;
  for (const Plan &plan : plans)
    most = std::max(most, plan.streams.size());
  return static_cast<uint32_t>(most);
}

/// Returns the number of transfers in one run, excluding messages.
size_t transfersOf(llvm::ArrayRef<Plan> plans) {
  size_t endpoints = 0;
  for (const Plan &plan : plans)
    endpoints += plan.endpoints.size();
  return endpoints / 2;
}

/// Checks Plans whose groups and collectives have been expanded.
class Check {
public:
  Check(llvm::ArrayRef<Plan> plans, const Fusion *fusion, bool relyOnMeetings,
        const CheckOptions &options)
      : plans_(plans), fusion_(fusion), relyOnMeetings_(relyOnMeetings), options_(options) {}

  Result<CheckReport> run() {
    CheckReport report;
    report.ranks = static_cast<int64_t>(plans_.size());
    report.runs = options_.runs;
    report.seamsChecked = options_.runs > 1;
    for (const Plan &plan : plans_)
      report.commands += commandsToCheck(plan, options_.runs);
    report.transfers = transfersOf(plans_);
    report.violation = matchTransfers(plans_, partners_, options_.progress);
    if (report.violation)
      return report;
    const Alike each{report.ranks};
    const Alike alike = options_.eachRank ? each : checker::findAlike(plans_, partners_);
    if (alike.period == each.period)
      return follow(each, report);
    Result<CheckReport> ofAlike = follow(alike, report);
    if (!ofAlike || ofAlike->isSafe())
      return ofAlike;
    Result<CheckReport> ofAll = follow(each, report);
    return ofAll ? ofAll
                 : ofAll.status().annotated(
                       "the program was not proved safe, and the reason could not be determined");
  }

private:
  Result<CheckReport> follow(Alike alike, CheckReport report) const {
    BRAID_TRY(expectRoom(plans_, alike.period, options_.runs));
    const ProgressFn &progress = options_.progress;
    const History history(plans_, partners_, options_.runs, alike, progress);
    const Execution execution = execute(history, report);
    if (!report.violation)
      report.violation =
          findRace(history, execution.order, relyOnMeetings_, report.accesses, progress);
    if (report.violation)
      return report;
    report.violation = findWrongResult(history, execution.order, fusion_, options_.ordered,
                                       report.resultNotChecked, progress);
    report.resultChecked = report.resultNotChecked.empty();
    report.orderChecked = report.resultChecked && options_.ordered;
    return report;
  }

  Execution execute(const History &history, CheckReport &report) const {
    Execution execution;
    const uint32_t streams = mostStreams(plans_);
    const bool share =
        options_.queues == 0 && options_.ownQueues != 0 && streams > options_.ownQueues;
    const uint32_t queues = share ? 1 : options_.queues;
    report.queues = queues;
    if (queues != 0)
      execution = checker::execute(history, queues, options_.progress);
    else
      report.queues = smallestSafeQueues(history, streams, execution, options_.progress);
    if (!execution.cycle.empty())
      report.violation = deadlock(history, execution, queues);
    if (report.violation && share)
      report.violation->notes.push_back(
          fmt::format("{} streams share {} on this backend, and the assignment of streams to "
                      "queues is unknown",
                      streams, counted(options_.ownQueues, "hardware queue")));
    return execution;
  }

  llvm::ArrayRef<Plan> plans_;
  const Fusion *fusion_;
  const bool relyOnMeetings_;
  const CheckOptions &options_;
  Partners partners_;
};

bool sendsMessages(const Plan &plan) {
  return plan.mayHaveMessages() || !plan.groups.empty() || !plan.collectives.empty();
}

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
    return Check(plans, fusion, true, options).run();
  CheckReport report;
  report.violation = matchMessages(plans);
  if (!report.violation)
    report.violation = findUnprovable(plans, options.ordered, fusion != nullptr);
  if (report.violation)
    return report;
  // Ranks whose groups exchange messages wait for each other. If ranks also access each other's
  // memory, ordering must not rely on these waits, because a library may let a rank continue as
  // soon as its own messages are complete.
  const bool relyOnMeetings = transfersOf(plans) == 0;
  const std::vector<Plan> spelled = spellOut(plans);
  report = BRAID_TRY(Check(spelled, fusion, relyOnMeetings, options).run());
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
    text += fmt::format("    waits for {}\n    which is queued after {}\n", event.waitsFor,
                        event.behind);
  return text;
}

/// Returns the number of events after which a cycle repeats on other ranks, or its full length.
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

/// Formats a violation, with only the first repetitions of a cycle that repeats on other ranks.
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
    text += fmt::format("  and {} similar events\n", events.size() - shown);
  return text;
}

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
          ? fmt::format("  messages   {}all groups match; {} per rank, in the same order\n",
                        report.hosts > 1 ? fmt::format("{} of the transfers; ", report.messages)
                                         : "",
                        counted(int64_t(report.collectives), "collective"))
          : std::string();
  const std::string hosts =
      report.hosts > 1 ? fmt::format(" of {} hosts", report.hosts) : std::string();
  std::string text = fmt::format(
      "safe on {}{}, {}, {} commands\n"
      "  transfers  {} per run: each send matches one receive in size, type and order\n{}"
      "  deadlock   none, with {} per rank{}\n"
      "  races      none: {} memory accesses, every conflicting pair ordered\n",
      counted(report.ranks, "rank"), hosts, counted(report.runs, "successive run"), report.commands,
      report.transfers, messages, counted(report.queues, "hardware queue"),
      report.queues == 1 ? ", and therefore with any number" : "", report.accesses);
  if (!report.seamsChecked)
    text += "  seams      not checked: finding races between successive runs requires at least 2 "
            "runs\n";
  text +=
      report.resultChecked
          ? "  result     every output is computed once, from the correct blocks of the same run\n"
          : fmt::format("  result     not checked: {}\n", report.resultNotChecked);
  if (report.orderChecked)
    text += "  order      partial results are added in rank order, in a single sum\n";
  return text;
}

} // namespace braid
