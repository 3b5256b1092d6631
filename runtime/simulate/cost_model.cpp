//===- runtime/simulate/cost_model.cpp - the costs of a machine's operations ------------------===//

#include "runtime/simulate/cost_model.h"

#include "ir/failure.h"

#include "llvm/ADT/STLExtras.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace braid {
namespace {

/// Returns the time of a GEMM with `m` rows. `column` must not be empty, and its entries must
/// differ only in `m` and be sorted by `m`.
double usOfRows(llvm::ArrayRef<const GemmCost *> column, int64_t m) {
  const auto *above = llvm::find_if(column, [&](const GemmCost *each) { return each->m >= m; });
  if (above == column.begin())
    return (*above)->us;
  const GemmCost &below = **(above - 1);
  if (above == column.end())
    return below.us * double(m) / double(below.m);
  const double part = double(m - below.m) / double((*above)->m - below.m);
  return below.us + part * ((*above)->us - below.us);
}

Result<double> nearestUs(const CostModel &model, const PlanMatmul &shape) {
  const double wanted = operationsOf(shape);
  auto distance = [&](const GemmCost &gemm) {
    return std::abs(std::log((operationsOf(gemm) + 1) / (wanted + 1)));
  };
  const GemmCost *found = nullptr;
  for (const GemmCost &gemm : model.gemms)
    if (gemm.dtype == shape.dtype && (!found || distance(gemm) < distance(*found)))
      found = &gemm;
  if (!found)
    return unsupported("the cost model has no GEMM of type {}", name(shape.dtype).str());
  return found->us * wanted / operationsOf(*found);
}

/// Returns the time for `bytes` of memory traffic. A local copy reads and writes each byte.
double memoryUs(const CostModel &model, double bytes) {
  double most = 0;
  for (const OperationCosts &costs : model.operations)
    most = std::max(most, costs.local.bytesPerUs);
  return most > 0 ? bytes / 2 / most : 0;
}

/// Returns the entries with the types, columns and depth of `shape`, sorted by rows.
std::vector<const GemmCost *> columnOf(const CostModel &model, const PlanMatmul &shape) {
  std::vector<const GemmCost *> column;
  for (const GemmCost &gemm : model.gemms)
    if (gemm.isOfSameColumn(shape))
      column.push_back(&gemm);
  llvm::stable_sort(column, [](const GemmCost *a, const GemmCost *b) { return a->m < b->m; });
  return column;
}

} // namespace

llvm::StringRef name(LaunchMode launchMode) {
  return launchMode == LaunchMode::Eager ? "eager" : "graph";
}

std::string str(TransferMode transferMode) {
  return fmt::format("copies={}, signals={}", name(transferMode.copies).str(),
                     name(transferMode.signals).str());
}

const OperationCosts *CostModel::find(LaunchMode launchMode, TransferMode transferMode) const {
  for (const OperationCosts &costs : operations)
    if (costs.launchMode == launchMode && costs.transferMode.movesAs(transferMode))
      return &costs;
  return nullptr;
}

const GemmCost *CostModel::find(const PlanMatmul &shape) const {
  for (const GemmCost &gemm : gemms)
    if (gemm.isOfSameShape(shape))
      return &gemm;
  return nullptr;
}

void CostModel::add(const OperationCosts &costs) {
  if (const OperationCosts *known = find(costs.launchMode, costs.transferMode))
    operations[static_cast<size_t>(known - operations.data())] = costs;
  else
    operations.push_back(costs);
}

Result<double> CostModel::gemmUs(const PlanMatmul &shape) const {
  if (shape.m == 0)
    return 0;
  PlanMatmul other = shape;
  other.partial = shape.resultType() == shape.dtype ? std::optional(DType::F32) : std::nullopt;
  std::vector<const GemmCost *> column = columnOf(*this, shape);
  if (column.empty())
    column = columnOf(*this, other);
  const double us = column.empty() ? BRAID_TRY(nearestUs(*this, shape)) : usOfRows(column, shape.m);
  return us + memoryUs(*this, static_cast<double>(shape.addend.bytes));
}

} // namespace braid
