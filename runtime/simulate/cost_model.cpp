//===- runtime/simulate/cost_model.cpp - what the operations of a machine cost -===//

#include "runtime/simulate/cost_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace braid {
namespace {

/// Products that differ in their rows only. `Shape`: a PlanMatmul or a ProductCost.
template <class Shape> bool isSameColumn(const ProductCost &product, const Shape &shape) {
  return product.dtype == shape.dtype && product.transposeB == shape.transposeB &&
         product.n == shape.n && product.k == shape.k;
}

template <class Shape> bool isSameShape(const ProductCost &product, const Shape &shape) {
  return isSameColumn(product, shape) && product.m == shape.m;
}

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

ProductCost withRows(ProductCost product, int64_t m, double us, double share) {
  product.m = m;
  product.us = us;
  product.share = std::clamp(share, 1e-3, 1.0);
  return product;
}

ProductCost onLine(const ProductCost &a, const ProductCost &b, int64_t m) {
  const double low = static_cast<double>(a.m), high = static_cast<double>(b.m);
  const double part = (static_cast<double>(m) - low) / (high - low);
  ProductCost cost =
      withRows(a, m, a.us + part * (b.us - a.us), a.share + part * (b.share - a.share));
  cost.crowding = std::max(1.0, a.crowding + part * (b.crowding - a.crowding));
  return cost;
}

/// With fewer rows than `smallest`; `next` is the second smallest, or null.
ProductCost belowSmallest(const ProductCost &smallest, const ProductCost *next, int64_t m) {
  const double part = static_cast<double>(m) / static_cast<double>(smallest.m);
  const double proportional = smallest.us * part;
  const double us = next ? std::max(onLine(smallest, *next, m).us, proportional) : proportional;
  const double busy = proportional * smallest.share;
  return withRows(smallest, m, std::min(us, smallest.us), us > 0 ? busy / us : 1);
}

ProductCost aboveLargest(const ProductCost &largest, int64_t m) {
  const double part = static_cast<double>(m) / static_cast<double>(largest.m);
  return withRows(largest, m, largest.us * part, largest.share);
}

/// `column` is not empty: products that differ in their rows only, by rows, each with at least one.
ProductCost withRowsOf(llvm::ArrayRef<const ProductCost *> column, int64_t m) {
  if (m < column.front()->m)
    return belowSmallest(*column.front(), column.size() > 1 ? column[1] : nullptr, m);
  if (m > column.back()->m)
    return aboveLargest(*column.back(), m);
  auto above = std::find_if(column.begin(), column.end(),
                            [&](const ProductCost *each) { return each->m >= m; });
  return (*above)->m == m ? **above : onLine(**(above - 1), **above, m);
}

} // namespace

llvm::StringRef name(Issuing issuing) { return issuing == Issuing::Eager ? "eager" : "graph"; }

std::string str(TransferMeans means) {
  return fmt::format("copies={}, signals={}", name(means.copies).str(), name(means.signals).str());
}

double OperationCosts::issueUs(CommandKind kind) const {
  switch (kind) {
  case CommandKind::Copy:
  case CommandKind::Add:
    return issueCopyUs;
  case CommandKind::Matmul:
    return issueMatmulUs;
  case CommandKind::Signal:
  case CommandKind::Await:
    return issueSignalUs;
  case CommandKind::Record:
  case CommandKind::WaitEvent:
    return issueEventUs;
  }
  return 0;
}

const OperationCosts *CostModel::find(Issuing issuing, TransferMeans means) const {
  for (const OperationCosts &costs : operations)
    if (costs.issuing == issuing && costs.means == means)
      return &costs;
  return nullptr;
}

const ProductCost *CostModel::find(const PlanMatmul &shape) const {
  for (const ProductCost &product : products)
    if (isSameShape(product, shape))
      return &product;
  return nullptr;
}

void CostModel::add(const OperationCosts &costs) {
  replaceOrAppend(operations, costs, [&](const OperationCosts &known) {
    return known.issuing == costs.issuing && known.means == costs.means;
  });
}

void CostModel::add(const ProductCost &product) {
  replaceOrAppend(products, product,
                  [&](const ProductCost &known) { return isSameShape(known, product); });
}

Result<ProductCost> CostModel::productCost(const PlanMatmul &shape) const {
  std::vector<const ProductCost *> column;
  for (const ProductCost &product : products)
    if (isSameColumn(product, shape) && product.m > 0)
      column.push_back(&product);
  std::stable_sort(column.begin(), column.end(),
                   [](const ProductCost *a, const ProductCost *b) { return a->m < b->m; });
  return column.empty() ? nearest(shape) : withRowsOf(column, shape.m);
}

Result<ProductCost> CostModel::nearest(const PlanMatmul &shape) const {
  const double flops = flopsOf(shape.m, shape.n, shape.k);
  auto distance = [&](const ProductCost &product) {
    return std::abs(std::log((flopsOf(product.m, product.n, product.k) + 1) / (flops + 1)));
  };
  const ProductCost *found = nullptr;
  for (const ProductCost &product : products)
    if (product.dtype == shape.dtype && (!found || distance(product) < distance(*found)))
      found = &product;
  if (!found)
    return Status(StatusCode::Unsupported,
                  fmt::format("the cost model knows no product of {}", name(shape.dtype).str()));
  const double known = flopsOf(found->m, found->n, found->k);
  ProductCost guess = *found;
  guess.transposeB = shape.transposeB;
  guess.m = shape.m, guess.n = shape.n, guess.k = shape.k;
  guess.us = known > 0 ? found->us * flops / known : found->us;
  return guess;
}

} // namespace braid
