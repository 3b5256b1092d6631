//===- api/autotune/time_candidates.cpp - times the best few, and the best of these again -===//

#include "api/autotune/time_candidates.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <map>

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
  Status playRound(size_t players);
  void rank(size_t players);
  Status playRounds();

  const std::vector<Prospect> &prospects_;
  FirstLook order_;
  const TimingLimits &limits_;
  const TimingActions &actions_;
  CandidateTimes result_;
  std::map<size_t, std::vector<double>> turns_; ///< of each candidate, in microseconds
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

/// A turn for each of the first `players` of the times. Every other round goes backwards, so that
/// nobody always comes after the same one.
Status Contest::playRound(size_t players) {
  for (size_t i = 0; i < players; ++i) {
    const size_t place = result_.finals.rounds % 2 == 0 ? i : players - 1 - i;
    const size_t candidate = result_.times[place].candidate;
    Result<double> us = actions_.again(candidate);
    if (!us)
      return us.status();
    turns_[candidate].push_back(*us);
  }
  ++result_.finals.rounds;
  return Status::ok();
}

/// Puts the first `players` of the times in order, by their turns so far.
void Contest::rank(size_t players) {
  auto first = llvm::MutableArrayRef<CandidateTime>(result_.times).take_front(players);
  for (CandidateTime &each : first)
    each.us = median(turns_[each.candidate]);
  sortByTime(first);
}

Status Contest::playRounds() {
  const size_t players = playersOf(result_.times);
  if (players < 2)
    return Status::ok();
  Result<double> start = actions_.seconds();
  if (!start)
    return start.status();
  if (Status status = playRound(players); !status.isOk())
    return status;
  rank(players);
  result_.finals.players = players;
  result_.finals.finalists = std::min(players, kFinalists);
  while (true) {
    Result<bool> isTime = goesOn(result_.finals.rounds, limits_.leastRounds, limits_.mostRounds,
                                 *start, limits_.finalSeconds);
    if (!isTime)
      return isTime.status();
    if (!*isTime)
      break;
    if (Status status = playRound(result_.finals.finalists); !status.isOk())
      return status;
  }
  rank(result_.finals.finalists);
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
