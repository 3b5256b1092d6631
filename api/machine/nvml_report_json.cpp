//===- api/machine/nvml_report_json.cpp - what NVML says, from process to process -------------===//

#include "api/machine/nvml_report_json.h"

#include "ir/failure.h"

#include <nlohmann/json.hpp>

#include <limits>
#include <type_traits>

namespace braid {
namespace {

using Json = nlohmann::json;

// -- Every field has one name, for both directions. --

template <class Link, class Visit>
void visitFields(Link &link,
                 Visit visit) requires std::is_same_v<std::remove_const_t<Link>, NvmlLink> {
  visit("number", link.number);
  visit("up", link.isUp);
  visit("version", link.version);
  visit("remote", link.remote);
  visit("to_switch", link.isToSwitch);
  visit("replays", link.replays);
  visit("recoveries", link.recoveries);
  visit("crc_errors", link.crcErrors);
}

template <class Pair, class Visit>
void visitFields(Pair &pair,
                 Visit visit) requires std::is_same_v<std::remove_const_t<Pair>, NvmlPair> {
  visit("read", pair.read);
  visit("write", pair.write);
  visit("nvlink", pair.nvLink);
  visit("ancestor", pair.ancestor);
}

template <class Device, class Visit>
void visitFields(Device &device,
                 Visit visit) requires std::is_same_v<std::remove_const_t<Device>, NvmlDevice> {
  visit("name", device.name);
  visit("uuid", device.uuid);
  visit("pci", device.pci);
  visit("memory_bytes", device.memoryBytes);
  visit("mig", device.mig);
  visit("compute_mode", device.computeMode);
  visit("persistent", device.isPersistent);
  visit("power_limit", device.powerLimit);
  visit("enforced_power_limit", device.enforcedPowerLimit);
  visit("default_power_limit", device.defaultPowerLimit);
  visit("sm_clock", device.smClock);
  visit("most_sm_clock", device.mostSmClock);
  visit("memory_clock", device.memoryClock);
  visit("most_memory_clock", device.mostMemoryClock);
  visit("clock_reasons", device.clockReasons);
  visit("ecc", device.ecc);
  visit("uncorrected", device.uncorrected);
  visit("uncorrected_ever", device.uncorrectedEver);
  visit("pcie_generation", device.pcieGeneration);
  visit("pcie_width", device.pcieWidth);
  visit("most_pcie_generation", device.mostPcieGeneration);
  visit("most_pcie_width", device.mostPcieWidth);
  visit("link_MBps", device.linkMBps);
  visit("links", device.links);
}

template <class Report, class Visit>
void visitFields(Report &report,
                 Visit visit) requires std::is_same_v<std::remove_const_t<Report>, NvmlReport> {
  visit("library", report.library);
  visit("driver", report.driver);
  visit("cuda", report.cudaVersion);
  visit("devices", report.devices);
  visit("pairs", report.pairs);
}

// -- Writing. --

template <class Value> Json jsonOf(const std::optional<Value> &value);
template <class Value> Json jsonOf(const std::vector<Value> &values);

template <class Value> Json jsonOf(const Value &value) {
  if constexpr (std::is_enum_v<Value>) {
    return static_cast<unsigned>(value);
  } else if constexpr (std::is_arithmetic_v<Value> || std::is_same_v<Value, std::string>) {
    return value;
  } else {
    Json json = Json::object();
    visitFields(value, [&](const char *name, const auto &field) {
      if (Json each = jsonOf(field); !each.is_null())
        json[name] = std::move(each);
    });
    return json;
  }
}
template <class Value> Json jsonOf(const std::optional<Value> &value) {
  return value ? jsonOf(*value) : Json();
}
template <class Value> Json jsonOf(const std::vector<Value> &values) {
  Json json = Json::array();
  for (const Value &value : values)
    json.push_back(jsonOf(value));
  return json;
}

// -- Reading. False: it is something else. --

/// The values of an enumeration are few, and those that are not known are left out when NVML is
/// read.
bool isKnown(ComputeMode mode) { return mode <= ComputeMode::ExclusiveProcess; }
bool isKnown(PeerStatus status) { return status <= PeerStatus::Unknown; }
bool isKnown(CommonAncestor ancestor) {
  return ancestor <= CommonAncestor::System && static_cast<unsigned>(ancestor) % 10 == 0;
}

template <class Value> bool take(const Json &json, std::optional<Value> &value);
template <class Value> bool take(const Json &json, std::vector<Value> &values);

template <class Value> bool take(const Json &json, Value &value) {
  if constexpr (std::is_same_v<Value, bool>) {
    return json.is_boolean() && (value = json.get<bool>(), true);
  } else if constexpr (std::is_same_v<Value, std::string>) {
    return json.is_string() && (value = json.get<std::string>(), true);
  } else if constexpr (std::is_floating_point_v<Value>) {
    return json.is_number() && (value = json.get<Value>(), true);
  } else if constexpr (std::is_enum_v<Value>) {
    uint8_t number = 0;
    if (!take(json, number) || !isKnown(static_cast<Value>(number)))
      return false;
    value = static_cast<Value>(number);
    return true;
  } else if constexpr (std::is_integral_v<Value>) {
    constexpr auto kMost = static_cast<uint64_t>(std::numeric_limits<Value>::max());
    return json.is_number_unsigned() && json.get<uint64_t>() <= kMost &&
           (value = static_cast<Value>(json.get<uint64_t>()), true);
  } else {
    bool isRight = json.is_object();
    visitFields(value, [&](const char *name, auto &field) {
      isRight = isRight && take(json.value(name, Json()), field);
    });
    return isRight;
  }
}
template <class Value> bool take(const Json &json, std::optional<Value> &value) {
  return json.is_null() || take(json, value.emplace());
}
template <class Value> bool take(const Json &json, std::vector<Value> &values) {
  bool isRight = json.is_array();
  for (size_t i = 0; isRight && i < json.size(); ++i)
    isRight = take(json[i], values.emplace_back());
  return isRight;
}

bool hasPairOfEachTwo(const NvmlReport &report) {
  const size_t count = report.devices.size();
  bool hasAll = report.pairs.size() == count;
  for (const std::vector<NvmlPair> &pairs : report.pairs)
    hasAll = hasAll && pairs.size() == count;
  return hasAll;
}

} // namespace

std::string encodeNvml(const Result<NvmlReport> &report) {
  const Json json = report ? jsonOf(*report) : Json{{"failure", report.status().message()}};
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Result<NvmlReport> decodeNvml(llvm::StringRef text) {
  const Json json = Json::parse(text.begin(), text.end(), nullptr, /*allow_exceptions=*/false);
  std::string failure;
  if (json.is_object() && json.size() == 1 && take(json.value("failure", Json()), failure))
    return unsupported("{}", failure);
  NvmlReport report;
  if (take(json, report) && hasPairOfEachTwo(report))
    return report;
  return badInput("expected what NVML says, got something else");
}

} // namespace braid
