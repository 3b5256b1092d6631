//===- api/view/critical_path.cpp - the critical path of a run --------------------------------===//

#include "api/view/critical_path.h"

#include "llvm/ADT/STLExtras.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

namespace braid::view {
namespace {

// Indexed by Kind.
constexpr const char *kWords[] = {"GEMM",   "copy",  "sum",   "signal",
                                  "signal", "event", "event", "message"};

bool hasRun(const Span &span) { return !std::isnan(span.begin) && !std::isnan(span.end); }

class Walk {
public:
  Walk(const Page &page, const Timing &timing) : page_(page), timing_(timing) {}

  CommandRef last() const {
    CommandRef latest;
    for (size_t rank = 0; rank < timing_.spans.size(); ++rank)
      for (uint32_t i = 0; i < timing_.spans[rank].size(); ++i)
        if (hasRun(timing_.spans[rank][i]) &&
            (!latest.isValid() || timing_.spans[rank][i].end > span(latest).end))
          latest = {static_cast<int32_t>(rank), i};
    return latest;
  }

  /// Returns the steps, last step first. A command contributes the time from its begin or its
  /// predecessor's end, whichever is later, to `until`.
  std::vector<PathStep> back() const {
    std::vector<PathStep> steps;
    CommandRef at = last();
    double until = at.isValid() ? span(at).end : 0;
    size_t left = commands() + 1; // commands with equal times could form a cycle
    while (at.isValid() && left-- > 0) {
      const CommandRef from = later(causeOf(at), beforeOnStream(at));
      const double over = from.isValid() ? span(from).end : 0;
      const double start = std::min(std::max(over, span(at).begin), until);
      add(steps, at, kWords[static_cast<size_t>(command(at).kind)], start, until - start);
      add(steps, at, timing_.gap, over, start - over);
      until = std::min(over, until);
      at = from;
    }
    return steps;
  }

private:
  const Command &command(CommandRef ref) const {
    return page_.ranks[static_cast<size_t>(ref.rank)].commands[ref.command];
  }
  const Span &span(CommandRef ref) const {
    return timing_.spans[static_cast<size_t>(ref.rank)][ref.command];
  }
  size_t commands() const {
    size_t count = 0;
    for (const Rank &rank : page_.ranks)
      count += rank.commands.size();
    return count;
  }
  CommandRef causeOf(CommandRef ref) const {
    const CommandRef cause = command(ref).cause;
    return cause.isValid() && hasRun(span(cause)) ? cause : CommandRef();
  }
  CommandRef beforeOnStream(CommandRef ref) const {
    const uint32_t stream = command(ref).stream;
    for (CommandRef before = ref; before.command-- > 0;)
      if (command(before).stream == stream && hasRun(span(before)))
        return before;
    return {};
  }
  CommandRef later(CommandRef a, CommandRef b) const {
    if (!a.isValid() || !b.isValid())
      return a.isValid() ? a : b;
    return span(a).end > span(b).end ? a : b;
  }
  static void add(std::vector<PathStep> &steps, CommandRef at, const std::string &what,
                  double begin, double took) {
    if (took > 0)
      steps.push_back({at, what, begin, took});
  }

  const Page &page_;
  const Timing &timing_;
};

} // namespace

void findCriticalPath(const Page &page, Timing &timing) {
  const Walk walk(page, timing);
  timing.critical = walk.back();
  std::reverse(timing.critical.begin(), timing.critical.end());
  const CommandRef last = walk.last();
  timing.total = 0;
  if (last.isValid())
    timing.total = timing.spans[static_cast<size_t>(last.rank)][last.command].end;
}

std::string whatLimits(const Timing &timing, const std::string &unit) {
  std::map<std::string, double> parts;
  double all = 0;
  for (const PathStep &step : timing.critical) {
    parts[step.what] += step.took;
    all += step.took;
  }
  std::vector<std::pair<std::string, double>> sorted(parts.begin(), parts.end());
  llvm::stable_sort(sorted, [](const auto &a, const auto &b) { return a.second > b.second; });
  std::string text;
  for (const auto &[what, took] : sorted)
    if (took >= 0.005 * all)
      text += fmt::format("{}{:.0f} % {}", text.empty() ? "" : ", ", 100 * took / all, what);
  return text.empty() ? ""
                      : fmt::format("the critical path of {} is {}", timeText(all, unit), text);
}

} // namespace braid::view
