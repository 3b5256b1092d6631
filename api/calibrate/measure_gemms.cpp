//===- api/calibrate/measure_gemms.cpp - measures what products cost ------===//

#include "api/calibrate/measure_gemms.h"

#include "api/calibrate/calibration_programs.h"

#include "llvm/ADT/STLExtras.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>

namespace braid {
namespace {

/// Of products that differ in their rows only: the most rows, then each at most half of those
/// before, and the fewest unless they are about as many. What lies between is on a line.
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

std::vector<PlanMatmul> shapesToMeasure(const CostModel &model, llvm::ArrayRef<PlanMatmul> shapes) {
  using Column = std::tuple<DType, bool, int64_t, int64_t>;
  std::map<Column, std::vector<PlanMatmul>> columns;
  for (const PlanMatmul &shape : shapes)
    if (shape.m > 0 && shape.n > 0)
      columns[{shape.dtype, shape.transposeB, shape.n, shape.k}].push_back(shape);
  std::vector<PlanMatmul> wanted;
  for (auto &[column, all] : columns)
    for (const PlanMatmul &shape : fewRows(std::move(all)))
      if (!model.find(shape))
        wanted.push_back(shape);
  return wanted;
}

/// Few enough that the largest products take no longer than they have to.
int chainOf(const PlanMatmul &shape) {
  constexpr double kLarge = 3e11;
  const double flops = 2.0 * double(shape.m) * double(shape.n) * double(shape.k);
  return flops > kLarge ? 2 : 4;
}

Result<RunTime> timeProducts(PlanTimer &timer, const PlanMatmul &shape, int count, int streams,
                             Issuing issuing, const CalibrationOptions &options) {
  Result<std::vector<Plan>> plans =
      calibration::plansOf(calibration::products(timer.ranks(), shape, count, streams));
  if (!plans)
    return plans.status();
  TimingEffort effort = options.effort;
  effort.settleUs = timer.settlingUs(plans->front().matmuls);
  Result<std::vector<RunTime>> times =
      timer.time(std::move(*plans), {issuing}, effort, options.means.front());
  if (!times)
    return times.status().annotated(
        fmt::format("timing a product of {} x {} x {}", shape.m, shape.n, shape.k));
  return times->front();
}

/// Of the same work, by the time that it takes dealt out to two streams, as a part of that on one:
/// less is what a product leaves to another one, more is how two get into one another's way.
void setShareAndCrowding(ProductCost &product, double part) {
  constexpr double kLeastShare = 0.5;   // two streams hide no more
  constexpr double kMostCrowding = 1.5; // beyond is what else disturbed the run
  product.share = std::clamp(part, kLeastShare, 1.0);
  product.crowding = std::clamp(part, 1.0, kMostCrowding);
}

Result<ProductCost> measureProduct(const CostModel &model, const PlanMatmul &shape,
                                   PlanTimer &timer, const CalibrationOptions &options) {
  const Issuing issuing = options.ways.back();
  const OperationCosts &costs = *model.find(issuing, options.means.front());
  const int count = chainOf(shape);
  Result<RunTime> one = timeProducts(timer, shape, count, 1, issuing, options);
  if (!one)
    return one.status();
  Result<RunTime> two = timeProducts(timer, shape, count, 2, issuing, options);
  if (!two)
    return two.status();
  const double all = std::max(one->us - costs.runUs - costs.issueMatmulUs, kLeastUs);
  const double dealt = two->us - costs.runUs - costs.issueMatmulUs - 2 * costs.eventUs;
  ProductCost product{shape.dtype, shape.transposeB, shape.m, shape.n, shape.k, all / count};
  setShareAndCrowding(product, dealt / all);
  return product;
}

} // namespace

Result<bool> measureProducts(CostModel &model, llvm::ArrayRef<PlanMatmul> shapes, PlanTimer &timer,
                             const CalibrationOptions &options) {
  const std::vector<PlanMatmul> wanted = shapesToMeasure(model, shapes);
  for (const PlanMatmul &shape : wanted) {
    Result<ProductCost> cost = measureProduct(model, shape, timer, options);
    if (!cost)
      return cost.status();
    model.add(*cost);
  }
  return !wanted.empty();
}

} // namespace braid
