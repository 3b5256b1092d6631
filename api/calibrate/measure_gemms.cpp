//===- api/calibrate/measure_gemms.cpp - measures the costs of GEMMs --------------------------===//

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

/// Selects shapes from `shapes`, which differ only in the number of rows: first the largest, then
/// each shape with at most half the rows of the shape selected before, and finally the smallest,
/// unless it has almost as many rows as the last selected shape.
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

/// Returns how many GEMMs a chain needs so that the fixed cost of a run is negligible. Chains of
/// large GEMMs can be shorter.
int chainOf(const PlanMatmul &shape) {
  constexpr double kLarge = 3e11, kSmall = 3e10;
  return operationsOf(shape) > kLarge ? 2 : operationsOf(shape) > kSmall ? 4 : 16;
}

Result<GemmCost> measureGemm(const CostModel &model, const PlanMatmul &shape, PlanTimer &timer,
                             const CalibrationOptions &options) {
  const OperationCosts &costs =
      *model.find(options.launchModes.back(), options.transferModes.front());
  const int count = chainOf(shape);
  const std::vector<RunTime> times = BRAID_TRY(calibration::timeProgram(
      timer, fmt::format("timing a GEMM of {} x {} x {}", shape.m, shape.n, shape.k),
      calibration::gemms(calibration::Mesh(timer), shape, count),
      {options.launchModes.back(), options.transferModes.front()}));
  const double all = std::max(times.front().us - costs.runUs - costs.issueUs, kLeastUs);
  return GemmCost{shape.dtype, shape.transposeB, shape.m,      shape.n,
                  shape.k,     all / count,      shape.partial};
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
  ProgressStep progress(options.progress, "timing GEMMs", "GEMMs", shapes.size());
  bool hasMeasured = false;
  for (const PlanMatmul &shape : shapes) {
    if (!model.find(shape)) {
      model.gemms.push_back(BRAID_TRY(measureGemm(model, shape, timer, options)));
      hasMeasured = true;
    }
    progress.advance();
  }
  return hasMeasured;
}

} // namespace braid
