//===- api/gather_timer.h - times rows of gather+matmul on one rank of a job ------------------===//
//
// What is timed is one run on every rank from the moment when all have met: wall clock on the host
// until the rank's own work is done, the maximum over ranks. Rows stay prepared until the timer is
// told to forget them, so that they can be timed in turns; all of them read and write the same
// tensors.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "api/gather_bench.h"
#include "runtime/backend.h"
#include "runtime/executor.h"

#include <deque>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace braid {

struct BenchTiming {
  int64_t warmUp = 5, iterations = 20;
  /// Fewer of both, but not fewer than 1 and 3, so that they take about this long; 0: no limit.
  double limitUs = 0;

  /// The numbers for runs that take `us`. Every rank has to give the same time.
  BenchTiming within(double us) const;
};

/// Times rows on one rank of a job. The processes of all ranks make the same calls.
class GatherTimer {
public:
  /// `barrier` returns when all ranks have come to it, as close together as can be, or false if the
  /// job has failed. `dtype` is that of all rows.
  GatherTimer(Cluster &cluster, DType dtype, std::function<bool()> barrier);
  ~GatherTimer();

  /// Lowers a row, unless that is done; its graph is the same row. No rank meets another here, and
  /// what one refuses, all refuse: the job can go on without the row.
  Status lower(const GatherRow &row);
  /// Microseconds of each iteration, the maximum over ranks, of a row that was lowered; prepares it
  /// first, unless that is done. Collective; blocks. After a failure the job is over.
  Result<std::vector<double>> time(const GatherRow &row, const BenchTiming &timing);
  /// The next rows are of another shape. The device keeps its memory until the cluster ends.
  void forgetRows();
  /// What this rank has allocated for rows so far, those that were forgotten included.
  int64_t allocatedBytes() const;
  /// How many rows have been lowered so far, those that were forgotten included.
  int64_t loweredRows() const;

private:
  struct Lowered;
  class Tensors;

  Result<CompileOptions> optionsOf(const GatherRow &row);
  Status prepareRow(const GatherRow &row, Lowered &lowered);
  Result<double> timeOnce(const GatherRow &row, Lowered &lowered);
  Result<BenchTiming> warmUp(const GatherRow &row, Lowered &lowered, const BenchTiming &timing);
  Result<std::vector<double>> maximaOverRanks(const std::vector<double> &mine);

  Cluster &cluster_;
  std::function<bool()> barrier_;
  std::unique_ptr<Tensors> tensors_;
  std::map<std::string, Lowered *> rows_; ///< of this shape, by name
  std::deque<Lowered> all_;               ///< the device may still name their Plans
  int64_t preparedBytes_ = 0;
};

} // namespace braid
