//===- tools/step_progress.cpp - reports the progress of long operations on stderr ------------===//

#include "tools/step_progress.h"

#include "llvm/Support/raw_ostream.h"

#include <fmt/format.h>

namespace braid::tools {
namespace {

/// Formats a number with thousands separators, such as "19,019,776".
std::string grouped(size_t number) {
  std::string digits = std::to_string(number);
  for (size_t at = digits.size(); at > 3;)
    digits.insert(at -= 3, ",");
  return digits;
}

std::string amount(const WorkProgress &now) {
  constexpr size_t kMostToCount = 10000; // larger totals are shown as percentages
  if (now.total < kMostToCount)
    return fmt::format("{} of {} {}", now.done, now.total, now.unit);
  return fmt::format("{} % of {} {}", now.done * 100 / now.total, grouped(now.total), now.unit);
}

} // namespace

void StepProgress::operator()(const WorkProgress &now) {
  const Clock::time_point time = Clock::now();
  if (now.step != step_ || now.done == 0) {
    step_ = now.step;
    stepStart_ = time;
  }
  if (time < next_)
    return;
  next_ = time + std::chrono::seconds(2);
  say(now, std::chrono::duration<double>(time - stepStart_).count());
}

/// Prints the progress, and the estimated remaining time of the current step.
void StepProgress::say(const WorkProgress &now, double secondsOfStep) {
  std::string left;
  if (now.done != 0)
    left = fmt::format(", about {:.0f} s left", secondsOfStep / static_cast<double>(now.done) *
                                                    static_cast<double>(now.total - now.done));
  llvm::errs() << fmt::format("braid: {}: {}, {}{}\n", command_, now.step, amount(now), left);
}

} // namespace braid::tools
