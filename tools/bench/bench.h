//===- tools/bench/bench.h - times every row of every shape in turns --------------------------===//
#pragma once

#include "tools/bench/progress.h"
#include "tools/bench/results.h"
#include "tools/bench/worker/ranks_job.h"
#include "tools/bench/worker/torch_worker.h"

namespace braid::tools {

class Bench {
public:
  Bench(const BenchFlags &flags, RanksJob &job);

  /// Blocks until all is timed, the time is over, or something failed that is no row's. Rows that
  /// fail are results. Prints tables and writes files after every shape.
  Status run();
  /// Why the first row of ours failed that did; Ok if none did.
  StatusCode firstFailure() const { return firstFailure_; }

private:
  std::vector<BenchRow> rowsToTime(const BenchShape &shape) const;
  /// False if there was not enough time for all its rounds; then nothing of it is kept.
  Status measure(Progress &progress);
  Result<bool> measureShape(const BenchShape &shape, Progress &progress);
  Status timeRound(std::vector<BenchRow> &rows, int64_t round);
  nlohmann::json requestFor(const BenchRow &row, int64_t round) const;
  Status timeRow(BenchRow &row, int64_t round);
  Status replaceFullJob(const std::vector<BenchRow> &next);
  void sayWhatIsLeft(const Progress &progress) const;

  const BenchFlags &flags_;
  const int64_t mostRowsOfJob_;
  RanksJob &job_;
  TorchWorker torch_;
  BenchResults results_{flags_};
  StatusCode firstFailure_ = StatusCode::Ok;
};

} // namespace braid::tools
