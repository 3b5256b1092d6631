//===- tools/bench/progress.cpp - how far the bench is, on stderr -----------------------------===//

#include "tools/bench/progress.h"

#include "llvm/Support/raw_ostream.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace braid::tools {
namespace {

/// In units of what any shape costs: rows are timed for some time whatever their size, and longer
/// only if the runs that are asked for do not fit into it. On 2 H200 16384 x 16384 x 16384 took
/// twice as long as 1024 x 1024 x 1024.
double workOf(const GatherShape &shape) {
  constexpr double kFlopsOfOneUnit = 1e13;
  const double flops = 2.0 * double(shape.m) * double(shape.n) * double(shape.k);
  return 1 + std::min(flops / kFlopsOfOneUnit, 10.0);
}

std::string duration(double seconds) {
  const auto whole = static_cast<int64_t>(std::lround(seconds));
  return whole < 100 ? fmt::format("{} s", whole)
                     : fmt::format("{}:{:02} min", whole / 60, whole % 60);
}

} // namespace

Progress::Progress(std::vector<GatherShape> shapes, int64_t rounds, int64_t timeLimit)
    : shapes_(std::move(shapes)), rounds_(rounds), timeLimit_(timeLimit) {
  for (const GatherShape &shape : shapes_)
    workLeft_ += workOf(shape);
}

double Progress::seconds() const {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
}

double Progress::secondsFor(double work) const {
  return workDone_ > 0 ? seconds() / workDone_ * work : 0;
}

bool Progress::isTimeOver() const {
  return timeLimit_ > 0 && seconds() >= static_cast<double>(timeLimit_);
}

bool Progress::hasTimeForNext() const {
  constexpr double kMargin = 1.3;
  return timeLimit_ == 0 ||
         seconds() + kMargin * secondsFor(workOf(shapes_[done_])) < static_cast<double>(timeLimit_);
}

void Progress::roundDone(int64_t round) {
  const GatherShape &shape = shapes_[done_];
  const double part = workOf(shape) / double(rounds_);
  workDone_ += part;
  workLeft_ -= part;
  llvm::errs() << fmt::format(
      "braid: {} x {} x {}: round {} of {}, shape {} of {}, about {} left\n", shape.m, shape.n,
      shape.k, round + 1, rounds_, done_ + 1, shapes_.size(), duration(secondsFor(workLeft_)));
}

void Progress::shapeDone() { ++done_; }

} // namespace braid::tools
