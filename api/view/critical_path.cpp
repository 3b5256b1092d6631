//===- api/view/critical_path.cpp - what the time of a run is made of -------------------------===//

#include "api/view/critical_path.h"

#include "llvm/ADT/STLExtras.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

namespace braid::view {
namespace {

const char *wordOf(Kind kind) {
  switch (kind) {
  case Kind::Gemm:
    return "GEMM";
  case Kind::Copy:
    return "copy";
  case Kind::Compute:
    return "sum";
  case Kind::Message:
    return "message";
  case Kind::Signal:
  case Kind::Await:
    return "signal";
  case Kind::Record:
  case Kind::WaitEvent:
    return "event";
  }
  return "";
}

bool hasRun(const Span &span) { return !std::isnan(span.begin) && !std::isnan(span.end); }

class Walk {
public:
  Walk(const Page &page, const Timing &timing) : page_(page), timing_(timing) {
    for (const Rank &rank : page.ranks) {
      std::vector<uint32_t> last(rank.streams.size(), kNothing);
      std::vector<uint32_t> before;
      for (uint32_t i = 0; i < rank.commands.size(); ++i) {
        const uint32_t stream = rank.commands[i].stream;
        if (stream >= last.size())
          last.resize(stream + 1, kNothing);
        before.push_back(std::exchange(last[stream], i));
      }
      before_.push_back(std::move(before));
    }
  }

  CommandRef last() const {
    CommandRef latest;
    for (size_t rank = 0; rank < timing_.spans.size(); ++rank)
      for (uint32_t i = 0; i < timing_.spans[rank].size(); ++i)
        if (hasRun(timing_.spans[rank][i]) &&
            (!latest.isValid() || timing_.spans[rank][i].end > span(latest).end))
          latest = {static_cast<int32_t>(rank), i};
    return latest;
  }

  /// The last step first. `until` is where the part of a command that counts ends; it begins when
  /// both the command has begun and what it comes after is over.
  std::vector<PathStep> back() const {
    std::vector<PathStep> steps;
    CommandRef at = last();
    double until = at.isValid() ? span(at).end : 0;
    size_t left = commands() + 1; // equal moments could lead round and round
    while (at.isValid() && left-- > 0) {
      const CommandRef from = later(causeOf(at), beforeOnStream(at));
      const double over = from.isValid() ? span(from).end : 0;
      const double start = std::min(std::max(over, span(at).begin), until);
      add(steps, at, wordOf(command(at).kind), start, until - start);
      add(steps, at, timing_.gap, over, start - over);
      until = std::min(over, until);
      at = from;
    }
    return steps;
  }

private:
  static constexpr uint32_t kNothing = ~0u;

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
    uint32_t before = before_[static_cast<size_t>(ref.rank)][ref.command];
    while (before != kNothing && !hasRun(span({ref.rank, before})))
      before = before_[static_cast<size_t>(ref.rank)][before];
    return before == kNothing ? CommandRef() : CommandRef{ref.rank, before};
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
  std::vector<std::vector<uint32_t>> before_; ///< [rank][command]: the one before on its stream
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

std::vector<std::pair<std::string, double>> partsOf(const Timing &timing) {
  std::map<std::string, double> parts;
  for (const PathStep &step : timing.critical)
    parts[step.what] += step.took;
  std::vector<std::pair<std::string, double>> sorted(parts.begin(), parts.end());
  llvm::stable_sort(sorted, [](const auto &a, const auto &b) { return a.second > b.second; });
  return sorted;
}

std::string whatLimits(const Timing &timing, const std::string &unit) {
  const auto parts = partsOf(timing);
  double all = 0;
  for (const auto &part : parts)
    all += part.second;
  if (!(all > 0))
    return "";
  std::string text = fmt::format("the critical path of {} is ", timeText(all, unit));
  const char *separator = "";
  for (const auto &[what, took] : parts)
    if (took >= 0.005 * all)
      text += fmt::format("{}{:.0f} % {}", std::exchange(separator, ", "), 100 * took / all, what);
  return text;
}

} // namespace braid::view
