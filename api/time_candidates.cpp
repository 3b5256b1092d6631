//===- api/time_candidates.cpp - times the best few, and the best of these again --------------===//

#include "api/time_candidates.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>

namespace braid {
namespace {

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

/// One choice.
class Contest {
public:
  Contest(const std::vector<Prospect> &prospects, const TimingLimits &limits,
          const TimingActions &actions)
      : prospects_(prospects), order_(prospects, limits.window, limits.least), limits_(limits),
        actions_(actions) {}

  Result<CandidateTimes> run();

private:
  Result<bool> goesOn(size_t done, size_t least, size_t most, double start, double limit) const;
  Status look();
  Status playRounds();

  const std::vector<Prospect> &prospects_;
  FirstLook order_;
  const TimingLimits &limits_;
  const TimingActions &actions_;
  CandidateTimes result_;
};

/// Asks for the time only where that decides.
Result<bool> Contest::goesOn(size_t done, size_t least, size_t most, double start,
                             double limit) const {
  if (done < least || done >= most)
    return done < most;
  Result<double> now = actions_.seconds();
  if (!now)
    return now.status();
  return *now - start < limit;
}

Status Contest::look() {
  Result<double> start = actions_.seconds();
  if (!start)
    return start.status();
  while (std::optional<size_t> candidate = order_.next()) {
    Result<bool> isTime =
        goesOn(result_.times.size(), limits_.least, limits_.most, *start, limits_.lookSeconds);
    if (!isTime)
      return isTime.status();
    if (!*isTime)
      break;
    Result<double> us = actions_.look(*candidate);
    if (!us)
      return us.status();
    result_.times.push_back({*candidate, *us, prospects_[*candidate].mayTake});
    order_.add(*candidate, std::max(*us, 1e-3)); // no clock is finer
  }
  sortByTime(result_.times);
  return Status::ok();
}

/// Every other round goes backwards, so that nobody always comes after the same one.
Status Contest::playRounds() {
  const std::vector<size_t> finalists = finalistsOf(result_.times);
  if (finalists.size() < 2)
    return Status::ok();
  Result<double> start = actions_.seconds();
  if (!start)
    return start.status();
  std::vector<std::vector<double>> rounds(finalists.size());
  for (;; ++result_.rounds) {
    Result<bool> isTime = goesOn(result_.rounds, limits_.leastRounds, limits_.mostRounds, *start,
                                 limits_.finalSeconds);
    if (!isTime)
      return isTime.status();
    if (!*isTime)
      break;
    for (size_t i = 0; i < finalists.size(); ++i) {
      const size_t turn = result_.rounds % 2 == 0 ? i : finalists.size() - 1 - i;
      Result<double> us = actions_.again(finalists[turn]);
      if (!us)
        return us.status();
      rounds[turn].push_back(*us);
    }
  }
  result_.finalists = finalists.size(); // the first of the times, in the same order
  for (size_t i = 0; i < finalists.size(); ++i)
    result_.times[i].us = median(rounds[i]);
  sortByTime(llvm::MutableArrayRef<CandidateTime>(result_.times).take_front(finalists.size()));
  return Status::ok();
}

Result<CandidateTimes> Contest::run() {
  if (Status status = look(); !status.isOk())
    return status;
  if (Status status = playRounds(); !status.isOk())
    return status;
  return std::move(result_);
}

} // namespace

Result<CandidateTimes> timeCandidates(const std::vector<Prospect> &prospects,
                                      const TimingLimits &limits, const TimingActions &actions) {
  return Contest(prospects, limits, actions).run();
}

} // namespace braid
