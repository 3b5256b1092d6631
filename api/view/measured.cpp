//===- api/view/measured.cpp - pages about traces ---------------------------------------------===//

#include "api/view/measured.h"

#include "api/view/critical_path.h"
#include "api/view/trace_text.h"
#include "ir/failure.h"
#include "ir/printable.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace braid::view {
namespace {

/// Assigns the events of a trace to the commands of the Plans.
class EventReader {
public:
  EventReader(const std::string &name, TraceFile &file) : name_(name), file_(file) {}

  Status add(const TraceEvent &event) {
    const std::string where = fmt::format("{}: traceEvents[{}]", name_, event.number);
    const std::vector<Plan> &plans = file_.program.plans;
    if (event.rank >= plans.size())
      return badInput("{}: expected commands of ranks below {}, got rank {}", where, plans.size(),
                      event.rank);
    if (event.command >= plans[event.rank].commands.size())
      return badInput("{}: expected commands of {} below {}, got {}", where, file_.program.title,
                      plans[event.rank].commands.size(), event.command);
    BRAID_TRY(openRun(event.run));
    Span &span = file_.runs[event.run][event.rank][event.command];
    if (!std::isnan(span.begin))
      return badInput("{}: expected each command once a run, got command {} of rank {} in run {} "
                      "again",
                      where, event.command, event.rank, event.run);
    span = {event.begin, event.begin + event.took};
    return Status::ok();
  }

private:
  Status openRun(uint32_t run) {
    constexpr size_t kMostSpans = size_t(1) << 26;
    std::vector<std::vector<Span>> &spans = file_.runs[run];
    if (!spans.empty())
      return Status::ok();
    for (const Plan &plan : file_.program.plans) {
      spans.emplace_back(plan.commands.size());
      spans_ += plan.commands.size();
    }
    return spans_ <= kMostSpans
               ? Status::ok()
               : unsupported("{}: expected at most {} commands in all its runs", name_, kMostSpans);
  }

  const std::string &name_;
  TraceFile &file_;
  size_t spans_ = 0; ///< in all runs
};

// -- Comparing. --

/// Returns the total time of each line's commands, averaged over the ranks.
std::vector<double> timesOfLines(const Page &page, const Timing &timing) {
  std::vector<double> times(page.text.size() + 1, 0);
  for (size_t rank = 0; rank < page.ranks.size(); ++rank)
    for (size_t i = 0; i < page.ranks[rank].commands.size(); ++i)
      if (const Span &span = timing.spans[rank][i]; !std::isnan(span.end - span.begin))
        times[page.ranks[rank].commands[i].line] += span.end - span.begin;
  for (double &time : times)
    time /= static_cast<double>(page.ranks.size());
  return times;
}

/// Describes the first line in which two programs differ, or their different numbers of commands.
std::string differenceOf(const Page &measured, const Page &predicted) {
  llvm::SmallVector<llvm::StringRef> first, second;
  llvm::StringRef(measured.program).split(first, '\n');
  llvm::StringRef(predicted.program).split(second, '\n');
  for (const auto &[a, b] : llvm::zip(first, second))
    if (a != b)
      return fmt::format("'{}', got '{}'", printable(b.trim()), printable(a.trim()));
  return "the same lines and commands, got different ones; a trace of messages does not fit a "
         "program that spells out transfers";
}

/// Compares the first two timings: the whole run, then the lines with the largest differences.
std::vector<std::string> differencesOf(const Page &page) {
  const Timing &mine = page.timings[0], &its = page.timings[1];
  const std::vector<double> first = timesOfLines(page, mine), second = timesOfLines(page, its);
  std::vector<size_t> order(first.size());
  for (size_t line = 0; line < order.size(); ++line)
    order[line] = line;
  llvm::stable_sort(order, [&](size_t a, size_t b) {
    return std::abs(first[a] - second[a]) > std::abs(first[b] - second[b]);
  });
  std::vector<std::string> found = {fmt::format("The run took {} {} and {} {}.",
                                                timeText(mine.total, page.unit), mine.name,
                                                timeText(its.total, page.unit), its.name)};
  for (size_t i = 0; i < order.size() && i < 3; ++i)
    if (const size_t line = order[i]; line > 0 && first[line] + second[line] > 0)
      found.push_back(fmt::format("On line {}, a rank spends {} {} and {} {}: {}", line,
                                  timeText(first[line], page.unit), mine.name,
                                  timeText(second[line], page.unit), its.name,
                                  llvm::StringRef(page.text[line - 1]).trim().str()));
  return found;
}

/// Shifts the times so that the run begins at 0.
void moveToZero(std::vector<std::vector<Span>> &spans) {
  double first = std::numeric_limits<double>::infinity();
  for (const auto &rank : spans)
    for (const Span &span : rank)
      if (!std::isnan(span.begin))
        first = std::min(first, span.begin);
  for (auto &rank : spans)
    for (Span &span : rank) {
      span.begin -= first;
      span.end -= first;
    }
}

} // namespace

Result<TraceFile> readTrace(const std::string &name, const std::string &text) {
  const TraceText trace = BRAID_TRY(parseTrace(name, text));
  TraceFile file;
  file.program =
      BRAID_TRY(readAgain(name + ": otherData.program", trace.program,
                          trace.sendsMessages ? Transport::Messages : Transport::PeerMemory));
  EventReader reader(name, file);
  for (const TraceEvent &event : trace.events)
    BRAID_TRY(reader.add(event));
  return file;
}

Result<Page> measuredPage(const TraceFile &trace, std::optional<uint32_t> run) {
  const uint32_t chosen = run.value_or(trace.runs.rbegin()->first);
  const auto found = trace.runs.find(chosen);
  if (found == trace.runs.end())
    return badInput("--run: expected a run from {} to {}, got {}", trace.runs.begin()->first,
                    trace.runs.rbegin()->first, chosen);
  Page page = pageOf(trace.program, trace.program.plans);
  Timing timing{.name = "measured", .gap = "idle", .spans = found->second};
  moveToZero(timing.spans);
  findCriticalPath(page, timing);
  page.subtitle = fmt::format("measured on {} ranks: run {} of {}", page.ranks.size(), chosen,
                              trace.runs.rbegin()->first);
  page.findings.push_back(
      fmt::format("The run took {}; {}.", timeText(timing.total, page.unit),
                  timing.critical.empty() ? "nothing took time" : whatLimits(timing, page.unit)));
  page.timings.push_back(std::move(timing));
  return page;
}

/// The predicted page also contains the text of the fusion.
Result<Page> layOver(const Page &measured, Page predicted) {
  const bool areAlike =
      measured.program == predicted.program && measured.ranks.size() == predicted.ranks.size() &&
      llvm::all_of(llvm::zip(measured.ranks, predicted.ranks), [](const auto &pair) {
        return std::get<0>(pair).commands.size() == std::get<1>(pair).commands.size();
      });
  if (!areAlike)
    return badInput("expected the trace of this program: {}", differenceOf(measured, predicted));
  Page page = std::move(predicted);
  page.timings.insert(page.timings.begin(), measured.timings.front());
  page.subtitle = measured.subtitle + ", above; " + page.subtitle + ", below";
  page.findings = differencesOf(page);
  return page;
}

} // namespace braid::view
