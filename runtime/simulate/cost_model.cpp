//===- runtime/simulate/cost_model.cpp - what the operations of a machine cost ----------------===//

#include "runtime/simulate/cost_model.h"

#include "ir/failure.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace braid {
namespace {

template <class Cost, class IsSame>
void replaceOrAppend(std::vector<Cost> &all, const Cost &cost, IsSame isSame) {
  auto known = std::find_if(all.begin(), all.end(), isSame);
  if (known == all.end())
    all.push_back(cost);
  else
    *known = cost;
}

double flopsOf(int64_t m, int64_t n, int64_t k) {
  return 2 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
}

GemmCost withRows(GemmCost gemm, int64_t m, double us, double utilisation) {
  gemm.m = m;
  gemm.us = us;
  gemm.utilisation = std::clamp(utilisation, 1e-3, 1.0);
  return gemm;
}

GemmCost onLine(const GemmCost &a, const GemmCost &b, int64_t m) {
  const double low = static_cast<double>(a.m), high = static_cast<double>(b.m);
  const double part = (static_cast<double>(m) - low) / (high - low);
  GemmCost cost = withRows(a, m, a.us + part * (b.us - a.us),
                           a.utilisation + part * (b.utilisation - a.utilisation));
  cost.contention = std::max(1.0, a.contention + part * (b.contention - a.contention));
  return cost;
}

/// With fewer rows than `smallest`; `next` is the second smallest, or null.
GemmCost belowSmallest(const GemmCost &smallest, const GemmCost *next, int64_t m) {
  const double part = static_cast<double>(m) / static_cast<double>(smallest.m);
  const double proportional = smallest.us * part;
  const double us = next ? std::max(onLine(smallest, *next, m).us, proportional) : proportional;
  const double busy = proportional * smallest.utilisation;
  return withRows(smallest, m, std::min(us, smallest.us), us > 0 ? busy / us : 1);
}

GemmCost aboveLargest(const GemmCost &largest, int64_t m) {
  const double part = static_cast<double>(m) / static_cast<double>(largest.m);
  return withRows(largest, m, largest.us * part, largest.utilisation);
}

/// `column` is not empty: GEMMs that differ in their rows only, by rows, each with at least one.
GemmCost withRowsOf(llvm::ArrayRef<const GemmCost *> column, int64_t m) {
  if (m < column.front()->m)
    return belowSmallest(*column.front(), column.size() > 1 ? column[1] : nullptr, m);
  if (m > column.back()->m)
    return aboveLargest(*column.back(), m);
  auto above = std::find_if(column.begin(), column.end(),
                            [&](const GemmCost *each) { return each->m >= m; });
  return (*above)->m == m ? **above : onLine(**(above - 1), **above, m);
}

} // namespace

llvm::StringRef name(LaunchMode launchMode) {
  return launchMode == LaunchMode::Eager ? "eager" : "graph";
}

std::string str(TransferMode transferMode) {
  return fmt::format("copies={}, signals={}", name(transferMode.copies).str(),
                     name(transferMode.signals).str());
}

double OperationCosts::issueUs(CommandKind kind) const {
  switch (kind) {
  case CommandKind::Copy:
  case CommandKind::Sum:
  case CommandKind::Pointwise:
    return issueCopyUs;
  case CommandKind::Matmul:
    return issueMatmulUs;
  case CommandKind::Signal:
  case CommandKind::Await:
    return issueSignalUs;
  case CommandKind::Group:
  case CommandKind::Collective:
    return 0; // that of the commands that spell it out
  case CommandKind::Record:
  case CommandKind::WaitEvent:
    return issueEventUs;
  }
  return 0;
}

/// How many streams begin with something to do, none of which is behind another one's.
static size_t beginningsOf(const Plan &plan) {
  std::vector<bool> hasBegun(plan.streams.size(), false), isRecorded(plan.events, false);
  size_t count = 0;
  for (const Command &command : plan.commands) {
    const bool isBehind = hasBegun[command.stream];
    if (command.kind == CommandKind::Record) {
      isRecorded[command.event] = isBehind;
    } else if (command.kind == CommandKind::WaitEvent) {
      hasBegun[command.stream] = isBehind || isRecorded[command.event];
    } else {
      count += !isBehind;
      hasBegun[command.stream] = true;
    }
  }
  return count;
}

double OperationCosts::gapBefore(const Plan &plan) const {
  return gapUs + (beginningsOf(plan) > 1 ? forkUs : 0);
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
  if (!below || !above) {
    if (above)
      return above->us;
    return below ? std::optional(below->us * static_cast<double>(bytes) /
                                 static_cast<double>(std::max<int64_t>(below->bytes, 1)))
                 : std::nullopt;
  }
  if (below->bytes == above->bytes)
    return below->us;
  const double part =
      static_cast<double>(bytes - below->bytes) / static_cast<double>(above->bytes - below->bytes);
  return below->us + part * (above->us - below->us);
}

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

/// As a copy within memory has them, which reads and writes each of its own.
double CostModel::memoryUs(double bytes) const {
  double most = 0;
  for (const OperationCosts &costs : operations)
    most = std::max(most, costs.local.bytesPerUs);
  return most > 0 ? bytes / 2 / most : 0;
}

Result<GemmCost> CostModel::gemmCost(const PlanMatmul &shape) const {
  GemmCost cost = BRAID_TRY(costOfProduct(shape));
  cost.us += memoryUs(static_cast<double>(shape.addend.bytes));
  return cost;
}

Result<GemmCost> CostModel::costOfProduct(const PlanMatmul &shape) const {
  PlanMatmul other = shape;
  other.partial = shape.resultType() == shape.dtype ? std::optional(DType::F32) : std::nullopt;
  if (const std::optional<GemmCost> cost = fromColumn(shape))
    return *cost;
  if (const std::optional<GemmCost> cost = fromColumn(other))
    return withResult(*cost, shape.partial);
  return nearest(shape);
}

/// Nothing if no GEMM was measured that differs in its rows only.
std::optional<GemmCost> CostModel::fromColumn(const PlanMatmul &shape) const {
  std::vector<const GemmCost *> column;
  for (const GemmCost &gemm : gemms)
    if (gemm.isOfSameColumn(shape) && gemm.m > 0)
      column.push_back(&gemm);
  std::stable_sort(column.begin(), column.end(),
                   [](const GemmCost *a, const GemmCost *b) { return a->m < b->m; });
  return column.empty() ? std::nullopt : std::optional(withRowsOf(column, shape.m));
}

/// Bytes of the result cost what they cost a copy within memory, which reads and writes each.
GemmCost CostModel::withResult(GemmCost gemm, std::optional<DType> partial) const {
  const auto before = static_cast<double>(sizeOf(gemm.resultType()));
  gemm.partial = partial;
  const double bytes = static_cast<double>(sizeOf(gemm.resultType())) - before;
  gemm.us += memoryUs(bytes * static_cast<double>(gemm.m) * static_cast<double>(gemm.n));
  gemm.us = std::max(gemm.us, 0.0);
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
  guess.us = known > 0 ? found->us * flops / known : found->us;
  return withResult(guess, shape.partial);
}

} // namespace braid
