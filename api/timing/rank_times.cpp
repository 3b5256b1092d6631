//===- api/timing/rank_times.cpp - the times of the slowest rank ------------------------------===//

#include "api/timing/rank_times.h"

#include "ir/failure.h"

#include "llvm/Support/MathExtras.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace braid {
namespace {

/// For an even number of values, returns the smaller of the middle two.
double lowerMedian(std::vector<double> &values) {
  const auto middle = values.begin() + (static_cast<std::ptrdiff_t>(values.size()) - 1) / 2;
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

} // namespace

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

Result<double> warmUp(ControlPlane &control, int64_t least, double warmUpUs,
                      const std::function<Result<double>()> &run) {
  double us = 0;
  int64_t runs = std::max(least, runsToWarmUp(warmUpUs, us));
  std::vector<double> times; // since the last decision
  for (int64_t done = 1; done <= runs; ++done) {
    times.push_back(BRAID_TRY(run()));
    if (!llvm::isPowerOf2_64(static_cast<uint64_t>(done)))
      continue;
    if (done > 1 || runs == 1) {
      us = BRAID_TRY(maximaOverRanks(control, {lowerMedian(times)})).front();
      runs = std::max(least, runsToWarmUp(warmUpUs, us));
    }
    times.clear();
  }
  return us;
}

} // namespace braid
