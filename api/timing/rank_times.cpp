//===- api/timing/rank_times.cpp - one run by the clock, and the slowest rank of all ----------===//

#include "api/timing/rank_times.h"

#include "ir/failure.h"

#include "llvm/Support/MathExtras.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>

namespace braid {
namespace {

using Clock = std::chrono::steady_clock;

double usSince(Clock::time_point start) {
  return std::chrono::duration<double, std::micro>(Clock::now() - start).count();
}

/// For an even number of values the smaller of the two in the middle.
double lowerMedian(std::vector<double> &values) {
  const auto middle = values.begin() + (static_cast<std::ptrdiff_t>(values.size()) - 1) / 2;
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

void issueRun(Prepared &prepared, LaunchMode launchMode, llvm::ArrayRef<const void *> inputs,
              llvm::ArrayRef<void *> outputs) {
  if (launchMode == LaunchMode::Graph)
    prepared.replay();
  else
    prepared.run(inputs, outputs);
}

} // namespace

Status meetAt(const Barrier &barrier, Device &device, double idleGapUs) {
  for (const Clock::time_point start = Clock::now(); usSince(start) < idleGapUs;)
    ; // a thread that sleeps wakes too late
  if (barrier())
    return Status::ok();
  Status cause = device.synchronize();
  return cause.isOk() ? peerFailed("the job has failed") : cause;
}

Result<RunTime> timeRun(Prepared &prepared, Device &device, LaunchMode launchMode,
                        llvm::ArrayRef<const void *> inputs, llvm::ArrayRef<void *> outputs) {
  RunTime time;
  const Clock::time_point start = Clock::now();
  issueRun(prepared, launchMode, inputs, outputs);
  time.issueUs = usSince(start);
  BRAID_TRY(device.synchronize());
  time.us = usSince(start);
  return time;
}

Result<double> timeBurst(Prepared &prepared, Device &device, LaunchMode launchMode, int64_t runs,
                         llvm::ArrayRef<const void *> inputs, llvm::ArrayRef<void *> outputs) {
  const Clock::time_point start = Clock::now();
  Stopwatch *stopwatch = device.stopwatch();
  if (stopwatch)
    stopwatch->startClock();
  for (int64_t i = 0; i < runs; ++i)
    issueRun(prepared, launchMode, inputs, outputs);
  if (stopwatch)
    stopwatch->stopClock();
  BRAID_TRY(device.synchronize());
  const double onHost = usSince(start);
  return (stopwatch ? stopwatch->clockedUs() : onHost) / static_cast<double>(runs);
}

Result<std::vector<double>> maximaOverRanks(ControlPlane &control,
                                            const std::vector<double> &mine) {
  const size_t bytes = mine.size() * sizeof(double);
  std::vector<std::string> all =
      BRAID_TRY(control.allGather(std::string(reinterpret_cast<const char *>(mine.data()), bytes)));
  std::vector<double> maxima(mine.size(), 0), theirs(mine.size());
  for (const std::string &each : all) {
    if (each.size() != bytes)
      return badInput("expected {} times of each rank, got {}", mine.size(),
                      each.size() / sizeof(double));
    std::memcpy(theirs.data(), each.data(), bytes);
    for (size_t i = 0; i < maxima.size(); ++i)
      maxima[i] = std::max(maxima[i], theirs[i]);
  }
  return maxima;
}

int64_t runsToWarmUp(double warmUpUs, double us) {
  constexpr double kMost = 1e5;
  if (warmUpUs > 0 && us <= 0)
    return 2;
  return static_cast<int64_t>(std::min(std::ceil(warmUpUs / std::max(us, 1e-3)), kMost));
}

Result<double> warmUp(ControlPlane &control, const RunsFor &runsFor,
                      const std::function<Result<double>()> &run) {
  double us = 0;
  int64_t runs = runsFor(us);
  std::vector<double> times; // since the last decision
  for (int64_t done = 1; done <= runs; ++done) {
    times.push_back(BRAID_TRY(run()));
    if (!llvm::isPowerOf2_64(static_cast<uint64_t>(done)))
      continue;
    if (done > 1 || runs == 1) {
      std::vector<double> longest = BRAID_TRY(maximaOverRanks(control, {lowerMedian(times)}));
      us = longest.front();
      runs = runsFor(us);
    }
    times.clear();
  }
  return us;
}

} // namespace braid
