//===- api/autotune/schedule_choice.cpp - the chosen schedule and the reason for it -----------===//

#include "api/autotune/schedule_choice.h"

#include "llvm/ADT/STLExtras.h"

#include <fmt/format.h>

namespace braid {
namespace {

std::string lineOf(const JudgedCandidate &judged) {
  std::string measured = "-", error; // `error`: the prediction error
  if (judged.burstUs) {
    measured = fmt::format("{:.1f}", *judged.burstUs);
    error = fmt::format("{:+.0f} %", 100 * (judged.predictedUs / *judged.burstUs - 1));
  }
  return fmt::format("{:>12.1f}{:>12}{:>9}  {}", judged.predictedUs, measured, error,
                     judged.schedule.str());
}

/// Describes, for users, which candidates were timed and how.
std::string howTimed(const StageTrials &trials) {
  std::string text = fmt::format(
      "  timed: {} of {} in {:.2f} s, one of each schedule, protocol and transfer mode first",
      trials.timed(), trials.candidates.size(), trials.seconds);
  if (trials.finalists > 0)
    text += fmt::format("; the fastest {} were timed again in alternation, {} times",
                        trials.finalists, trials.rounds);
  return text + "\n";
}

/// Returns the table for one stage.
std::string tableOf(const ScheduleChoice &choice, const StageTrials &trials, size_t next) {
  const llvm::ArrayRef<JudgedCandidate> all = trials.candidates;
  const size_t shown = std::min(all.size() - trials.timed(), next) + trials.timed();
  const std::string stage = trials.stage.empty() ? "" : ", stage of %" + trials.stage + ",";
  std::string text = fmt::format(
      "braid: auto: {} candidates for @{}{} on {} ranks; microseconds per run, back to back\n"
      "   predicted    measured    error  candidate\n",
      all.size(), choice.fusion, stage, choice.ranks);
  for (const JudgedCandidate &each : all.take_front(shown))
    text += lineOf(each) + (&each == &all.front() ? "  <-\n" : "\n");
  if (shown < all.size())
    text += fmt::format("  and {} more\n", all.size() - shown);
  if (trials.timed() > 0)
    text += howTimed(trials);
  return text + fmt::format("  chosen: {}: {}\n", trials.best().schedule.str(), trials.reason());
}

} // namespace

size_t StageTrials::timed() const {
  return static_cast<size_t>(llvm::count_if(
      candidates, [](const JudgedCandidate &each) { return each.burstUs.has_value(); }));
}

std::string StageTrials::reason() const {
  if (candidates.size() == 1)
    return "the only candidate that the flags allow";
  return timed() > 1 ? fmt::format("the fastest of the {} that were timed", timed())
                     : "predicted to be the fastest";
}

std::string explain(const ScheduleChoice &choice, size_t next) {
  if (choice.stages.empty())
    return fmt::format("braid: auto: {} for @{} on {} ranks: {}, {}\n", choice.origin,
                       choice.fusion, choice.ranks, choice.schedule.str(), choice.source);
  std::string text;
  for (const StageTrials &each : choice.stages)
    text += tableOf(choice, each, next);
  return text + fmt::format("  model: {}\n", choice.source);
}

} // namespace braid
