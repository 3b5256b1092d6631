//===- api/view/critical_path.cpp - the critical path of a run --------------------------------===//

#include "api/view/page.h"

#include "llvm/ADT/STLExtras.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

namespace braid::view {
namespace {

// Indexed by CommandKind.
constexpr const char *kWords[] = {"copy",   "GEMM",  "sum",   "sum",     "signal",
                                  "signal", "event", "event", "message", "message"};

bool hasRun(const Span &span) { return !std::isnan(span.begin) && !std::isnan(span.end); }

/// The commands of a page that ran, with their times.
struct Run {
  const Page &page;
  const Timing &timing;

  const Command &command(CommandRef ref) const {
    return page.ranks[static_cast<size_t>(ref.rank)].commands[ref.command];
  }
  const Span &span(CommandRef ref) const {
    return timing.spans[static_cast<size_t>(ref.rank)][ref.command];
  }
  /// Sets `latest` to `ref` if `ref` is a command that ran and ended later than `latest`.
  void takeLater(CommandRef ref, CommandRef &latest) const {
    if (ref.isValid() && hasRun(span(ref)) &&
        (!latest.isValid() || span(ref).end > span(latest).end))
      latest = ref;
  }
  CommandRef last() const {
    CommandRef latest;
    for (size_t rank = 0; rank < timing.spans.size(); ++rank)
      for (uint32_t i = 0; i < timing.spans[rank].size(); ++i)
        takeLater({static_cast<int32_t>(rank), i}, latest);
    return latest;
  }
  CommandRef predecessor(CommandRef ref) const {
    CommandRef latest;
    for (CommandRef before = ref; !latest.isValid() && before.command-- > 0;)
      if (command(before).stream == command(ref).stream)
        takeLater(before, latest);
    takeLater(command(ref).cause, latest);
    return latest;
  }
};

} // namespace

/// A command contributes the time from its start or its predecessor's end, whichever is later,
/// until `until`.
void findCriticalPath(const Page &page, Timing &timing) {
  const Run run{page, timing};
  CommandRef at = run.last();
  timing.total = at.isValid() ? run.span(at).end : 0;
  std::vector<PathStep> steps; // last step first
  auto add = [&](const std::string &what, double begin, double took) {
    if (took > 0)
      steps.push_back({at, what, begin, took});
  };
  double until = timing.total;
  size_t left = 1; // commands with equal times could form a cycle
  for (const std::vector<Span> &spans : timing.spans)
    left += spans.size();
  while (at.isValid() && left-- > 0) {
    const CommandRef from = run.predecessor(at);
    const double over = from.isValid() ? run.span(from).end : 0;
    const double start = std::min(std::max(over, run.span(at).begin), until);
    add(kWords[static_cast<size_t>(run.command(at).kind)], start, until - start);
    add(timing.gap, over, start - over);
    until = std::min(over, until);
    at = from;
  }
  timing.critical.assign(steps.rbegin(), steps.rend());
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
