//===- tools/bench/progress.cpp - how far the bench is, on stderr -----------------------------===//

#include "tools/bench/progress.h"

#include "api/timing/seconds_since.h"

#include "llvm/Support/raw_ostream.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace braid::tools {
namespace {

std::string duration(double seconds) {
  const auto whole = static_cast<int64_t>(std::lround(seconds));
  return whole < 100 ? fmt::format("{} s", whole)
                     : fmt::format("{}:{:02} min", whole / 60, whole % 60);
}

} // namespace

Progress::Progress(const Operation &operation, std::vector<BenchShape> shapes, int64_t rounds,
                   int64_t timeLimit, Clock::time_point begin)
    : operation_(operation), shapes_(std::move(shapes)), rounds_(rounds), timeLimit_(timeLimit),
      begin_(begin) {
  for (const BenchShape &shape : shapes_)
    workLeft_ += workOf(shape);
}

/// In units of what any shape costs: rows are timed for some time whatever their size, and longer
/// only if the runs that are asked for do not fit into it. On 2 H200 16384 x 16384 x 16384 took
/// twice as long as 1024 x 1024 x 1024.
double Progress::workOf(const BenchShape &shape) const {
  constexpr double kFlopsOfOneUnit = 1e13;
  return 1 + std::min(operation_.flops(shape) / kFlopsOfOneUnit, 10.0);
}

double Progress::seconds() const { return secondsSince(begin_); }

/// The first shape also has what is done once: ranks and rivals start, and connect.
double Progress::secondsFor(double work) const {
  const bool isFirst = workDone_ <= first_.work;
  const Past since = isFirst ? Past() : first_;
  return workDone_ > 0 ? (seconds() - since.seconds) / (workDone_ - since.work) * work : 0;
}

bool Progress::isTimeOver() const {
  return timeLimit_ > 0 && seconds() >= static_cast<double>(timeLimit_);
}

/// The first shape says too little about the second.
bool Progress::hasTimeForNext() const {
  constexpr double kMargin = 1.3;
  const double next = done_ < 2 ? 0 : kMargin * secondsFor(workOf(shapes_[done_]));
  return timeLimit_ == 0 || seconds() + next < static_cast<double>(timeLimit_);
}

void Progress::roundDone(int64_t round) {
  const BenchShape &shape = shapes_[done_];
  const double part = workOf(shape) / double(rounds_);
  workDone_ += part;
  workLeft_ -= part;
  llvm::errs() << fmt::format("braid: {}: round {} of {}, shape {} of {}, about {} left\n",
                              operation_.title(shape), round + 1, rounds_, done_ + 1,
                              shapes_.size(), duration(secondsFor(workLeft_)));
}

void Progress::shapeDone() {
  if (++done_ == 1)
    first_ = {seconds(), workDone_};
}

} // namespace braid::tools
