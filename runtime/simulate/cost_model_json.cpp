//===- runtime/simulate/cost_model_json.cpp - a cost model as text, in both directions --------===//
//
// Formats 3 to 5 had more numbers, from which the present ones are computed: issue_us is the mean
// of what the host took for each kind of command, signal_us the sum of the three parts of a signal,
// and launch_us, in a graph, what a second stream took to begin.
//
//===----------------------------------------------------------------------------------------===//

#include "ir/failure.h"
#include "runtime/json_mistake.h"
#include "runtime/simulate/cost_model.h"

#include "llvm/ADT/STLExtras.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <cmath>

namespace braid {
namespace {

using Json = nlohmann::ordered_json;

/// The format that is written, and the oldest one that is read.
constexpr int kVersion = 6, kOldestVersion = 3;
std::string formatOf(int version) { return fmt::format("braid cost model {}", version); }

// -- Writing. --

Json toJson(const CopyCost &copy) {
  return {{"fixed_us", copy.fixedUs}, {"bytes_per_us", copy.bytesPerUs}};
}

Json toJson(const OperationCosts &costs) {
  Json json = {{"launch_mode", name(costs.launchMode).str()},
               {"copies", name(costs.transferMode.copies).str()},
               {"signals", name(costs.transferMode.signals).str()},
               {"run_us", costs.runUs},
               {"apart_us", costs.apartUs},
               {"gap_us", costs.gapUs},
               {"issue_us", costs.issueUs},
               {"launch_us", costs.launchUs},
               {"signal_us", costs.signalUs},
               {"local", toJson(costs.local)},
               {"pull", toJson(costs.pull)},
               {"push", toJson(costs.push)}};
  if (costs.sum)
    json["sum"] = toJson(*costs.sum);
  return json;
}

Json toJson(const GemmCost &gemm) {
  Json json = {{"dtype", name(gemm.dtype).str()}};
  if (gemm.partial)
    json["result"] = name(*gemm.partial).str();
  json.update({{"transpose_b", gemm.transposeB},
               {"m", gemm.m},
               {"n", gemm.n},
               {"k", gemm.k},
               {"us", gemm.us},
               {"utilisation", gemm.utilisation}});
  return json;
}

Json toJson(const MessageCost &cost) {
  return {{"launch_mode", name(cost.launchMode).str()},
          {"operation", nameOfMessage(cost.collective)},
          {"bytes", cost.bytes},
          {"us", cost.us}};
}

Json toJson(const NetworkCost &cost) {
  return {{"latency_us", cost.latencyUs},
          {"bytes_per_us", cost.bytesPerUs},
          {"rank_bytes_per_us", cost.rankBytesPerUs}};
}

template <class T> Json toJson(const std::vector<T> &list) {
  Json json = Json::array();
  for (const T &each : list)
    json.push_back(toJson(each));
  return json;
}

// -- Reading. A mistake begins with the field's name, in front of which readers of objects and
// lists put their own. --

/// No time and no rate of a machine is larger; sums of them stay finite.
constexpr double kLargest = 1e15;
/// Something is divided by each rate.
constexpr double kLeastRate = 1e-3;

Status mistake(llvm::StringRef key, const std::string &expected, const Json &got) {
  return badInput("{}: expected {}, got {}", key.str(), expected, jsonGot(got));
}

const Json &field(const Json &object, const char *key) {
  static const Json kNothing;
  return object.contains(key) ? object[key] : kNothing;
}

Result<double> number(const Json &object, const char *key, double least, double most = kLargest) {
  const Json &json = field(object, key);
  const double value = json.is_number() ? json.get<double>() : -1;
  if (std::isfinite(value) && value >= least && value <= most)
    return value;
  return mistake(key, fmt::format("a number from {} to {}", least, most), json);
}

Result<int64_t> integer(const Json &object, const char *key) {
  constexpr int64_t kMost = int64_t(1) << 40;
  const Json &json = field(object, key);
  const uint64_t value = json.is_number_unsigned() ? json.get<uint64_t>() : 0;
  if (value >= 1 && value <= uint64_t(kMost))
    return static_cast<int64_t>(value);
  return mistake(key, fmt::format("an integer from 1 to {}", kMost), json);
}

Result<std::string> text(const Json &object, const char *key) {
  const Json &json = field(object, key);
  if (json.is_string())
    return json.get<std::string>();
  return mistake(key, "a text", json);
}

/// `fromName` gives nothing for a text that is no name of a choice.
template <class FromName>
auto choice(const Json &object, const char *key, FromName fromName, const char *expected)
    -> Result<std::decay_t<decltype(*fromName(llvm::StringRef()))>> {
  const std::string word = BRAID_TRY(text(object, key));
  if (const auto found = fromName(word))
    return *found;
  return mistake(key, expected, Json(word));
}

/// A misspelled field that may be left out would be passed over. Older files have other fields.
Status checkKeys(const Json &object, int version, llvm::ArrayRef<llvm::StringRef> keys) {
  if (version == kVersion)
    for (const auto &[key, value] : object.items())
      if (!llvm::is_contained(keys, llvm::StringRef(key)))
        return mistake(key, fmt::format("no such field in \"{}\"", formatOf(version)), value);
  return Status::ok();
}

/// Calls `read` with a value that has to be an object; `where` names it.
template <class Read>
auto object(const Json &json, const std::string &where, Read read) -> decltype(read(json)) {
  if (!json.is_object())
    return mistake(where, "an object", json);
  auto result = read(json);
  if (!result)
    return badInput("{}.{}", where, result.status().message());
  return result;
}

template <class Read>
auto list(const Json &json, const char *key, Read read)
    -> Result<std::vector<std::decay_t<decltype(*read(json))>>> {
  std::vector<std::decay_t<decltype(*read(json))>> all;
  if (!field(json, key).is_array())
    return mistake(key, "a list", field(json, key));
  for (const Json &each : json[key])
    all.push_back(BRAID_TRY(object(each, fmt::format("{}[{}]", key, all.size()), read)));
  return all;
}

std::optional<LaunchMode> launchModeFromName(llvm::StringRef text) {
  for (LaunchMode mode : {LaunchMode::Eager, LaunchMode::Graph})
    if (text == name(mode))
      return mode;
  return std::nullopt;
}

Result<LaunchMode> launchModeOf(const Json &json) {
  return choice(json, "launch_mode", launchModeFromName, "eager or graph");
}

Result<DType> dtypeOf(const Json &json, const char *key) {
  return choice(json, key, dtypeFromName, "bf16, f16, f32 or f64");
}

class ModelReader {
public:
  explicit ModelReader(int version) : version_(version) {}

  Result<CostModel> model(const Json &json) const;

private:
  Result<CopyCost> copy(const Json &json, const char *key) const;
  Result<OperationCosts> operation(const Json &json) const;
  Status readTimes(const Json &json, OperationCosts &costs) const;
  Status readOlderTimes(const Json &json, OperationCosts &costs) const;
  Result<GemmCost> gemm(const Json &json) const;
  Result<MessageCost> message(const Json &json) const;
  Result<NetworkCost> network(const Json &json) const;

  const int version_;
};

Result<CopyCost> ModelReader::copy(const Json &json, const char *key) const {
  return object(field(json, key), key, [&](const Json &each) -> Result<CopyCost> {
    BRAID_TRY(checkKeys(each, version_, {"fixed_us", "bytes_per_us"}));
    const double fixedUs = BRAID_TRY(number(each, "fixed_us", 0));
    return CopyCost{fixedUs, BRAID_TRY(number(each, "bytes_per_us", kLeastRate))};
  });
}

Status ModelReader::readTimes(const Json &json, OperationCosts &costs) const {
  costs.apartUs = BRAID_TRY(number(json, "apart_us", 0));
  costs.gapUs = BRAID_TRY(number(json, "gap_us", 0));
  costs.issueUs = BRAID_TRY(number(json, "issue_us", 0));
  costs.launchUs = BRAID_TRY(number(json, "launch_us", 0));
  costs.signalUs = BRAID_TRY(number(json, "signal_us", 0));
  return Status::ok();
}

Status ModelReader::readOlderTimes(const Json &json, OperationCosts &costs) const {
  for (const char *key : {"issue_copy_us", "issue_matmul_us", "issue_signal_us", "issue_event_us"})
    costs.issueUs += BRAID_TRY(number(json, key, 0)) / 4;
  for (const char *key : {"signal_us", "flight_us", "await_us"})
    costs.signalUs += BRAID_TRY(number(json, key, 0));
  if (version_ == kOldestVersion)
    return Status::ok();
  costs.apartUs = BRAID_TRY(number(json, "apart_us", 0));
  costs.gapUs = BRAID_TRY(number(json, "gap_us", 0));
  const double forkUs = BRAID_TRY(number(json, "fork_us", 0));
  costs.launchUs = costs.launchMode == LaunchMode::Graph ? forkUs : 0;
  return Status::ok();
}

Result<OperationCosts> ModelReader::operation(const Json &json) const {
  BRAID_TRY(checkKeys(json, version_,
                      {"launch_mode", "copies", "signals", "run_us", "apart_us", "gap_us",
                       "issue_us", "launch_us", "signal_us", "local", "pull", "push", "sum"}));
  OperationCosts costs;
  costs.launchMode = BRAID_TRY(launchModeOf(json));
  costs.transferMode.copies =
      BRAID_TRY(choice(json, "copies", copyByFromName, "default, engine or kernel"));
  costs.transferMode.signals =
      BRAID_TRY(choice(json, "signals", signalByFromName, "default, memory or kernel"));
  costs.runUs = BRAID_TRY(number(json, "run_us", 0));
  BRAID_TRY(version_ == kVersion ? readTimes(json, costs) : readOlderTimes(json, costs));
  costs.local = BRAID_TRY(copy(json, "local"));
  costs.pull = BRAID_TRY(copy(json, "pull"));
  costs.push = BRAID_TRY(copy(json, "push"));
  if (json.contains("sum"))
    costs.sum = BRAID_TRY(copy(json, "sum"));
  return costs;
}

Result<GemmCost> ModelReader::gemm(const Json &json) const {
  BRAID_TRY(checkKeys(json, version_,
                      {"dtype", "result", "transpose_b", "m", "n", "k", "us", "utilisation"}));
  GemmCost gemm;
  gemm.dtype = BRAID_TRY(dtypeOf(json, "dtype"));
  if (json.contains("result"))
    gemm.partial = BRAID_TRY(dtypeOf(json, "result"));
  if (!isPartialType(gemm.resultType(), gemm.dtype))
    return mistake("result", "that type, or f32 for 16 bits", json["result"]);
  if (!field(json, "transpose_b").is_boolean())
    return mistake("transpose_b", "true or false", field(json, "transpose_b"));
  gemm.transposeB = json["transpose_b"].get<bool>();
  gemm.m = BRAID_TRY(integer(json, "m"));
  gemm.n = BRAID_TRY(integer(json, "n"));
  gemm.k = BRAID_TRY(integer(json, "k"));
  gemm.us = BRAID_TRY(number(json, "us", 0));
  gemm.utilisation = BRAID_TRY(number(json, "utilisation", 1e-3, 1));
  return gemm;
}

Result<MessageCost> ModelReader::message(const Json &json) const {
  BRAID_TRY(checkKeys(json, version_, {"launch_mode", "operation", "bytes", "us"}));
  MessageCost cost;
  cost.launchMode = BRAID_TRY(launchModeOf(json));
  const std::string operation = BRAID_TRY(text(json, "operation"));
  cost.collective = collectiveFromName(operation);
  if (!cost.collective && operation != nameOfMessage(std::nullopt))
    return mistake("operation", "group, or a collective", Json(operation));
  cost.bytes = BRAID_TRY(integer(json, "bytes"));
  cost.us = BRAID_TRY(number(json, "us", 0));
  return cost;
}

/// The oldest files have one rate, of a host, which a rank may have for itself.
Result<NetworkCost> ModelReader::network(const Json &json) const {
  BRAID_TRY(checkKeys(json, version_, {"latency_us", "bytes_per_us", "rank_bytes_per_us"}));
  NetworkCost cost;
  cost.latencyUs = BRAID_TRY(number(json, "latency_us", 0));
  cost.bytesPerUs = cost.rankBytesPerUs = BRAID_TRY(number(json, "bytes_per_us", kLeastRate));
  if (version_ == kVersion || json.contains("rank_bytes_per_us"))
    cost.rankBytesPerUs = BRAID_TRY(number(json, "rank_bytes_per_us", kLeastRate));
  return cost;
}

/// "sources" are for people.
Result<CostModel> ModelReader::model(const Json &json) const {
  BRAID_TRY(checkKeys(
      json, version_,
      {"format", "machine", "ranks", "operations", "gemms", "messages", "network", "sources"}));
  CostModel model;
  model.machine = BRAID_TRY(text(json, "machine"));
  model.ranks = BRAID_TRY(integer(json, "ranks"));
  model.operations =
      BRAID_TRY(list(json, "operations", [&](const Json &each) { return operation(each); }));
  model.gemms = BRAID_TRY(list(json, "gemms", [&](const Json &each) { return gemm(each); }));
  if (json.contains("messages"))
    model.messages =
        BRAID_TRY(list(json, "messages", [&](const Json &each) { return message(each); }));
  if (json.contains("network"))
    model.network = BRAID_TRY(
        object(json["network"], "network", [&](const Json &each) { return network(each); }));
  return model;
}

Result<CostModel> modelOf(const Json &json) {
  if (!json.is_object())
    return badInput("expected an object, got {}", jsonGot(json));
  const std::string format = BRAID_TRY(text(json, "format"));
  for (int version = kOldestVersion; version <= kVersion; ++version)
    if (format == formatOf(version))
      return ModelReader(version).model(json);
  return mistake("format", fmt::format("\"{}\"", formatOf(kVersion)), Json(format));
}

} // namespace

std::string CostModel::encode() const {
  Json json = {
      {"format", formatOf(kVersion)},     {"machine", machine},     {"ranks", ranks},
      {"operations", toJson(operations)}, {"gemms", toJson(gemms)}, {"messages", toJson(messages)},
      {"network", toJson(network)}};
  if (messages.empty())
    json.erase("messages");
  return json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

Result<CostModel> CostModel::decode(llvm::StringRef text) {
  Json json;
  try {
    json = parsedJson<Json>(text);
  } catch (const Json::exception &error) {
    return badInput("cost model: {}", jsonMistake(text, error));
  }
  Result<CostModel> model = modelOf(json);
  if (!model)
    return badInput("cost model: {}", model.status().message());
  return model;
}

} // namespace braid
