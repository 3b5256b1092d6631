//===- api/autotune/schedule_choice.cpp - the chosen schedule, and the reason -----------------===//

#include "api/autotune/schedule_choice.h"

#include "llvm/ADT/STLExtras.h"

#include <fmt/format.h>

namespace braid {
namespace {

std::string lineOf(const JudgedCandidate &judged) {
  auto shown = [](std::optional<double> us) { return us ? fmt::format("{:.1f}", *us) : "-"; };
  std::string error; // the error of the prediction
  if (judged.burstUs && *judged.burstUs > 0)
    error = fmt::format(" {:+.0f} %", 100 * (judged.predictedUs / *judged.burstUs - 1));
  return fmt::format("{:>12.1f}{:>12}{:>8}{:>12}  {}", judged.predictedUs, shown(judged.burstUs),
                     error, shown(judged.singleUs), judged.schedule.str());
}

/// Returns the number of candidates that were faster but may be slower in other runs.
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

/// Explains which candidates were timed, and how.
std::string howTimed(const ScheduleChoice &choice) {
  std::string text = fmt::format(
      "  timed: {} of {} in {:.2f} s, one of each schedule, protocol and transfer mode first",
      choice.timed(), choice.candidates.size(), choice.seconds);
  if (choice.finalists > 0)
    text +=
        fmt::format("; the first {} again, in turns, {} times", choice.finalists, choice.rounds);
  return text + "\n  burst: a run where runs follow one another, as predicted, which decides; "
                "single: a run alone\n";
}

/// Returns the table of one choice.
std::string tableOf(const ScheduleChoice &choice, size_t next) {
  const llvm::ArrayRef<JudgedCandidate> all = choice.candidates;
  const size_t shown = std::min(all.size(), choice.timed() + next);
  const std::string stage = choice.stage.empty() ? "" : ", stage of %" + choice.stage + ",";
  std::string text = fmt::format("braid: auto: {} candidates for @{}{} on {} ranks; microseconds\n"
                                 "   predicted       burst   error      single  candidate\n",
                                 all.size(), choice.fusion, stage, choice.ranks);
  for (const JudgedCandidate &each : all.take_front(shown))
    text += lineOf(each) + (&each == &all.front() ? "  <-\n" : "\n");
  if (shown < all.size())
    text += fmt::format("  and {} more\n", all.size() - shown);
  if (choice.timed() > 0)
    text += howTimed(choice);
  return text + fmt::format("  chosen: {}: {}\n  model: {}\n", choice.best().str(), choice.reason,
                            choice.source);
}

} // namespace

size_t ScheduleChoice::timed() const {
  return static_cast<size_t>(llvm::count_if(
      candidates, [](const JudgedCandidate &each) { return each.burstUs.has_value(); }));
}

std::string reasonFor(const ScheduleChoice &choice) {
  if (choice.candidates.size() == 1)
    return "the only one that the flags leave";
  std::string text = choice.timed() > 1
                         ? fmt::format("the fastest of the {} that were timed", choice.timed())
                         : "predicted to be the fastest";
  if (const int64_t faster = fasterThanBest(choice))
    text += fmt::format(", but for {} whose runs may take longer at times", faster);
  return text;
}

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
