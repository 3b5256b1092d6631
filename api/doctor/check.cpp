//===- api/doctor/check.cpp - the table of checks, and running it -----------------------------===//

#include "api/doctor/check.h"

#include "llvm/ADT/StringExtras.h"

namespace braid::doctor {

const std::vector<Check> &allChecks() {
  static const std::vector<Check> all = [] {
    std::vector<Check> checks;
    for (const auto &part : {driverChecks(), deviceChecks(), pairChecks(), processChecks(),
                             environmentChecks(), jobChecks()})
      checks.insert(checks.end(), part.begin(), part.end());
    return checks;
  }();
  return all;
}

std::vector<Finding> runChecks(const Facts &facts) {
  std::vector<Finding> findings;
  for (const Check &check : allChecks()) {
    if (check.needsGpu && !facts.hasGpu())
      continue;
    Lines lines(check, findings);
    check.look(facts, lines);
  }
  return findings;
}

std::optional<Finding> explain(const Failure &failure, const Facts &facts) {
  for (const Check &check : allChecks()) {
    const bool isApart = check.needsGpu && !(failure.isOnGpus && facts.hasGpu());
    if (isApart || !check.explains || !check.explains(failure))
      continue;
    std::vector<Finding> findings;
    Lines lines(check, findings);
    check.look(facts, lines);
    for (const Finding &finding : findings)
      if (finding.severity == Severity::Problem)
        return finding;
  }
  return std::nullopt;
}

std::string forTerminal(const std::string &text) {
  std::string safe;
  for (const char c : text)
    safe += llvm::isPrint(c) ? std::string(1, c)
                             : fmt::format("\\x{:02X}", static_cast<unsigned char>(c));
  return safe;
}

// -- Which GPUs programs see. --

std::optional<int64_t> cudaNumberOf(const Facts &facts, const std::string &address) {
  for (int64_t device = 0; device < facts.cudaNumber("devices").value_or(0); ++device)
    if (normalizedPci(facts.cudaText(fmt::format("{}.pci", device)).value_or("")) == address)
      return device;
  return std::nullopt;
}

namespace {

/// Where the list names the device, which may be by the begin of its UUID; nothing: nowhere before
/// what is wrong in it.
std::optional<size_t> placeInList(const VisibleDevices &visible, const NvmlDevice &device,
                                  size_t index) {
  for (size_t place = 0; place < visible.named.size(); ++place) {
    const llvm::StringRef entry = visible.named[place];
    size_t number = 0;
    const bool isNumber = !entry.getAsInteger(10, number);
    if (isNumber ? number == index : device.uuid.starts_with(visible.named[place]))
      return place;
  }
  return std::nullopt;
}

/// Where the GPU is among those that programs see; nothing: it is hidden.
std::optional<size_t> placeOf(const Facts &facts, size_t index) {
  const NvmlDevice &device = facts.nvml.value->devices[index];
  const std::optional<std::string> list = facts.variable("CUDA_VISIBLE_DEVICES");
  const size_t last = facts.nvml.value->devices.size() + index; // behind those that have a place
  if (facts.cudaNumber("devices").value_or(0) > 0) {
    const std::optional<int64_t> number = cudaNumberOf(facts, device.pci);
    if (number)
      return static_cast<size_t>(*number);
    return list ? std::nullopt : std::optional(last);
  }
  return list ? placeInList(parseVisibleDevices(*list), device, index) : std::optional(last);
}

} // namespace

std::vector<size_t> shownGpus(const Facts &facts) {
  std::vector<std::pair<size_t, size_t>> places;
  const size_t count = facts.nvml.value ? facts.nvml.value->devices.size() : 0;
  for (size_t index = 0; index < count; ++index)
    if (const std::optional<size_t> place = placeOf(facts, index))
      places.emplace_back(*place, index);
  llvm::sort(places);
  std::vector<size_t> shown;
  for (const auto &[place, index] : places)
    shown.push_back(index);
  return shown;
}

/// One that NVML does not list is hidden if CUDA shows others only.
bool isHidden(const Facts &facts, const std::string &address) {
  if (facts.nvml.value)
    for (size_t index = 0; index < facts.nvml.value->devices.size(); ++index)
      if (facts.nvml.value->devices[index].pci == address)
        return !placeOf(facts, index);
  return facts.variable("CUDA_VISIBLE_DEVICES") && facts.cudaNumber("devices").value_or(0) > 0 &&
         !cudaNumberOf(facts, address);
}

std::string gpuName(const Facts &facts, size_t index) {
  const std::string &address = facts.nvml.value->devices[index].pci;
  const std::string of = address.empty() ? "" : fmt::format(" ({})", address);
  if (const std::optional<int64_t> number = cudaNumberOf(facts, address))
    return fmt::format("GPU {}{}", *number, of);
  const bool isOfNvml = facts.cudaNumber("devices").value_or(0) > 0;
  return fmt::format("{}GPU {}{}", isOfNvml ? "NVML's " : "", index, of);
}

std::string cudaVersionText(int64_t version) {
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

} // namespace braid::doctor
