//===- runtime/cost_model.cpp - what the operations of a machine cost -------------------------===//

#include "runtime/cost_model.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>

namespace braid {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char *kFormat = "braid cost model 2";
/// No time and no rate of a machine is larger; sums of them stay finite.
constexpr double kLargest = 1e15;

// -- Every number of a structure, by name: once for both directions. --

template <class Costs, class Visit> void forEachNumber(Costs &costs, Visit visit) {
  visit("run_us", costs.runUs);
  visit("issue_copy_us", costs.issueCopyUs);
  visit("issue_matmul_us", costs.issueMatmulUs);
  visit("issue_signal_us", costs.issueSignalUs);
  visit("issue_event_us", costs.issueEventUs);
  visit("event_us", costs.eventUs);
  visit("signal_us", costs.signalUs);
  visit("flight_us", costs.flightUs);
  visit("await_us", costs.awaitUs);
}

template <class Costs, class Visit> void forEachCopy(Costs &costs, Visit visit) {
  visit("local", costs.local);
  visit("pull", costs.pull);
  visit("push", costs.push);
}

template <class Cost, class Visit> void forEachNumberOfCopy(Cost &cost, Visit visit) {
  visit("fixed_us", cost.fixedUs);
  visit("bytes_per_us", cost.bytesPerUs);
  visit("shared_bytes_per_us", cost.sharedBytesPerUs);
}

// -- Writing. --

Json toJson(const OperationCosts &costs) {
  Json json = {{"issuing", name(costs.issuing).str()},
               {"copies", name(costs.means.copies).str()},
               {"signals", name(costs.means.signals).str()}};
  forEachNumber(costs, [&](const char *key, double value) { json[key] = value; });
  forEachCopy(costs, [&](const char *key, const CopyCost &copy) {
    Json inner;
    forEachNumberOfCopy(copy, [&](const char *part, double value) { inner[part] = value; });
    json[key] = std::move(inner);
  });
  return json;
}

Json toJson(const ProductCost &product) {
  return {{"dtype", name(product.dtype).str()},
          {"transpose_b", product.transposeB},
          {"m", product.m},
          {"n", product.n},
          {"k", product.k},
          {"us", product.us},
          {"share", product.share}};
}

// -- Reading. The first mistake stays. --

class Reader {
public:
  Result<CostModel> read(llvm::StringRef text);

private:
  void fail(const std::string &where, const std::string &expected, const Json &got);
  const Json &field(const Json &object, const char *key, const std::string &where);
  double number(const Json &object, const char *key, const std::string &where, double least);
  int64_t integer(const Json &object, const char *key, const std::string &where);
  std::string text(const Json &object, const char *key, const std::string &where);
  const Json &list(const Json &object, const char *key);
  TransferMeans means(const Json &json, const std::string &where);
  OperationCosts operation(const Json &json, const std::string &where);
  ProductCost product(const Json &json, const std::string &where);

  Status status_;
};

void Reader::fail(const std::string &where, const std::string &expected, const Json &got) {
  if (!status_.isOk())
    return;
  std::string text = got.dump(-1, ' ', true, Json::error_handler_t::replace);
  if (text.size() > 40)
    text = text.substr(0, 40) + "...";
  status_ = Status(StatusCode::BadInput,
                   fmt::format("cost model: {}: expected {}, got {}", where, expected, text));
}

const Json &Reader::field(const Json &object, const char *key, const std::string &where) {
  static const Json kNothing;
  if (!object.is_object()) {
    fail(where, "an object", object);
    return kNothing;
  }
  auto found = object.find(key);
  return found == object.end() ? kNothing : *found;
}

double Reader::number(const Json &object, const char *key, const std::string &where, double least) {
  const Json &json = field(object, key, where);
  double value = json.is_number() ? json.get<double>() : -1;
  if (std::isfinite(value) && value >= least && value <= kLargest)
    return value;
  fail(where + "." + key, fmt::format("a number from {} to {}", least, kLargest), json);
  return least;
}

int64_t Reader::integer(const Json &object, const char *key, const std::string &where) {
  const Json &json = field(object, key, where);
  constexpr int64_t kMost = int64_t(1) << 40;
  bool fits = json.is_number_unsigned() ? json.get<uint64_t>() <= uint64_t(kMost)
                                        : json.is_number_integer() && json.get<int64_t>() >= 0;
  if (fits)
    return json.get<int64_t>();
  fail(where + "." + key, fmt::format("an integer from 0 to {}", kMost), json);
  return 0;
}

std::string Reader::text(const Json &object, const char *key, const std::string &where) {
  const Json &json = field(object, key, where);
  if (json.is_string())
    return json.get<std::string>();
  fail(where + "." + key, "a text", json);
  return "";
}

const Json &Reader::list(const Json &object, const char *key) {
  static const Json kEmpty = Json::array();
  const Json &json = field(object, key, "it");
  if (json.is_array())
    return json;
  fail(key, "a list", json);
  return kEmpty;
}

TransferMeans Reader::means(const Json &json, const std::string &where) {
  const std::string copies = text(json, "copies", where), signals = text(json, "signals", where);
  const std::optional<CopyBy> copyBy = copyByFromName(copies);
  const std::optional<SignalBy> signalBy = signalByFromName(signals);
  if (!copyBy)
    fail(where + ".copies", "default, engine or kernel", Json(copies));
  if (!signalBy)
    fail(where + ".signals", "default, memory or kernel", Json(signals));
  return {copyBy.value_or(CopyBy::Default), signalBy.value_or(SignalBy::Default)};
}

OperationCosts Reader::operation(const Json &json, const std::string &where) {
  OperationCosts costs;
  std::string issuing = text(json, "issuing", where);
  if (issuing != name(Issuing::Eager) && issuing != name(Issuing::Graph))
    fail(where + ".issuing", "eager or graph", Json(issuing));
  costs.issuing = issuing == name(Issuing::Graph) ? Issuing::Graph : Issuing::Eager;
  costs.means = means(json, where);
  forEachNumber(costs,
                [&](const char *key, double &value) { value = number(json, key, where, 0); });
  forEachCopy(costs, [&](const char *key, CopyCost &copy) {
    const Json &inner = field(json, key, where);
    const std::string place = where + "." + key;
    copy.fixedUs = number(inner, "fixed_us", place, 0);
    copy.bytesPerUs = number(inner, "bytes_per_us", place, 1e-3);
    copy.sharedBytesPerUs = number(inner, "shared_bytes_per_us", place, 1e-3);
  });
  return costs;
}

ProductCost Reader::product(const Json &json, const std::string &where) {
  ProductCost product;
  std::string dtype = text(json, "dtype", where);
  std::optional<DType> type = dtypeFromName(dtype);
  if (!type)
    fail(where + ".dtype", "bf16, f16, f32 or f64", Json(dtype));
  product.dtype = type.value_or(DType::BF16);
  const Json &transpose = field(json, "transpose_b", where);
  if (!transpose.is_boolean())
    fail(where + ".transpose_b", "true or false", transpose);
  product.transposeB = transpose.is_boolean() && transpose.get<bool>();
  product.m = integer(json, "m", where);
  product.n = integer(json, "n", where);
  product.k = integer(json, "k", where);
  product.us = number(json, "us", where, 0);
  product.share = number(json, "share", where, 1e-3);
  if (product.share > 1)
    fail(where + ".share", "at most 1", Json(product.share));
  return product;
}

Result<CostModel> Reader::read(llvm::StringRef bytes) {
  Json json = Json::parse(bytes.begin(), bytes.end(), nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded())
    return Status(StatusCode::BadInput, "cost model: expected JSON");
  std::string format = text(json, "format", "it");
  if (format != kFormat)
    fail("format", fmt::format("\"{}\"", kFormat), Json(format));
  CostModel model;
  model.machine = text(json, "machine", "it");
  model.ranks = integer(json, "ranks", "it");
  for (const Json &each : list(json, "operations"))
    model.operations.push_back(
        operation(each, fmt::format("operations[{}]", model.operations.size())));
  const Json &products = list(json, "products");
  for (const Json &each : products)
    model.add(product(each, fmt::format("products[{}]", &each - &products.front())));
  if (!status_.isOk())
    return status_;
  return model;
}

// -- Products that were not measured. --

bool isSameColumn(const ProductCost &product, const PlanMatmul &shape) {
  return product.dtype == shape.dtype && product.transposeB == shape.transposeB &&
         product.n == shape.n && product.k == shape.k;
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
  return withRows(a, m, a.us + part * (b.us - a.us), a.share + part * (b.share - a.share));
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
    if (isSameColumn(product, shape) && product.m == shape.m)
      return &product;
  return nullptr;
}

void CostModel::add(const OperationCosts &costs) {
  for (OperationCosts &known : operations)
    if (known.issuing == costs.issuing && known.means == costs.means) {
      known = costs;
      return;
    }
  operations.push_back(costs);
}

void CostModel::add(const ProductCost &product) {
  for (ProductCost &known : products)
    if (known.dtype == product.dtype && known.transposeB == product.transposeB &&
        known.m == product.m && known.n == product.n && known.k == product.k) {
      known = product;
      return;
    }
  products.push_back(product);
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

std::string CostModel::encode() const {
  Json json = {{"format", kFormat}, {"machine", machine}, {"ranks", ranks}};
  json["operations"] = Json::array();
  for (const OperationCosts &costs : operations)
    json["operations"].push_back(toJson(costs));
  json["products"] = Json::array();
  for (const ProductCost &product : products)
    json["products"].push_back(toJson(product));
  return json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

Result<CostModel> CostModel::decode(llvm::StringRef text) { return Reader().read(text); }

} // namespace braid
