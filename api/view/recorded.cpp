//===- api/view/recorded.cpp - pages about the records of a failed job ------------------------===//

#include "api/view/recorded.h"

#include "ir/counted.h"
#include "ir/text_numbers.h"
#include "runtime/job/explain.h"

#include <fmt/format.h>

#include <algorithm>

namespace braid::view {
namespace {

/// Builds the page. Its text consists of the nodes in the records.
class Writer {
public:
  explicit Writer(const FlightRecords &records) : records_(records) {
    for (const RankRecord &record : records.ranks)
      for (const RecordedCommand &command : record.flight)
        firstNs_ = std::min(firstNs_, command.beginNs);
  }

  Page write() {
    page_.title = records_.program.empty() ? "a job without a program" : "@" + records_.program;
    page_.isFailure = true;
    page_.subtitle =
        fmt::format("flight records of {} of job {}",
                    counted(static_cast<int64_t>(records_.ranks.size()), "rank"), records_.job);
    page_.timings.push_back({.name = "recorded"});
    for (const RankRecord &record : records_.ranks)
      addRank(record);
    addFindings();
    page_.text = lines_.texts();
    return std::move(page_);
  }

private:
  /// Adds a rank. The mark is at the command that the rank was executing.
  void addRank(const RankRecord &record) {
    const auto number = static_cast<int32_t>(page_.ranks.size());
    Timing &timing = page_.timings.front();
    std::vector<Span> &spans = timing.spans.emplace_back();
    std::vector<Command> commands;
    TextNumbers streams;
    Mark mark{.text = "R" + record.doing.substr(std::min<size_t>(1, record.doing.size())) + ".",
              .line = lineOf(record.current)};
    for (const RecordedCommand &command : record.flight) {
      if (command.endNs == 0 && command.beginNs == record.current.beginNs &&
          command.stream == record.current.stream)
        mark.command = {number, static_cast<uint32_t>(commands.size())};
      commands.push_back({.kind = kindNamed(command.kind),
                          .stream = streams.number(command.stream),
                          .line = lineOf(command),
                          .run = static_cast<uint32_t>(command.run),
                          .peer = command.peer,
                          .trips = command.trips});
      spans.push_back(
          {micros(command.beginNs), command.endNs == 0 ? kDidNotRun : micros(command.endNs)});
      timing.total = std::max({timing.total, micros(command.beginNs), micros(command.endNs)});
    }
    page_.ranks.push_back({number, streams.texts(), std::move(commands)});
    const bool isCause = records_.cause.code != 0 && records_.cause.rank == number;
    page_.marks.insert(isCause ? page_.marks.begin() : page_.marks.end(), mark);
  }

  double micros(int64_t ns) const {
    return std::max(0.0, (static_cast<double>(ns) - static_cast<double>(firstNs_)) / 1e3);
  }

  uint32_t lineOf(const RecordedCommand &command) {
    if (command.text.empty())
      return 0;
    return 1 + lines_.number(command.place == command.text
                                 ? command.text
                                 : fmt::format("{}    // {}", command.text, command.place));
  }

  void addFindings() {
    const RecordedCause &cause = records_.cause;
    auto add = [&](const std::string &finding) { page_.findings.push_back(finding); };
    if (cause.code != 0)
      add(fmt::format("First cause{}: {}",
                      cause.rank < 0 ? "" : fmt::format(", of rank {}", cause.rank), cause.text));
    if (const std::vector<int64_t> behind = ranksBehind(records_); !behind.empty())
      add(fmt::format("Furthest behind: {}.", rangesText(behind)));
  }

  const FlightRecords &records_;
  int64_t firstNs_ = std::numeric_limits<int64_t>::max();
  TextNumbers lines_;
  Page page_;
};

} // namespace

Page recordedPage(const FlightRecords &records) { return Writer(records).write(); }

} // namespace braid::view
