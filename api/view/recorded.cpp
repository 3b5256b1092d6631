//===- api/view/recorded.cpp - pages about the records of a failed job ------------------------===//

#include "api/view/recorded.h"

#include "ir/failure.h"
#include "ir/text_numbers.h"
#include "runtime/job/flight_page.h"

#include "llvm/ADT/STLExtras.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace braid::view {
namespace {

/// Builds the page; its text are the nodes that records name.
class Writer {
public:
  Writer(llvm::ArrayRef<FlightRecord> records, const FlightPage &flight)
      : records_(records), flight_(flight) {
    for (const FlightRecord &record : records)
      for (const FlightSnapshot &entry : record.flight)
        firstNs_ = std::min(firstNs_, entry.beginNs);
  }

  Page write() {
    page_.title = flight_.program.empty() ? "a job without a program" : "@" + flight_.program;
    page_.isFailure = true;
    page_.subtitle = fmt::format("flight records of {} of {} ranks of job {}", records_.size(),
                                 flight_.ranks, flight_.job);
    page_.timings.push_back({.name = "recorded"});
    for (const FlightRow &row : flight_.rows) // by rank
      addRank(*llvm::find_if(records_, [&](const auto &each) { return each.rank == row.rank; }),
              row);
    addFindings();
    page_.text = lines_.texts();
    return std::move(page_);
  }

private:
  /// Each entry of the flight ring is a command. The mark is the one in which the rank stood.
  void addRank(const FlightRecord &record, const FlightRow &row) {
    Timing &timing = page_.timings.front();
    Rank rank{record.rank, record.streams, {}};
    std::vector<Span> &spans = timing.spans.emplace_back();
    Mark mark;
    for (const FlightSnapshot &entry : record.flight) {
      const FlightCommand *known = record.find(entry.id.command);
      if (!known)
        continue;
      if (row.current == entry.id)
        mark.command = {static_cast<int32_t>(page_.ranks.size()),
                        static_cast<uint32_t>(rank.commands.size())};
      rank.commands.push_back({.kind = kindNamed(known->kind),
                               .stream = known->stream,
                               .line = lineOf(record, known),
                               .run = entry.id.run,
                               .peer = known->peer,
                               .trips = fmt::format("{}", fmt::join(known->trips, ", "))});
      const double end = entry.endNs == 0 ? kDidNotRun : micros(entry.endNs);
      spans.push_back({micros(entry.beginNs), end});
      timing.total = std::max({timing.total, micros(entry.beginNs), micros(entry.endNs)});
    }
    page_.ranks.push_back(std::move(rank));
    const std::string time = row.forMs ? fmt::format(", for {:.0f} ms", *row.forMs) : "";
    mark.text = fmt::format("Rank {}{}: {}.", row.rank, time, row.in);
    mark.line = lineOf(record, row.current ? record.find(row.current->command) : nullptr);
    const bool isCause = flight_.cause && flight_.cause->rank == row.rank;
    page_.marks.insert(isCause ? page_.marks.begin() : page_.marks.end(), mark);
  }

  double micros(uint64_t ns) const {
    return ns >= firstNs_ ? static_cast<double>(ns - firstNs_) / 1e3 : 0;
  }

  uint32_t lineOf(const FlightRecord &record, const FlightCommand *command) {
    if (!command || command->node >= record.nodes.size())
      return 0;
    const FlightNode &node = record.nodes[command->node];
    return 1 + lines_.number(node.place == node.text
                                 ? node.text
                                 : fmt::format("{}    // {}", node.text, node.place));
  }

  void addFindings() {
    auto add = [&](const std::string &finding) { page_.findings.push_back(finding); };
    if (flight_.cause)
      add(fmt::format("First cause{}: {}",
                      flight_.cause->rank < 0 ? ""
                                              : fmt::format(", of rank {}", flight_.cause->rank),
                      flight_.cause->text));
    if (!flight_.missing.empty())
      add(fmt::format("There is no record of {}.", rangesText(flight_.missing)));
    if (!flight_.difference)
      return;
    std::vector<int64_t> ranks[3]; // by PointState
    for (const FlightStanding &each : flight_.difference->standings)
      ranks[static_cast<size_t>(each.state)].push_back(each.rank);
    auto text = [&](PointState state) {
      const std::vector<int64_t> &some = ranks[static_cast<size_t>(state)];
      return some.empty() ? "none" : rangesText(some);
    };
    add(fmt::format("Ranks differ first in run {} at {}: completed by {}, under way on {}, not "
                    "begun on {}.",
                    flight_.difference->run, flight_.difference->node, text(PointState::Completed),
                    text(PointState::In), text(PointState::NotBegun)));
  }

  llvm::ArrayRef<FlightRecord> records_;
  const FlightPage &flight_;
  uint64_t firstNs_ = ~uint64_t(0);
  TextNumbers lines_;
  Page page_;
};

} // namespace

Result<Page> recordedPage(llvm::ArrayRef<FlightRecord> records, llvm::ArrayRef<std::string> names) {
  const FlightPage flight = BRAID_TRY(merge(records, names));
  return Writer(records, flight).write();
}

} // namespace braid::view
