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
  /// `shapes`: those of `operation`, which outlives this, that have something to be timed.
  /// `timeLimit`: seconds, or 0.
  Progress(const Operation &operation, std::vector<BenchShape> shapes, int64_t rounds,
           int64_t timeLimit);

  /// Whether the next shape is likely to be complete in time.
  bool hasTimeForNext() const;
  /// Whether the limit has passed.
  bool isTimeOver() const;
  void roundDone(int64_t round);
  void shapeDone();
  const std::vector<BenchShape> &shapes() const { return shapes_; }
  size_t shapesDone() const { return done_; }

private:
  double seconds() const;
  double secondsFor(double work) const;
  double workOf(const BenchShape &shape) const;

  const Operation &operation_;
  const std::vector<BenchShape> shapes_;
  const int64_t rounds_, timeLimit_;
  const std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  size_t done_ = 0;
  double workDone_ = 0, workLeft_ = 0;
};

} // namespace braid::tools
