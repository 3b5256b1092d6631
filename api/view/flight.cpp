//===- api/view/flight.cpp - pages about flight records ---------------------------------------===//

#include "api/view/flight.h"

#include "ir/failure.h"
#include "ir/text_numbers.h"
#include "runtime/job/flight_page.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringSwitch.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace braid::view {
namespace {

Kind kindOf(const std::string &name) {
  return llvm::StringSwitch<Kind>(name)
      .Case("copy", Kind::Copy)
      .Case("matmul", Kind::Gemm)
      .Cases("sum", "pointwise", Kind::Compute)
      .Case("signal", Kind::Signal)
      .Case("await", Kind::Await)
      .Case("record", Kind::Record)
      .Case("wait_event", Kind::WaitEvent)
      .Default(Kind::Message);
}

uint64_t firstMoment(llvm::ArrayRef<FlightRecord> records) {
  uint64_t first = ~uint64_t(0);
  for (const FlightRecord &record : records)
    for (const FlightSnapshot &entry : record.flight)
      first = std::min(first, entry.beginNs);
  return first;
}

/// The line of the command's node: `lines` are the nodes that records name.
uint32_t lineOf(const FlightRecord &record, const FlightCommand *command, TextNumbers &lines) {
  if (!command || command->node >= record.nodes.size())
    return 0;
  const FlightNode &node = record.nodes[command->node];
  return 1 + lines.number(node.place == node.text
                              ? node.text
                              : fmt::format("{}    // {}", node.text, node.place));
}

/// Each entry of the flight ring is a command.
Rank rankOf(const FlightRecord &record, TextNumbers &lines, uint64_t first,
            std::vector<Span> &spans) {
  Rank rank;
  rank.numbers = {record.rank};
  rank.streams = record.streams;
  auto micros = [first](uint64_t ns) {
    return ns >= first ? static_cast<double>(ns - first) / 1e3 : 0;
  };
  for (const FlightSnapshot &entry : record.flight) {
    const FlightCommand *known = record.find(entry.id.command);
    if (!known)
      continue;
    Command command{.kind = kindOf(known->kind), .stream = known->stream, .run = entry.id.run};
    command.line = lineOf(record, known, lines);
    command.peer = known->peer;
    command.trips = fmt::format("{}", fmt::join(known->trips, ", "));
    rank.commands.push_back(std::move(command));
    spans.push_back({micros(entry.beginNs), entry.endNs == 0 ? kDidNotRun : micros(entry.endNs)});
  }
  return rank;
}

/// The page's command of `rank` in which it stood, if the ring still has it.
CommandRef standingOf(const FlightRecord &record, const FlightRow &row, size_t rank) {
  CommandRef standing;
  uint32_t shown = 0;
  for (const FlightSnapshot &entry : record.flight) {
    if (!record.find(entry.id.command))
      continue;
    if (row.current == entry.id)
      standing = {static_cast<int32_t>(rank), shown};
    ++shown;
  }
  return standing;
}

/// Where each rank stood; whoever failed first is shown first.
void addMarks(Page &page, const FlightPage &flight, llvm::ArrayRef<const FlightRecord *> byRank,
              TextNumbers &lines) {
  for (size_t i = 0; i < byRank.size(); ++i) {
    const FlightRow &row = flight.rows[i];
    const std::string time = row.forMs ? fmt::format(", for {:.0f} ms", *row.forMs) : "";
    const bool isCause = flight.cause && flight.cause->rank == row.rank;
    const FlightCommand *command = row.current ? byRank[i]->find(row.current->command) : nullptr;
    page.marks.insert(isCause ? page.marks.begin() : page.marks.end(),
                      {.command = standingOf(*byRank[i], row, i),
                       .text = fmt::format("Rank {}{}: {}.", row.rank, time, row.in),
                       .line = lineOf(*byRank[i], command, lines)});
  }
}

void addFindings(Page &page, const FlightPage &flight) {
  if (flight.cause)
    page.findings.push_back(
        fmt::format("First cause{}: {}",
                    flight.cause->rank < 0 ? "" : fmt::format(", of rank {}", flight.cause->rank),
                    flight.cause->text));
  if (!flight.missing.empty())
    page.findings.push_back(fmt::format("There is no record of {}.", rangesText(flight.missing)));
  if (!flight.difference)
    return;
  std::vector<int64_t> past, in, before;
  for (const FlightStanding &each : flight.difference->standings)
    (each.state == PointState::Completed ? past
     : each.state == PointState::In      ? in
                                         : before)
        .push_back(each.rank);
  auto text = [](llvm::ArrayRef<int64_t> ranks) {
    return ranks.empty() ? "none" : rangesText(ranks);
  };
  page.findings.push_back(fmt::format(
      "Ranks differ first in run {} at {}: completed by {}, under way on {}, not begun on {}.",
      flight.difference->run, flight.difference->node, text(past), text(in), text(before)));
}

} // namespace

Result<Page> flightPage(llvm::ArrayRef<FlightRecord> records, llvm::ArrayRef<std::string> names) {
  const FlightPage flight = BRAID_TRY(merge(records, names));
  std::vector<const FlightRecord *> byRank;
  for (const FlightRecord &record : records)
    byRank.push_back(&record);
  llvm::sort(byRank, [](const auto *a, const auto *b) { return a->rank < b->rank; });
  Page page;
  page.title = flight.program.empty() ? "a job without a program" : "@" + flight.program;
  page.isFailure = true;
  page.subtitle = fmt::format("flight records of {} of {} ranks of job {}", records.size(),
                              flight.ranks, flight.job);
  TextNumbers lines;
  Timing timing{.name = "recorded"};
  const uint64_t first = firstMoment(records);
  for (const FlightRecord *record : byRank)
    page.ranks.push_back(rankOf(*record, lines, first, timing.spans.emplace_back()));
  addFindings(page, flight);
  addMarks(page, flight, byRank, lines);
  page.text = lines.texts();
  for (const auto &spans : timing.spans)
    for (const Span &span : spans)
      timing.total = std::max({timing.total, span.begin, span.end == span.end ? span.end : 0});
  page.timings.push_back(std::move(timing));
  return page;
}

} // namespace braid::view
