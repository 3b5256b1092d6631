//===- tools/bench/progress.h - how far the bench is, on stderr -------------------------------===//
#pragma once

#include "api/bench/operation.h"

#include <chrono>
#include <vector>

namespace braid::tools {

/// Counts shapes, and says how long the rest may take. The guess takes it that a shape costs
/// something whatever its size, and more as its GEMMs grow.
class Progress {
public:
  using Clock = std::chrono::steady_clock;

  /// `shapes`: those of `operation`, which outlives this, that have something to be timed.
  /// `timeLimit`: seconds from `begin` on, or 0.
  Progress(const Operation &operation, std::vector<BenchShape> shapes, int64_t rounds,
           int64_t timeLimit, Clock::time_point begin = Clock::now());

  /// Whether the next shape is likely to be complete in time. The second one is taken to be.
  bool hasTimeForNext() const;
  /// Whether the limit has passed.
  bool isTimeOver() const;
  void roundDone(int64_t round);
  void shapeDone();
  const std::vector<BenchShape> &shapes() const { return shapes_; }
  size_t shapesDone() const { return done_; }

private:
  struct Past {
    double seconds = 0, work = 0;
  };

  double seconds() const;
  double secondsFor(double work) const;
  double workOf(const BenchShape &shape) const;

  const Operation &operation_;
  const std::vector<BenchShape> shapes_;
  const int64_t rounds_, timeLimit_;
  const Clock::time_point begin_;
  size_t done_ = 0;
  double workDone_ = 0, workLeft_ = 0;
  Past first_; ///< when the first shape was done
};

} // namespace braid::tools
