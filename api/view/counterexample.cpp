//===- api/view/counterexample.cpp - pages that show the checker's results --------------------===//

#include "api/view/pages.h"
#include "runtime/plan/spell_out.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>

namespace braid::view {
namespace {

std::string asSentence(llvm::StringRef words) {
  std::string text = words.rtrim().str();
  if (!text.empty())
    text[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(text[0])));
  return text.empty() || text.back() == '.' ? text : text + ".";
}

/// Returns the number of runs up to the violation's last event, but at most 4.
uint32_t runsOf(const CheckReport &report) {
  uint32_t runs = 1;
  if (report.violation)
    for (const CheckedEvent &event : report.violation->events)
      runs = std::max(runs, event.run);
  return std::min<uint32_t>(runs, 4);
}

/// Returns an event's command, or an invalid reference if the event belongs to the caller.
CommandRef commandOf(const Page &page, const CheckedEvent &event, llvm::ArrayRef<Plan> plans) {
  const auto rank = static_cast<size_t>(event.rank);
  if (event.command == kNone || rank >= plans.size())
    return {};
  const uint32_t command =
      (event.run - 1) * static_cast<uint32_t>(plans[rank].commands.size()) + event.command;
  return command < page.ranks[rank].commands.size()
             ? CommandRef{static_cast<int32_t>(rank), command}
             : CommandRef();
}

std::string sentenceOf(const CheckedEvent &event) {
  if (!event.waitsFor.empty())
    return asSentence(fmt::format("{} waits for {}, which is queued after {}", event.text,
                                  event.waitsFor, event.behind));
  return asSentence(event.text + (event.detail.empty() ? "" : " " + event.detail));
}

void addViolation(Page &page, const Violation &violation, llvm::ArrayRef<Plan> plans) {
  page.isFailure = true;
  page.findings.push_back(
      asSentence(fmt::format("{}: {}", name(violation.rule).str(), violation.summary)));
  for (const CheckedEvent &event : violation.events)
    page.marks.push_back({.command = commandOf(page, event, plans),
                          .text = sentenceOf(event),
                          .line = event.line <= page.text.size() ? event.line : 0});
  page.areMarksLinked = violation.rule == CheckRule::Deadlock || violation.isUnordered();
  if (violation.isUnordered() && !violation.stale.empty()) {
    const size_t first = violation.staleIfFirst + 1, second = 3 - first;
    page.findings.push_back(
        asSentence(fmt::format("if {} comes before {}, {}; if {} comes before {}, {}", first,
                               second, violation.stale, second, first, violation.otherwise)));
  }
  for (const std::string &note : violation.notes)
    page.findings.push_back(asSentence(note));
}

/// Commands that execute in order.
struct Queue {
  int32_t rank;
  std::vector<uint32_t> commands = {};
  size_t next = 0;
  CommandRef head() const { return {rank, commands[next]}; }
  bool isDone() const { return next == commands.size(); }
};

std::vector<Queue> queuesOf(const Page &page, uint32_t queues) {
  std::vector<Queue> all;
  for (size_t number = 0; number < page.ranks.size(); ++number) {
    const Rank &rank = page.ranks[number];
    const size_t count = queues == 0 ? rank.streams.size() : queues, first = all.size();
    all.resize(first + count, {static_cast<int32_t>(number)});
    for (uint32_t i = 0; i < rank.commands.size(); ++i)
      all[first + rank.commands[i].stream % count].commands.push_back(i);
  }
  return all;
}

} // namespace

Timing stepsOf(const Page &page, uint32_t queues) {
  Timing timing{.name = "order"};
  for (const Rank &rank : page.ranks)
    timing.spans.emplace_back(rank.commands.size());
  auto span = [&](CommandRef ref) -> Span & {
    return timing.spans[static_cast<size_t>(ref.rank)][ref.command];
  };
  std::vector<Queue> all = queuesOf(page, queues);
  for (double step = 0;; ++step) {
    std::vector<Queue *> moving;
    for (Queue &queue : all) {
      if (queue.isDone())
        continue;
      const CommandRef head = queue.head();
      const CommandRef cause =
          page.ranks[static_cast<size_t>(head.rank)].commands[head.command].cause;
      if (std::isnan(span(head).begin))
        span(head).begin = step;
      if (!cause.isValid() || span(cause).end <= step) // false if `cause` has not ended
        moving.push_back(&queue);
    }
    if (moving.empty()) {
      timing.total = step;
      return timing;
    }
    for (Queue *queue : moving) {
      span(queue->head()).end = step + 1;
      ++queue->next;
    }
  }
}

Page counterexamplePage(const PrintedProgram &program, const CheckReport &report) {
  const std::vector<Plan> plans = report.isOfMessages ? spellOut(program.plans) : program.plans;
  Page page = pageOf(program, plans, runsOf(report));
  page.unit = "step";
  if (report.violation)
    addViolation(page, *report.violation, plans);
  else
    page.findings.push_back(asSentence(str(report)));
  page.subtitle = fmt::format("checked on {} ranks, {} runs; the page shows one possible order of "
                              "the commands, with one command per step",
                              report.ranks, report.runs);
  const bool isStuck = report.violation && report.violation->rule == CheckRule::Deadlock;
  page.timings.push_back(stepsOf(page, isStuck ? report.queues : 0));
  return page;
}

} // namespace braid::view
