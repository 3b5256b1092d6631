//===- tests/fuzz/fuzz_doctor.cpp - what the kernel, devices and ranks could say to the doctor ===//

#include "api/doctor/between_ranks.h"
#include "api/doctor/process_status.h"
#include "api/machine/nvml_report_json.h"
#include "tests/fuzz/require.h"

#include <cstdlib>

namespace {

using namespace braid;
using namespace braid::doctor;

void readStatus(llvm::StringRef text) {
  const ProcessStatus status = parseProcessStatus(text);
  require(!status.hasCapability(63) || status.capabilities.has_value());
  require(status.pidNamespaces.value_or(0) >= 0);
}

void readNamespace(llvm::StringRef text) {
  if (const auto number = parseNamespace(text, "pid"))
    require(text.contains(':') && text.back() == ']');
}

/// Half of an input of fewer bytes than a space has are its extended part.
void readConfiguration(llvm::StringRef text) {
  require(text.size() >= 4096 || !redirectsPeers(text));
  std::string space(256, '\0');
  space += text.str();
  space.resize(4096);
  require(redirectsPeers(space).has_value());
}

void readVisible(llvm::StringRef text) {
  for (const std::string &name : parseVisibleDevices(text).named)
    require(!name.empty() && name.find(',') == std::string::npos);
}

/// What was understood is said in the same way again.
void readRank(llvm::StringRef text) {
  if (const Result<RankFacts> facts = RankFacts::decode(text)) {
    const Result<RankFacts> again = RankFacts::decode(facts->encode());
    require(again && again->pidNamespace == facts->pidNamespace &&
            again->variables.size() == facts->variables.size());
  }
}

void readFindings(llvm::StringRef text) {
  if (const auto findings = decodeFindings(text)) {
    const auto again = decodeFindings(encodeFindings(*findings));
    require(again && again->size() == findings->size());
  }
}

void readBackend(llvm::StringRef text) {
  if (const auto facts = decodeBackendFacts(text)) {
    const auto again = decodeBackendFacts(encodeBackendFacts(*facts));
    require(again && again->size() == facts->size());
  }
}

void readReport(llvm::StringRef text) {
  if (const auto report = decodeNvml(text)) {
    const auto again = decodeNvml(encodeNvml(*report));
    require(again && again->devices.size() == report->devices.size());
    require(encodeNvml(*again) == encodeNvml(*report));
  }
}

constexpr void (*kReaders[])(llvm::StringRef) = {readStatus,  readNamespace, readConfiguration,
                                                 readVisible, readRank,      readFindings,
                                                 readBackend, readReport};

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  const llvm::StringRef text(reinterpret_cast<const char *>(data), size);
  for (auto *read : kReaders)
    read(text);
  return 0;
}
