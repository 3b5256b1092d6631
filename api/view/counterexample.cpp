//===- api/view/counterexample.cpp - pages about what the checker found -----------------------===//

#include "api/view/counterexample.h"

#include "api/view/steps.h"
#include "runtime/plan/spell_out.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

namespace braid::view {
namespace {

std::string asSentence(llvm::StringRef words) {
  std::string text = words.rtrim().str();
  if (!text.empty())
    text[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(text[0])));
  return text.empty() || text.back() == '.' ? text : text + ".";
}

/// "signal of "%s = p2p send ..."", of a command as messages name it: "rank 1, main, run 1: ... at
/// page:9:3".
std::string withoutPlace(llvm::StringRef command) {
  const llvm::StringRef what = command.split(": ").second;
  return what.rsplit(" at ").first.str();
}

/// As many runs as the accused are in.
uint32_t runsOf(const CheckReport &report) {
  uint32_t runs = 1;
  if (report.violation)
    for (const CheckedEvent &event : report.violation->events)
      runs = std::max(runs, event.run);
  return std::min<uint32_t>(runs, 4);
}

/// In words, and on the arrow from the one that does harm if it comes first.
void addOrders(Page &page, const Violation &violation) {
  const size_t first = violation.staleIfFirst + 1, second = 3 - first;
  const std::string harm = fmt::format("if {} comes before {}, {}", first, second, violation.stale);
  page.marks[violation.staleIfFirst].arrow = harm;
  page.findings.push_back(asSentence(
      fmt::format("{}; if {} comes before {}, {}", harm, second, first, violation.otherwise)));
}

/// Where the page has an event's command; the caller has none, and a node may have several.
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

void addViolation(Page &page, const Violation &violation, llvm::ArrayRef<Plan> plans) {
  page.isFailure = true;
  page.findings.push_back(
      asSentence(fmt::format("{}: {}", name(violation.rule).str(), violation.summary)));
  for (const CheckedEvent &event : violation.events) {
    Mark mark{.command = commandOf(page, event, plans),
              .line = event.line <= page.text.size() ? event.line : 0,
              .name = event.text};
    std::string waits = event.detail.empty() ? "" : " " + event.detail;
    if (!event.waitsFor.empty()) {
      waits = fmt::format(" waits for {}, which is queued behind {}", event.waitsFor, event.behind);
      mark.arrow = withoutPlace(event.waitsFor);
    }
    mark.text = asSentence(event.text + waits);
    page.marks.push_back(std::move(mark));
  }
  if (violation.rule == CheckRule::Deadlock)
    page.relation = Page::Relation::Circle;
  else if (violation.isUnordered())
    page.relation = Page::Relation::Pair;
  if (page.relation == Page::Relation::Pair && !violation.stale.empty())
    addOrders(page, violation);
  for (const std::string &note : violation.notes)
    page.findings.push_back(asSentence(note));
}

} // namespace

Page counterexamplePage(const PrintedProgram &program, const CheckReport &report) {
  const std::vector<Plan> plans = report.isOfMessages ? spellOut(program.plans) : program.plans;
  Page page = pageOf(program, plans, runsOf(report));
  page.unit = "step";
  if (report.violation)
    addViolation(page, *report.violation, plans);
  else
    page.findings.push_back(asSentence(str(report)));
  page.subtitle =
      fmt::format("checked on {} ranks, {} runs; an order in which commands can run, one step each",
                  report.ranks, report.runs);
  const bool isStuck = report.violation && report.violation->rule == CheckRule::Deadlock;
  page.timings.push_back(stepsOf(page, isStuck ? report.queues : 0));
  return page;
}

} // namespace braid::view
