//===- api/gather_bench.h - times gather+matmul beside its limits -----------------------------===//
//
// A row is one way to do the work, or a part of it that no way can beat: the product alone, the
// gather alone. All rows of a shape are timed by one job of processes, one after another. What is
// timed is one run on every rank from the moment when all have met: wall clock on the host until
// the rank's own work is done, the maximum over ranks.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "api/compile.h"
#include "runtime/backend.h"

#include <deque>
#include <functional>
#include <string>
#include <vector>

namespace braid {

/// C[m, n] = A[m, k] · B[k, n]; each rank has m / ranks rows of A, and all of B, of n columns.
struct GatherShape {
  int64_t m = 0, n = 0, k = 0;
};

struct GatherRow {
  std::string name; ///< as asked for: "pairwise;protocol=put", "matmul", "gather"
  std::string text; ///< a fusion or a program
  CompileOptions options;
  bool isGraphed = false;
  TransferMeans means = {};
};

/// The rows that `name[;key=value]...` stands for: matmul, gather, or a schedule with protocol,
/// chunks (a rank's block), taper, streams, transfers, copies and signals. BadInput says what is
/// not understood.
Result<GatherRow> makeGatherRow(const std::string &name, const GatherShape &shape, DType dtype,
                                int64_t ranks, bool isGraphed);

struct BenchTiming {
  int64_t warmUp = 5, iterations = 20;
};

/// Times rows on one rank of a job. The processes of all ranks make the same calls.
class GatherTimer {
public:
  /// `barrier` returns when all ranks have come to it, as close together as can be, or false if the
  /// job has failed.
  GatherTimer(Cluster &cluster, std::function<bool()> barrier)
      : cluster_(cluster), barrier_(std::move(barrier)) {}

  /// Microseconds of each iteration, the maximum over ranks. Collective; blocks.
  Result<std::vector<double>> time(const GatherRow &row, const BenchTiming &timing);

private:
  Result<std::vector<double>> maximaOverRanks(const std::vector<double> &mine);

  Cluster &cluster_;
  std::function<bool()> barrier_;
  std::deque<std::vector<Plan>> plans_; ///< of all rows: the device may still name them
};

struct Spread {
  double median = 0, low = 0, high = 0; ///< low and high: the 10th and 90th of a hundred
};
Spread spreadOf(std::vector<double> samples);

} // namespace braid
