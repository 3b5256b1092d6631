//===- api/autotune/schedule_choice.cpp - what was chosen, and why ----------------------------===//

#include "api/autotune/schedule_choice.h"

#include "llvm/ADT/STLExtras.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace braid {
namespace {

std::string lineOf(const JudgedCandidate &judged) {
  const std::optional<double> error = judged.error();
  auto shown = [](std::optional<double> us) { return us ? fmt::format("{:.1f}", *us) : "-"; };
  return fmt::format("{:>12.1f}{:>12}{:>8}{:>12}  {}", judged.predictedUs, shown(judged.burstUs),
                     error ? fmt::format(" {:+.0f} %", 100 * *error) : "", shown(judged.singleUs),
                     judged.schedule.str());
}

std::string othersOf(llvm::ArrayRef<JudgedCandidate> others) {
  if (others.empty())
    return "";
  auto isFaster = [](const JudgedCandidate &a, const JudgedCandidate &b) {
    return a.predictedUs < b.predictedUs;
  };
  return fmt::format("  and {} more, predicted to take {:.1f} us or longer\n", others.size(),
                     std::min_element(others.begin(), others.end(), isFaster)->predictedUs);
}

/// The number of candidates that measured faster but may be slower in other runs.
int64_t fasterThanBest(const ScheduleChoice &choice) {
  const bool wasTimed = choice.timed() > 1;
  auto usOf = [&](const JudgedCandidate &each) {
    return wasTimed ? each.burstUs : std::optional(each.predictedUs);
  };
  const JudgedCandidate &best = choice.candidates.front();
  return llvm::count_if(choice.candidates, [&](const JudgedCandidate &each) {
    return each.worstCase > best.worstCase && usOf(each) && usOf(best) && *usOf(each) < *usOf(best);
  });
}

/// Explains in a line which candidates were timed (contest.h).
std::string howTimed(const ScheduleChoice &choice) {
  if (choice.timed() == 0)
    return "";
  std::string text =
      fmt::format("  timed: {} of {} in {:.2f} s, one of each schedule, protocol and transfer mode "
                  "first",
                  choice.timed(), choice.candidates.size(), choice.seconds);
  if (choice.finalists > 0)
    text +=
        fmt::format("; the first {} again, in turns, {} times", choice.finalists, choice.rounds);
  return text + "\n  burst: a run where runs follow one another, as predicted, which decides; "
                "single: a run "
                "alone\n";
}

} // namespace

std::optional<double> JudgedCandidate::error() const {
  if (!burstUs || *burstUs <= 0)
    return std::nullopt;
  return (predictedUs - *burstUs) / *burstUs;
}

double ScheduleChoice::meanError() const {
  double sum = 0;
  int64_t count = 0;
  for (const JudgedCandidate &each : candidates)
    if (std::optional<double> error = each.error()) {
      sum += std::abs(*error);
      ++count;
    }
  return count == 0 ? 0 : sum / static_cast<double>(count);
}

size_t ScheduleChoice::timed() const {
  return static_cast<size_t>(llvm::count_if(
      candidates, [](const JudgedCandidate &each) { return each.burstUs.has_value(); }));
}

std::string reasonFor(const ScheduleChoice &choice) {
  llvm::ArrayRef<JudgedCandidate> candidates = choice.candidates;
  if (candidates.size() == 1)
    return "the only one that the flags leave";
  std::string text = choice.timed() > 1
                         ? fmt::format("the fastest of the {} that were timed", choice.timed())
                         : "predicted to be the fastest";
  if (const int64_t faster = fasterThanBest(choice))
    text += fmt::format(", but for {} whose runs may take longer at times", faster);
  auto sequential = llvm::find_if(candidates, [](const JudgedCandidate &each) {
    return each.candidate.granularity() == schedule::Granularity::Whole;
  });
  if (sequential == candidates.begin())
    return text + "; nothing hides more than it costs here";
  if (sequential != candidates.end())
    text += fmt::format("; one part after the other {} {:.1f} us",
                        sequential->burstUs ? "takes" : "would take",
                        sequential->burstUs.value_or(sequential->predictedUs));
  return text;
}

namespace {

/// The table of one choice.
std::string tableOf(const ScheduleChoice &choice, size_t next) {
  llvm::ArrayRef<JudgedCandidate> all = choice.candidates;
  const size_t shown = next < all.size() - choice.timed() ? choice.timed() + next : all.size();
  const std::string stage = choice.stage.empty() ? "" : ", stage of %" + choice.stage + ",";
  std::string text = fmt::format("braid: auto: {} candidates for @{}{} on {} ranks; microseconds\n"
                                 "   predicted       burst   error      single  candidate\n",
                                 all.size(), choice.fusion, stage, choice.ranks);
  for (const JudgedCandidate &each : all.take_front(shown))
    text += lineOf(each) + (&each == &all.front() ? "  <-\n" : "\n");
  text += othersOf(all.drop_front(shown)) + howTimed(choice);
  text += fmt::format("  chosen: {}: {}\n  model: {}\n", choice.best().str(), choice.reason,
                      choice.source);
  if (choice.meanError() > 0)
    text += fmt::format("  predictions were off by {:.0f} % on average where measured\n",
                        100 * choice.meanError());
  return text;
}

} // namespace

std::string explain(const ScheduleChoice &choice, size_t next) {
  if (choice.isKnown || choice.isDefault)
    return fmt::format("braid: auto: {} for @{} on {} ranks: {}, {}\n",
                       choice.isKnown ? "known" : "default", choice.fusion, choice.ranks,
                       choice.best().str(), choice.source);
  std::string text;
  for (const ScheduleChoice &before : choice.before)
    text += explain(before, next);
  return text + tableOf(choice, next);
}

} // namespace braid
