//===- api/pairs/pair_meter.h - one rank of the two that measure a pair -----------------------===//
//
// Before a run the source holds its blocks and the destination their complements; after it every
// block is compared. A timed run is repeated, and what the last repetition has left is compared, so
// that neither filling nor comparing is part of a time. A time is the longer one of both ranks'.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "api/pairs/block_plans.h"
#include "api/timing/plan_timer.h"

#include <climits>

namespace braid {

/// One path in one direction. Rank 0 is the pair's first device.
struct Step {
  Path path = Path::PutEngine;
  int64_t source = 0; ///< rank

  bool operator==(const Step &) const = default;
  /// A number for the command line, below kSteps, and back.
  int64_t number() const { return 2 * static_cast<int64_t>(path) + source; }
  static Step of(int64_t number) { return {static_cast<Path>(number / 2), number % 2}; }
};
inline constexpr int64_t kSteps = 2 * int64_t(kAllPaths.size());

/// A record that a rank writes into a pipe, which takes each record whole. A rank may die at any
/// point; the records that it has written count.
struct Record {
  enum class Kind : uint8_t {
    Device,    ///< rank `step.source` has device `text`: its identity, a space, its description
    Begin,     ///< transfers of `bytes` are about to start
    Bandwidth, ///< `value` in GB/s
    Latency,   ///< `value` in microseconds, of both directions
    Wrong,     ///< `wrong` arrived
  };
  Kind kind = Kind::Begin;
  Step step;
  int64_t bytes = 0;
  double value = 0;
  WrongData wrong;
  char text[400] = {}; ///< ends with a zero
};
static_assert(sizeof(Record) <= PIPE_BUF);

struct MeterOptions {
  std::vector<Step> steps;
  std::vector<int64_t> sizes; ///< bytes, ascending; multiples of 4
  int results = -1;           ///< the descriptor that takes records
};

class PairMeter {
public:
  /// All outlive this.
  PairMeter(const MeterOptions &options, const Backend &backend, PlanTimer &timer)
      : options_(options), timer_(timer),
        launchMode_(backend.hasGraphs ? LaunchMode::Graph : LaunchMode::Eager) {}

  /// Measures all steps and writes what it finds; the second direction of a path also measures its
  /// latency. Collective; blocks. Wrong data end their step and are no failure; Unsupported if the
  /// devices do not have a path.
  Status measure();

private:
  /// A program that is ready to run, and its rows of blocks.
  struct BlockRun {
    TimedPlan plan;
    char *sent, *received;
  };

  Status measure(const Step &step);
  Result<BlockRun> prepareRun(const BlockTransfers &transfers);
  /// Microseconds of a run; nothing: data were wrong.
  Result<std::optional<double>> time(const BlockTransfers &transfers);
  Result<double> usualTime(TimedPlan &plan);
  Status fillRows(const BlockRun &run, const BlockTransfers &transfers);
  Result<bool> compareRow(const BlockRun &run, const BlockTransfers &transfers);
  Status copy(void *to, const void *from, int64_t bytes);
  bool fits(const BlockTransfers &transfers) const;
  uint64_t seedOf(int64_t sender) const;
  Result<double> largest(double mine);
  void write(Record::Kind kind, const Step &step, int64_t bytes, double value) const;
  void write(const Record &record) const;
  Device &device() const { return timer_.device(); }
  int64_t rank() const { return timer_.rank(); }

  const MeterOptions &options_;
  PlanTimer &timer_;
  const LaunchMode launchMode_;
  uint64_t round_ = 0;
  std::optional<Step> right_; ///< the last step, if all its data were right
};

/// Joins the job that launch() started, and measures. Blocks. The failure is the job's.
Status measureAsRank(const Backend &backend, const MeterOptions &options);

} // namespace braid
