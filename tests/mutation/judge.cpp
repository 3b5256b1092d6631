//===- tests/mutation/judge.cpp - compares the checker's verdict with executions --------------===//

#include "tests/mutation/judge.h"

#include "tests/mutation/trial.h"
#include "tests/support/alike.h"
#include "tests/support/number_from.h"

#include <fmt/format.h>

#include <algorithm>

namespace braid::test {
namespace {

constexpr uint32_t kCheckedRuns = 3;
constexpr uint32_t kMoreRuns = 5; ///< a proof for kCheckedRuns runs must also hold for this many
constexpr uint32_t kCompleteLimit = 300;

/// The number of orders to try if streams share queues. In orders_test.cpp, this many orders expose
/// more than half of the races.
constexpr uint32_t kFewestOrders = 20;

uint32_t randomOrders() {
  static const auto orders = static_cast<uint32_t>(numberFrom("BRAID_ORDERS", 60));
  return orders;
}

/// Describes violations of the definition of safety that need not make a run fail. Rejecting such a
/// mutant is correct even if every order of its commands gives the right result.
struct DefinitionOnly {
  CheckRule rule;
  const char *text; ///< part of the violation's summary or of a note
  const char *reason;
};
constexpr DefinitionOnly kDefinitionOnly[] = {
    {CheckRule::Result, "already computed in the same run",
     "computes a part of an output twice, with the same value"},
    {CheckRule::Result, "reads data that no command has written",
     "reads bytes that nothing wrote, but no output depends on them"},
    {CheckRule::Result, "a command reads bytes that it also writes",
     "computes in place, which a library that copies its operands first gets right"},
    {CheckRule::Result, "it has the biased",
     "adds the bias to a partial result, which is then rounded with it"},
    {CheckRule::Transfers, "share flag",
     "two transfers share a flag, but the right signal comes first in every order"},
    {CheckRule::Transfers, "signaled again",
     "signals a flag again before it was awaited, which flags that count runs do not mind"},
};

/// Returns the backend's action for an event, or nullopt for the end of a buffer's lifetime, for
/// which the backend issues no command.
std::optional<Action> actionOf(const CheckedEvent &event) {
  llvm::StringRef text = event.text;
  if (event.command != kNone)
    return Action{event.rank, event.run, event.command};
  if (text.contains("the caller writes"))
    return Action{event.rank, event.run, kCallerWrites};
  if (text.contains("the caller reads"))
    return Action{event.rank, event.run, kCallerReads};
  return std::nullopt;
}

/// Returns true if the violation involves the end of a buffer's lifetime.
bool isAboutAnEnd(const Violation &violation) {
  return violation.rule == CheckRule::Lifetime ||
         (violation.rule == CheckRule::Race &&
          std::any_of(violation.events.begin(), violation.events.end(),
                      [](const CheckedEvent &event) { return !actionOf(event); }));
}

/// Returns true if `first` ran before `second` and the two actions conflict.
bool cameBefore(llvm::ArrayRef<Step> steps, const Action &first, const Action &second) {
  for (size_t i = 0; i < steps.size(); ++i)
    for (size_t j = i + 1; steps[i].action == first && j < steps.size(); ++j)
      if (steps[j].action == second && conflict(steps[i], steps[j]))
        return true;
  return false;
}

/// Returns the reason why no run needs to confirm the rejection, or an empty string if a run must
/// confirm it.
std::string definitionOnly(const Violation &violation) {
  if (isAboutAnEnd(violation))
    return "used after its end, but nothing else was given the memory";
  const std::string text =
      fmt::format("{}\n{}", violation.summary, fmt::join(violation.notes, "\n"));
  for (const DefinitionOnly &known : kDefinitionOnly)
    if (violation.rule == known.rule && text.find(known.text) != std::string::npos)
      return known.reason;
  return "";
}

/// Returns a text that contains everything in the mutant's Plans that the checker or the backend
/// uses.
std::string fingerprint(const Mutant &mutant) {
  std::string text;
  for (const Plan &plan : mutant.plans) {
    text += str(plan);
    for (const PlanBuffer &b : plan.buffers)
      text += fmt::format("b {} {} {}\n", static_cast<int>(b.kind), b.bytes, b.offset);
    for (const Endpoint &e : plan.endpoints)
      text += fmt::format("e {} {} {} {} {} {} {} {} {}\n", static_cast<int>(e.direction),
                          static_cast<int>(e.protocol), e.peer, e.channel, e.sequence, e.flag,
                          e.range.buffer, e.range.offset, e.range.bytes);
    for (const PlanRelease &r : plan.releases)
      text += fmt::format("r {} {} {}\n", r.buffer, r.beforeCommand, r.stream);
    text += fmt::format("c {}\n", plan.channels);
  }
  return text;
}

/// Returns the peer's signal that completes `await`, or nullopt if there is none.
std::optional<Action> signalFor(llvm::ArrayRef<Plan> plans, const Plan &plan,
                                const Command &await) {
  const Endpoint &mine = plan.endpoints[await.endpoint];
  const Plan &peer = plans[static_cast<size_t>(mine.peer)];
  for (uint32_t i = 0; i < peer.commands.size(); ++i) {
    if (peer.commands[i].kind != CommandKind::Signal)
      continue;
    const Endpoint &other = peer.endpoints[peer.commands[i].endpoint];
    if (other.peer == plan.rank && other.direction != mine.direction &&
        other.channel == mine.channel && other.sequence == mine.sequence)
      return Action{peer.rank, 1, i};
  }
  return std::nullopt;
}

/// Returns true if `first` ran and `second` did not run before it.
bool ranWithout(llvm::ArrayRef<Step> steps, const Action &first, const Action &second) {
  for (const Step &step : steps) {
    if (step.action == second)
      return false;
    if (step.action == first)
      return true;
  }
  return false;
}

} // namespace

Judgement Judge::judge(const Mutant &mutant) {
  Judgement judgement;
  if (mutant.plans.empty())
    return judgement;
  Result<CheckReport> report = checkManyBothWays(mutant.plans, original_.fusion, {0, kCheckedRuns});
  if (!report) {
    judgement.outcome = Outcome::Unproven;
    judgement.detail = report.status().message();
  } else if (!report->isSafe()) {
    judgement = judgeRejected(mutant, *report);
  } else {
    std::string key = fingerprint(mutant);
    auto known = harmless_.find(key);
    judgement = known != harmless_.end() ? known->second : judgeAccepted(mutant, report->queues);
    if (judgement.outcome == Outcome::Harmless)
      harmless_.emplace(key, judgement);
  }
  if (judgement.outcome == Outcome::Unsound || judgement.outcome == Outcome::Unproven)
    judgement.detail = fmt::format("{}\n{}: {}\n{}\n{}", original_.name, mutant.mutation,
                                   mutant.what, mutant.text, judgement.detail);
  return judgement;
}

//===- Accepted mutants -----------------------------------------------------------------------===//

Judgement Judge::judgeAccepted(const Mutant &mutant, uint32_t queues) {
  Judgement judgement;
  judgement.outcome = Outcome::Harmless;
  judgement.queues = queues;
  // The program must deadlock with fewer queues than the checker requires.
  for (uint32_t fewer = 1; fewer < queues; ++fewer) {
    Result<CheckReport> report = check(mutant.plans, original_.fusion, {fewer, kCheckedRuns});
    if (report && !report->isSafe() && isStuck(mutant, *report->violation, fewer))
      continue;
    judgement.outcome = Outcome::Unproven;
    judgement.detail = fmt::format("{} queues are said to be needed, {} do", queues, fewer);
    return judgement;
  }
  Status status = tryOrders(mutant, 0, judgement);
  if (status.isOk())
    status = tryOrders(mutant, queues, judgement);
  if (!status.isOk()) {
    judgement.outcome = Outcome::Unsound;
    judgement.detail = "accepted, but: " + status.message();
  }
  return judgement;
}

/// Tries random orders. If streams do not share queues, which would exclude most orders, also tries
/// all orders.
Status Judge::tryOrders(const Mutant &mutant, uint32_t queues, Judgement &judgement) {
  const uint32_t rounds = queues == 0 ? randomOrders() : kFewestOrders;
  RandomOrders random(rounds, 1 + queues);
  Status status = runTrial(original_, mutant.plans, random, {.queues = queues, .runs = kMoreRuns});
  if (!status.isOk() || queues != 0)
    return status;
  judgement.orders = rounds;
  AllOrders all(kCompleteLimit);
  status = runTrial(original_, mutant.plans, all, {.alwaysSameAddresses = true});
  judgement.isComplete = all.areComplete();
  return status;
}

bool Judge::isAlwaysRight(const Mutant &mutant) {
  AllOrders all(kCompleteLimit);
  return runTrial(original_, mutant.plans, all, {.alwaysSameAddresses = true}).isOk() &&
         all.areComplete();
}

//===- Rejected mutants -----------------------------------------------------------------------===//

Judgement Judge::judgeRejected(const Mutant &mutant, const CheckReport &report) {
  const Violation &violation = *report.violation;
  Judgement judgement;
  judgement.rule = violation.rule;
  judgement.outcome = Outcome::Guilty;
  if (isShown(mutant, violation))
    return judgement;
  judgement.reason = definitionOnly(violation);
  if (!judgement.reason.empty() && isAlwaysRight(mutant)) {
    judgement.outcome = Outcome::Condemned;
    return judgement;
  }
  judgement.outcome = Outcome::Unproven;
  judgement.detail = "rejected, but nothing shows why:\n" + str(report);
  return judgement;
}

bool Judge::isShown(const Mutant &mutant, const Violation &violation) {
  if (isAboutAnEnd(violation))
    return failsSomehow(mutant) || hasSeveralOrders(mutant);
  // If a command conflicts with itself, there are no two orders to compare.
  if (violation.rule == CheckRule::Race && violation.events.size() == 1)
    return failsSomehow(mutant);
  switch (violation.rule) {
  case CheckRule::Deadlock:
    return isStuck(mutant, violation, 0);
  case CheckRule::Race:
    return bothOrdersHappen(mutant, violation);
  case CheckRule::Transfers:
    return failsSomehow(mutant) || passesTooEarly(mutant);
  case CheckRule::Lifetime:
  case CheckRule::Result:
    return failsSomehow(mutant);
  }
  return false;
}

/// Returns true if the backend reports a deadlock and no command of the reported cycle has run.
bool Judge::isStuck(const Mutant &mutant, const Violation &violation, uint32_t queues) {
  if (violation.rule != CheckRule::Deadlock || violation.events.empty())
    return false;
  HoldBack order({}, 1);
  Status status = runTrial(original_, mutant.plans, order,
                           {.queues = queues, .compares = false, .alwaysSameAddresses = true});
  if (status.code() != StatusCode::TimedOut || status.message().rfind("deadlock", 0) != 0)
    return false;
  for (const CheckedEvent &event : violation.events)
    for (const Step &step : order.steps())
      if (actionOf(event) == step.action)
        return false;
  return true;
}

/// Runs one trial for each of the two commands, in which that command is delayed as long as
/// possible. Returns true if the other command runs first in both trials, and the commands
/// conflict.
bool Judge::bothOrdersHappen(const Mutant &mutant, const Violation &violation) {
  std::optional<Action> a = actionOf(violation.events[0]), b = actionOf(violation.events[1]);
  if (!a || !b)
    return false;
  auto happens = [&](const Action &first, const Action &second) {
    HoldBack order({second}, 1);
    Status status =
        runTrial(original_, mutant.plans, order, {.compares = false, .alwaysSameAddresses = true});
    return status.isOk() && cameBefore(order.steps(), first, second);
  };
  return happens(*a, *b) && happens(*b, *a);
}

/// Returns true if two commands conflict and can run in either order. The original program has no
/// such pair.
bool Judge::hasSeveralOrders(const Mutant &mutant) {
  AllOrders all(2);
  Status status =
      runTrial(original_, mutant.plans, all, {.compares = false, .alwaysSameAddresses = true});
  return status.isOk() && all.orders() >= 2;
}

bool Judge::failsSomehow(const Mutant &mutant) {
  RandomOrders random(randomOrders(), 7);
  return !runTrial(original_, mutant.plans, random, {}).isOk();
}

/// Delays the signal of each transfer in turn. Returns true if the matching await nevertheless
/// completes before the signal, or if the run fails.
bool Judge::passesTooEarly(const Mutant &mutant) {
  for (const Plan &plan : mutant.plans)
    for (uint32_t i = 0; i < plan.commands.size(); ++i) {
      if (plan.commands[i].kind != CommandKind::Await)
        continue;
      std::optional<Action> signal = signalFor(mutant.plans, plan, plan.commands[i]);
      if (!signal)
        continue;
      HoldBack order({*signal}, 1);
      Status status = runTrial(original_, mutant.plans, order,
                               {.compares = false, .alwaysSameAddresses = true});
      if (!status.isOk() || ranWithout(order.steps(), {plan.rank, 1, i}, *signal))
        return true;
    }
  return false;
}

} // namespace braid::test
