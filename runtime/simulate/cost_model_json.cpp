//===- runtime/simulate/cost_model_json.cpp - a cost model as text, in both directions --------===//

#include "ir/failure.h"
#include "runtime/json_mistake.h"
#include "runtime/simulate/cost_model.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

namespace braid {
namespace {

using Json = nlohmann::ordered_json;

/// Of the format that is written, and of the oldest one that is read.
constexpr int kVersion = 5, kOldestVersion = 3;
std::string formatOf(int version) { return fmt::format("braid cost model {}", version); }

/// No time and no rate of a machine is larger; sums of them stay finite.
constexpr double kLargest = 1e15;
/// Something is divided by each rate.
constexpr double kLeastRate = 1e-3;

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

/// Those that older files lack, with the version that brought them.
template <class Costs, class Visit> void forEachNewerNumber(Costs &costs, Visit visit) {
  visit("apart_us", costs.apartUs, 4);
  visit("gap_us", costs.gapUs, 4);
  visit("fork_us", costs.forkUs, 4);
  visit("launch_us", costs.launchUs, 5);
}

template <class Costs, class Visit> void forEachCopy(Costs &costs, Visit visit) {
  visit("local", costs.local);
  visit("pull", costs.pull);
  visit("push", costs.push);
}

/// With the least that each may be.
template <class Cost, class Visit> void forEachNumberOfCopy(Cost &cost, Visit visit) {
  visit("fixed_us", cost.fixedUs, 0);
  visit("bytes_per_us", cost.bytesPerUs, kLeastRate);
  visit("shared_bytes_per_us", cost.sharedBytesPerUs, kLeastRate);
}

/// Likewise.
template <class Cost, class Visit> void forEachNumberOfNetwork(Cost &cost, Visit visit) {
  visit("latency_us", cost.latencyUs, 0);
  visit("bytes_per_us", cost.bytesPerUs, kLeastRate);
  visit("rank_bytes_per_us", cost.rankBytesPerUs, kLeastRate);
}

/// Likewise.
template <class Cost, class Visit> void forEachNumberOfPower(Cost &cost, Visit visit) {
  visit("idle", cost.idle, 0, 1);
  visit("copy", cost.copy, 0, 1);
  visit("boost", cost.boost, 1, 4);
  visit("rest_us", cost.restUs, 0, kLargest);
}

// -- Writing. --

Json toJson(const CopyCost &copy) {
  Json json;
  forEachNumberOfCopy(copy, [&](const char *part, double value, double) { json[part] = value; });
  return json;
}

Json toJson(const OperationCosts &costs) {
  Json json = {{"launch_mode", name(costs.launchMode).str()},
               {"copies", name(costs.transferMode.copies).str()},
               {"signals", name(costs.transferMode.signals).str()}};
  forEachNumber(costs, [&](const char *key, double value) { json[key] = value; });
  forEachNewerNumber(costs, [&](const char *key, double value, int) { json[key] = value; });
  forEachCopy(costs, [&](const char *key, const CopyCost &copy) { json[key] = toJson(copy); });
  if (costs.sum)
    json["sum"] = toJson(*costs.sum);
  return json;
}

Json toJson(const GemmCost &gemm) {
  Json json = {{"dtype", name(gemm.dtype).str()},
               {"transpose_b", gemm.transposeB},
               {"m", gemm.m},
               {"n", gemm.n},
               {"k", gemm.k},
               {"us", gemm.us},
               {"utilisation", gemm.utilisation},
               {"contention", gemm.contention}};
  if (gemm.partial)
    json["result"] = name(*gemm.partial).str();
  return json;
}

Json toJson(const MessageCost &cost) {
  return {{"launch_mode", name(cost.launchMode).str()},
          {"operation", nameOfMessage(cost.collective)},
          {"bytes", cost.bytes},
          {"us", cost.us}};
}

// -- Reading. The first mistake stays. --

constexpr const char *kWhole = ""; ///< the place of the file's own fields

std::string at(const std::string &where, const std::string &key) {
  return where.empty() ? key : where + "." + key;
}

class Reader {
public:
  Result<CostModel> read(llvm::StringRef text);

private:
  Result<CostModel> model(const Json &json);
  void fail(const std::string &where, const std::string &expected, const Json &got);
  const Json &field(const Json &object, const char *key, const std::string &where);
  bool has(const Json &object, const char *key);
  void refuseOthers(const Json &object, const std::string &where);
  double number(const Json &object, const char *key, const std::string &where, double least,
                double most = kLargest);
  int64_t integer(const Json &object, const char *key, const std::string &where, int64_t least);
  template <class Cost, class IsSame>
  void addOnce(std::vector<Cost> &all, const Cost &cost, const char *list, IsSame isSame);
  std::string text(const Json &object, const char *key, const std::string &where);
  DType dtype(const Json &object, const char *key, const std::string &where);
  const Json &list(const Json &object, const char *key);
  TransferMode transferMode(const Json &json, const std::string &where);
  LaunchMode launchMode(const Json &json, const std::string &where);
  CopyCost copy(const Json &json, const std::string &where);
  OperationCosts operation(const Json &json, const std::string &where);
  GemmCost gemm(const Json &json, const std::string &where);
  MessageCost message(const Json &json, const std::string &where);
  NetworkCost network(const Json &json);
  PowerCost power(const Json &json);

  Status status_;
  int version_ = kVersion;
  std::map<const Json *, std::set<llvm::StringRef>> asked_; ///< the fields of each object
};

void Reader::fail(const std::string &where, const std::string &expected, const Json &got) {
  if (!status_.isOk())
    return;
  status_ = badInput("cost model: {}{}expected {}, got {}", where, where.empty() ? "" : ": ",
                     expected, jsonGot(got));
}

const Json &Reader::field(const Json &object, const char *key, const std::string &where) {
  static const Json kNothing;
  if (!object.is_object())
    fail(where, "an object", object);
  return has(object, key) ? object[key] : kNothing;
}

bool Reader::has(const Json &object, const char *key) {
  asked_[&object].insert(key);
  return object.is_object() && object.contains(key);
}

/// A misspelled field that may be left out would be passed over.
void Reader::refuseOthers(const Json &object, const std::string &where) {
  if (!object.is_object())
    return;
  for (const auto &[key, value] : object.items())
    if (!asked_[&object].count(key))
      fail(at(where, key), fmt::format("no such field in \"{}\"", formatOf(version_)), value);
}

double Reader::number(const Json &object, const char *key, const std::string &where, double least,
                      double most) {
  const Json &json = field(object, key, where);
  double value = json.is_number() ? json.get<double>() : -1;
  if (std::isfinite(value) && value >= least && value <= most)
    return value;
  fail(at(where, key), fmt::format("a number from {} to {}", least, most), json);
  return least;
}

int64_t Reader::integer(const Json &object, const char *key, const std::string &where,
                        int64_t least) {
  const Json &json = field(object, key, where);
  constexpr int64_t kMost = int64_t(1) << 40;
  const bool fits = json.is_number_unsigned() && json.get<uint64_t>() <= uint64_t(kMost);
  if (fits && json.get<int64_t>() >= least)
    return json.get<int64_t>();
  fail(at(where, key), fmt::format("an integer from {} to {}", least, kMost), json);
  return least;
}

/// What is there twice is no measurement: nobody knows which of the two is meant.
template <class Cost, class IsSame>
void Reader::addOnce(std::vector<Cost> &all, const Cost &cost, const char *list, IsSame isSame) {
  const auto known = std::find_if(all.begin(), all.end(), isSame);
  if (known != all.end() && status_.isOk())
    status_ = badInput("cost model: {0}[{1}]: expected what is not there yet, got what {0}[{2}] is "
                       "about",
                       list, all.size(), known - all.begin());
  all.push_back(cost);
}

std::string Reader::text(const Json &object, const char *key, const std::string &where) {
  const Json &json = field(object, key, where);
  if (json.is_string())
    return json.get<std::string>();
  fail(at(where, key), "a text", json);
  return "";
}

const Json &Reader::list(const Json &object, const char *key) {
  static const Json kEmpty = Json::array();
  const Json &json = field(object, key, kWhole);
  if (json.is_array())
    return json;
  fail(key, "a list", json);
  return kEmpty;
}

TransferMode Reader::transferMode(const Json &json, const std::string &where) {
  const std::string copies = text(json, "copies", where), signals = text(json, "signals", where);
  const std::optional<CopyBy> copyBy = copyByFromName(copies);
  const std::optional<SignalBy> signalBy = signalByFromName(signals);
  if (!copyBy)
    fail(where + ".copies", "default, engine or kernel", Json(copies));
  if (!signalBy)
    fail(where + ".signals", "default, memory or kernel", Json(signals));
  return {copyBy.value_or(CopyBy::Default), signalBy.value_or(SignalBy::Default)};
}

LaunchMode Reader::launchMode(const Json &json, const std::string &where) {
  const std::string mode = text(json, "launch_mode", where);
  if (mode != name(LaunchMode::Eager) && mode != name(LaunchMode::Graph))
    fail(where + ".launch_mode", "eager or graph", Json(mode));
  return mode == name(LaunchMode::Graph) ? LaunchMode::Graph : LaunchMode::Eager;
}

CopyCost Reader::copy(const Json &json, const std::string &where) {
  CopyCost copy;
  forEachNumberOfCopy(copy, [&](const char *part, double &value, double least) {
    value = number(json, part, where, least);
  });
  refuseOthers(json, where);
  return copy;
}

OperationCosts Reader::operation(const Json &json, const std::string &where) {
  OperationCosts costs;
  costs.launchMode = launchMode(json, where);
  costs.transferMode = transferMode(json, where);
  forEachNumber(costs,
                [&](const char *key, double &value) { value = number(json, key, where, 0); });
  forEachNewerNumber(costs, [&](const char *key, double &value, int since) {
    if (version_ >= since)
      value = number(json, key, where, 0);
  });
  forEachCopy(costs, [&](const char *key, CopyCost &cost) {
    cost = copy(field(json, key, where), at(where, key));
  });
  if (has(json, "sum"))
    costs.sum = copy(json["sum"], where + ".sum");
  refuseOthers(json, where);
  return costs;
}

DType Reader::dtype(const Json &object, const char *key, const std::string &where) {
  const std::string word = text(object, key, where);
  const std::optional<DType> type = dtypeFromName(word);
  if (!type)
    fail(at(where, key), "bf16, f16, f32 or f64", Json(word));
  return type.value_or(DType::BF16);
}

GemmCost Reader::gemm(const Json &json, const std::string &where) {
  GemmCost gemm;
  gemm.dtype = dtype(json, "dtype", where);
  if (has(json, "result"))
    gemm.partial = dtype(json, "result", where);
  if (!isPartialType(gemm.resultType(), gemm.dtype))
    fail(where + ".result", "that type, or f32 for 16 bits", json["result"]);
  const Json &transpose = field(json, "transpose_b", where);
  if (!transpose.is_boolean())
    fail(where + ".transpose_b", "true or false", transpose);
  gemm.transposeB = transpose.is_boolean() && transpose.get<bool>();
  gemm.m = integer(json, "m", where, 1);
  gemm.n = integer(json, "n", where, 1);
  gemm.k = integer(json, "k", where, 1);
  gemm.us = number(json, "us", where, 0);
  gemm.utilisation = number(json, "utilisation", where, 1e-3);
  if (gemm.utilisation > 1)
    fail(where + ".utilisation", "at most 1", Json(gemm.utilisation));
  gemm.contention = number(json, "contention", where, 1);
  refuseOthers(json, where);
  return gemm;
}

MessageCost Reader::message(const Json &json, const std::string &where) {
  MessageCost cost;
  cost.launchMode = launchMode(json, where);
  const std::string operation = text(json, "operation", where);
  cost.collective = collectiveFromName(operation);
  if (!cost.collective && operation != nameOfMessage(std::nullopt))
    fail(where + ".operation", "group, or a collective", Json(operation));
  cost.bytes = integer(json, "bytes", where, 1); // a larger one takes as many times as long
  cost.us = number(json, "us", where, 0);
  refuseOthers(json, where);
  return cost;
}

/// Older files have one rate: that of a host, which a rank may have for itself.
NetworkCost Reader::network(const Json &json) {
  NetworkCost cost;
  forEachNumberOfNetwork(cost, [&](const char *key, double &value, double least) {
    const bool isOlder = &value == &cost.rankBytesPerUs && json.is_object() && !has(json, key);
    value = isOlder ? cost.bytesPerUs : number(json, key, "network", least);
  });
  refuseOthers(json, "network");
  return cost;
}

PowerCost Reader::power(const Json &json) {
  PowerCost cost;
  forEachNumberOfPower(cost, [&](const char *key, double &value, double least, double most) {
    value = number(json, key, "power", least, most);
  });
  refuseOthers(json, "power");
  return cost;
}

Result<CostModel> Reader::read(llvm::StringRef bytes) {
  try {
    return model(parsedJson<Json>(bytes));
  } catch (const Json::exception &error) {
    return badInput("cost model: {}", jsonMistake(bytes, error));
  }
}

Result<CostModel> Reader::model(const Json &json) {
  std::string format = text(json, "format", kWhole);
  version_ = kOldestVersion;
  while (version_ < kVersion && format != formatOf(version_))
    ++version_;
  if (format != formatOf(version_))
    fail("format", fmt::format("\"{}\"", formatOf(kVersion)), Json(format));
  CostModel model;
  model.machine = text(json, "machine", kWhole);
  model.ranks = integer(json, "ranks", kWhole, 1);
  for (const Json &each : list(json, "operations")) {
    const OperationCosts costs =
        operation(each, fmt::format("operations[{}]", model.operations.size()));
    addOnce(model.operations, costs, "operations", [&](const OperationCosts &known) {
      return known.launchMode == costs.launchMode && known.transferMode == costs.transferMode;
    });
  }
  for (const Json &each : list(json, "gemms")) {
    const GemmCost cost = gemm(each, fmt::format("gemms[{}]", model.gemms.size()));
    addOnce(model.gemms, cost, "gemms",
            [&](const GemmCost &known) { return known.isOfSameShape(cost); });
  }
  if (has(json, "messages"))
    for (const Json &each : list(json, "messages")) {
      const MessageCost cost = message(each, fmt::format("messages[{}]", model.messages.size()));
      addOnce(model.messages, cost, "messages",
              [&](const MessageCost &known) { return known.isOfSame(cost); });
    }
  if (has(json, "network")) // older files have none
    model.network = network(json["network"]);
  if (has(json, "power")) // likewise
    model.power = power(json["power"]);
  has(json, "sources"); // for people
  refuseOthers(json, kWhole);
  if (!status_.isOk())
    return status_;
  return model;
}

} // namespace

std::string CostModel::encode() const {
  Json json = {{"format", formatOf(kVersion)}, {"machine", machine}, {"ranks", ranks}};
  json["operations"] = Json::array();
  for (const OperationCosts &costs : operations)
    json["operations"].push_back(toJson(costs));
  json["gemms"] = Json::array();
  for (const GemmCost &gemm : gemms)
    json["gemms"].push_back(toJson(gemm));
  if (!messages.empty())
    json["messages"] = Json::array();
  for (const MessageCost &cost : messages)
    json["messages"].push_back(toJson(cost));
  forEachNumberOfNetwork(
      network, [&](const char *key, double value, double) { json["network"][key] = value; });
  if (power.isKnown())
    forEachNumberOfPower(
        power, [&](const char *key, double value, double, double) { json["power"][key] = value; });
  return json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

Result<CostModel> CostModel::decode(llvm::StringRef text) { return Reader().read(text); }

} // namespace braid
