//===- api/calibrate/measure_gemms.cpp - measures what GEMMs cost -----------------------------===//

#include "api/calibrate/calibrate.h"
#include "api/calibrate/calibration_programs.h"
#include "ir/failure.h"

#include "llvm/ADT/STLExtras.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>

namespace braid {
namespace {

/// Selects shapes that differ only in their rows: the one with most rows, then each with at most
/// half the rows of the one before, and the one with fewest rows unless it is close to the last.
std::vector<PlanMatmul> fewRows(std::vector<PlanMatmul> shapes) {
  llvm::sort(shapes, [](const PlanMatmul &a, const PlanMatmul &b) { return a.m > b.m; });
  std::vector<PlanMatmul> kept;
  for (const PlanMatmul &shape : shapes)
    if (kept.empty() || shape.m <= kept.back().m / 2)
      kept.push_back(shape);
  if (4 * shapes.back().m < 3 * kept.back().m)
    kept.push_back(shapes.back());
  return kept;
}

/// Returns a length that makes the cost of the run small, but no longer than large GEMMs need.
int chainOf(const PlanMatmul &shape) {
  constexpr double kLarge = 3e11, kSmall = 3e10;
  return operationsOf(shape) > kLarge ? 2 : operationsOf(shape) > kSmall ? 4 : 16;
}

Result<double> timeGemms(PlanTimer &timer, const PlanMatmul &shape, int count, int streams,
                         const CalibrationOptions &options) {
  const std::vector<RunTime> times = BRAID_TRY(calibration::timeProgram(
      timer, fmt::format("timing a GEMM of {} x {} x {}", shape.m, shape.n, shape.k),
      calibration::gemms(calibration::Mesh(timer), shape, count, streams),
      {options.launchModes.back(), options.transferModes.front()}));
  return times.front().us;
}

/// Measures a GEMM. A chain on one stream gives the time; the same GEMMs on two streams take less
/// time by the utilisation that one GEMM leaves to another.
Result<GemmCost> measureGemm(const CostModel &model, const PlanMatmul &shape, PlanTimer &timer,
                             const CalibrationOptions &options) {
  constexpr double kLeastUtilisation = 0.5; // two streams hide no more
  const OperationCosts &costs =
      *model.find(options.launchModes.back(), options.transferModes.front());
  const int count = chainOf(shape);
  const double one = BRAID_TRY(timeGemms(timer, shape, count, 1, options));
  const double two = BRAID_TRY(timeGemms(timer, shape, count, 2, options));
  const double begin = costs.runUs + costs.issueUs;
  const double all = std::max(one - begin, kLeastUs);
  GemmCost gemm{shape.dtype, shape.transposeB, shape.m, shape.n, shape.k, all / count};
  gemm.partial = shape.partial;
  gemm.utilisation = std::clamp((two - begin) / all, kLeastUtilisation, 1.0);
  return gemm;
}

} // namespace

std::vector<PlanMatmul> shapesToMeasure(llvm::ArrayRef<PlanMatmul> shapes) {
  using Column = std::tuple<DType, DType, bool, int64_t, int64_t>;
  std::map<Column, std::vector<PlanMatmul>> columns;
  for (const PlanMatmul &shape : shapes)
    if (shape.m > 0 && shape.n > 0)
      columns[{shape.dtype, shape.resultType(), shape.transposeB, shape.n, shape.k}].push_back(
          shape);
  std::vector<PlanMatmul> wanted;
  for (auto &[column, all] : columns)
    llvm::append_range(wanted, fewRows(std::move(all)));
  return wanted;
}

Result<bool> measureGemms(CostModel &model, llvm::ArrayRef<PlanMatmul> shapes, PlanTimer &timer,
                          const CalibrationOptions &options) {
  ProgressStep progress(options.progress, "multiplying", "GEMMs", shapes.size());
  bool hasMeasured = false;
  for (const PlanMatmul &shape : shapes) {
    if (!model.find(shape)) {
      model.add(BRAID_TRY(measureGemm(model, shape, timer, options)));
      hasMeasured = true;
    }
    progress.advance();
  }
  return hasMeasured;
}

} // namespace braid
