//===- api/pairs/pair_meter.h - one of the two ranks that measure a pair ----------------------===//
//
// Before a run, the source contains random blocks, and the destination their complements. After the
// run, every block is compared. Timed runs are repeated, and only the last result is compared, so
// that times include neither filling nor comparing. A time is the maximum over both ranks.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "api/pairs/block_plans.h"
#include "api/timing/plan_timer.h"

#include <climits>

namespace braid {

/// One path in one direction. Rank 0 uses the pair's first device.
struct Step {
  Path path = Path::PutEngine;
  int64_t source = 0; ///< the rank that sends

  bool operator==(const Step &) const = default;
  /// Returns a number below kSteps, for command lines. of() is the inverse.
  int64_t number() const { return 2 * static_cast<int64_t>(path) + source; }
  static Step of(int64_t number) { return {static_cast<Path>(number / 2), number % 2}; }
};
inline constexpr int64_t kSteps = 2 * int64_t(kAllPaths.size());

/// A record that a rank writes atomically to a pipe. A rank may die at any point without
/// invalidating the records that it has written.
struct Record {
  enum class Kind : uint8_t {
    Device,    ///< `text` identifies and describes the device of rank `step.source`
    Begin,     ///< transfers of `bytes` are about to start
    Bandwidth, ///< `value` is in GB/s
    Latency,   ///< `value` is in microseconds, and is valid for both directions
    Wrong,     ///< wrong data has arrived; `wrong` describes the first wrong byte
  };
  Kind kind = Kind::Begin;
  Step step;
  int64_t bytes = 0;
  double value = 0;
  WrongData wrong = {};
  char text[400] = {}; ///< null-terminated
};
static_assert(sizeof(Record) <= PIPE_BUF);

struct MeterOptions {
  std::vector<Step> steps;
  std::vector<int64_t> sizes; ///< in bytes; multiples of 4, in ascending order
  int results = -1;           ///< the descriptor to write records to
};

class PairMeter {
public:
  /// `options` and `timer` must outlive this object.
  PairMeter(const MeterOptions &options, const Backend &backend, PlanTimer &timer)
      : options_(options), timer_(timer),
        launchMode_(backend.hasGraphs ? LaunchMode::Graph : LaunchMode::Eager) {}

  /// Measures all steps and writes the results. The second direction of a path also measures the
  /// path's latency. Collective; blocks. Wrong data ends the step, but is not a failure. Returns
  /// Unsupported if the devices do not support a path.
  Status measure();

private:
  /// A prepared program, and the addresses of its rows of blocks.
  struct BlockRun {
    TimedPlan plan;
    char *sent, *received;
  };

  Status measure(const Step &step);
  Result<BlockRun> prepareRun(const BlockTransfers &transfers);
  /// Returns the time of a run in microseconds, or nullopt if wrong data arrived.
  Result<std::optional<double>> time(const BlockTransfers &transfers);
  Result<double> usualTime(TimedPlan &plan);
  Status fillRows(const BlockRun &run, const BlockTransfers &transfers);
  Result<bool> compareRow(const BlockRun &run, const BlockTransfers &transfers);
  Status copy(void *to, const void *from, int64_t bytes);
  bool fits(const BlockTransfers &transfers) const;
  uint64_t seedOf(int64_t sender) const;
  void write(const Record &record) const;
  Device &device() const { return timer_.device(); }
  int64_t rank() const { return timer_.rank(); }

  const MeterOptions &options_;
  PlanTimer &timer_;
  const LaunchMode launchMode_;
  uint64_t round_ = 0;
  std::optional<Step> right_; ///< the last step, if all of its data was correct
};

/// Joins the job that launch() has started, and measures. Blocks. Returns the job's failure if any.
Status measureAsRank(const Backend &backend, const MeterOptions &options);

} // namespace braid
