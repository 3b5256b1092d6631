//===- runtime/simulate/cost_model.cpp - what the operations of a machine cost ----------------===//

#include "runtime/simulate/cost_model.h"

#include "ir/failure.h"

#include "llvm/ADT/STLExtras.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace braid {
namespace {

template <class Cost, class IsSame>
void replaceOrAppend(std::vector<Cost> &all, const Cost &cost, IsSame isSame) {
  auto known = llvm::find_if(all, isSame);
  if (known == all.end())
    all.push_back(cost);
  else
    *known = cost;
}

/// The value at `x` of the line through (x0, y0) and (x1, y1).
double onLine(double x0, double y0, double x1, double y1, double x) {
  return y0 + (x - x0) / (x1 - x0) * (y1 - y0);
}

double flopsOf(int64_t m, int64_t n, int64_t k) {
  return 2 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
}

GemmCost between(const GemmCost &a, const GemmCost &b, int64_t m) {
  const double low = double(a.m), high = double(b.m), rows = double(m);
  GemmCost cost = a;
  cost.us = onLine(low, a.us, high, b.us, rows);
  cost.utilisation = onLine(low, a.utilisation, high, b.utilisation, rows);
  return cost;
}

/// `next` is the second smallest, or null. Fewer rows keep less of the machine busy.
GemmCost belowSmallest(const GemmCost &smallest, const GemmCost *next, int64_t m) {
  const double proportional = smallest.us * double(m) / double(smallest.m);
  GemmCost cost = smallest;
  if (next)
    cost.us = std::min(smallest.us, std::max(between(smallest, *next, m).us, proportional));
  else
    cost.us = proportional;
  if (cost.us > 0)
    cost.utilisation = std::clamp(proportional * smallest.utilisation / cost.us, 1e-3, 1.0);
  return cost;
}

/// `column` holds at least one entry; they differ in their rows only, and are sorted by them.
GemmCost withRowsOf(llvm::ArrayRef<const GemmCost *> column, int64_t m) {
  const GemmCost &smallest = *column.front(), &largest = *column.back();
  if (m < smallest.m)
    return belowSmallest(smallest, column.size() > 1 ? column[1] : nullptr, m);
  if (m > largest.m) {
    GemmCost cost = largest;
    cost.us *= double(m) / double(largest.m);
    return cost;
  }
  const auto *above = llvm::find_if(column, [&](const GemmCost *each) { return each->m >= m; });
  return (*above)->m == m ? **above : between(**(above - 1), **above, m);
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
  replaceOrAppend(operations, costs, [&](const OperationCosts &known) {
    return known.launchMode == costs.launchMode && known.transferMode.movesAs(costs.transferMode);
  });
}

void CostModel::add(const GemmCost &gemm) {
  replaceOrAppend(gemms, gemm, [&](const GemmCost &known) { return known.isOfSameShape(gemm); });
}

void CostModel::add(const MessageCost &cost) {
  replaceOrAppend(messages, cost, [&](const MessageCost &known) { return known.isOfSame(cost); });
}

// -- Messages. --

std::string nameOfMessage(std::optional<CollectiveKind> collective) {
  return collective ? name(*collective).str() : "group";
}

std::optional<CollectiveKind> kindOfMessage(const Plan &plan, const Command &command) {
  return command.kind == CommandKind::Collective
             ? std::optional(plan.collectives[command.collective].kind)
             : std::nullopt;
}

int64_t bytesOfMessage(const Plan &plan, const Command &command) {
  if (command.kind == CommandKind::Collective) {
    const PlanCollective &collective = plan.collectives[command.collective];
    return std::max(collective.src.bytes, collective.dst.bytes);
  }
  int64_t sent = 0, received = 0;
  for (const PlanMessage &message : plan.groups[command.group])
    (message.direction == Direction::Send ? sent : received) += message.range.bytes;
  return std::max(sent, received);
}

std::optional<double> CostModel::messageUs(LaunchMode launchMode,
                                           std::optional<CollectiveKind> collective,
                                           int64_t bytes) const {
  const MessageCost *below = nullptr, *above = nullptr;
  for (const MessageCost &each : messages) {
    if (each.launchMode != launchMode || each.collective != collective)
      continue;
    if (each.bytes <= bytes && (!below || each.bytes > below->bytes))
      below = &each;
    if (each.bytes >= bytes && (!above || each.bytes < above->bytes))
      above = &each;
  }
  if (!below && !above)
    return std::nullopt;
  if (!below || (above && above->bytes == below->bytes))
    return above->us;
  if (!above)
    return below->us * double(bytes) / double(std::max<int64_t>(below->bytes, 1));
  return onLine(double(below->bytes), below->us, double(above->bytes), above->us, double(bytes));
}

// -- GEMMs. --

/// As a copy within memory takes, which reads and writes each byte.
double CostModel::memoryUs(double bytes) const {
  double most = 0;
  for (const OperationCosts &costs : operations)
    most = std::max(most, costs.local.bytesPerUs);
  return most > 0 ? bytes / 2 / most : 0;
}

Result<GemmCost> CostModel::gemmCost(const PlanMatmul &shape) const {
  GemmCost cost = BRAID_TRY(withoutAddend(shape));
  cost.us += memoryUs(static_cast<double>(shape.addend.bytes));
  return cost;
}

Result<GemmCost> CostModel::withoutAddend(const PlanMatmul &shape) const {
  if (const std::optional<GemmCost> cost = fromColumn(shape))
    return *cost;
  PlanMatmul other = shape;
  other.partial = shape.resultType() == shape.dtype ? std::optional(DType::F32) : std::nullopt;
  if (const std::optional<GemmCost> cost = fromColumn(other))
    return withResult(*cost, shape.partial);
  return nearest(shape);
}

/// Nothing if no entry has the same types, columns and depth.
std::optional<GemmCost> CostModel::fromColumn(const PlanMatmul &shape) const {
  std::vector<const GemmCost *> column;
  for (const GemmCost &gemm : gemms)
    if (gemm.isOfSameColumn(shape) && gemm.m > 0)
      column.push_back(&gemm);
  if (column.empty())
    return std::nullopt;
  llvm::stable_sort(column, [](const GemmCost *a, const GemmCost *b) { return a->m < b->m; });
  GemmCost cost = withRowsOf(column, shape.m);
  cost.m = shape.m;
  return cost;
}

GemmCost CostModel::withResult(GemmCost gemm, std::optional<DType> partial) const {
  const auto before = static_cast<double>(sizeOf(gemm.resultType()));
  gemm.partial = partial;
  const double bytes = static_cast<double>(sizeOf(gemm.resultType())) - before;
  gemm.us = std::max(0.0, gemm.us + memoryUs(bytes * double(gemm.m) * double(gemm.n)));
  return gemm;
}

Result<GemmCost> CostModel::nearest(const PlanMatmul &shape) const {
  const double flops = flopsOf(shape.m, shape.n, shape.k);
  auto distance = [&](const GemmCost &gemm) {
    return std::abs(std::log((flopsOf(gemm.m, gemm.n, gemm.k) + 1) / (flops + 1)));
  };
  const GemmCost *found = nullptr;
  for (const GemmCost &gemm : gemms)
    if (gemm.dtype == shape.dtype && (!found || distance(gemm) < distance(*found)))
      found = &gemm;
  if (!found)
    return unsupported("the cost model knows no GEMM of {}", name(shape.dtype).str());
  const double known = flopsOf(found->m, found->n, found->k);
  GemmCost guess = *found;
  guess.transposeB = shape.transposeB;
  guess.m = shape.m, guess.n = shape.n, guess.k = shape.k;
  guess.us *= known > 0 ? flops / known : 1;
  return withResult(guess, shape.partial);
}

// -- Parts of a run alone. --

CostModel withoutGemms(CostModel model) {
  for (GemmCost &gemm : model.gemms)
    gemm.us = 0;
  return model;
}

CostModel withGemmsAlone(CostModel model) {
  constexpr double kAtOnce = 1e15;
  for (OperationCosts &costs : model.operations) {
    OperationCosts free;
    free.launchMode = costs.launchMode;
    free.transferMode = costs.transferMode;
    free.local = free.pull = free.push = {0, kAtOnce};
    costs = free;
  }
  for (MessageCost &message : model.messages)
    message.us = 0;
  model.network = {0, kAtOnce, kAtOnce};
  return model;
}

} // namespace braid
