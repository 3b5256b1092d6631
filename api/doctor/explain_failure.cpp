//===- api/doctor/explain_failure.cpp - the line that explains a failed run -------------------===//

#include "api/doctor/explain_failure.h"

#include "api/doctor/report.h"

namespace braid::doctor {
namespace {

bool mayBeExplained(StatusCode code) {
  return code == StatusCode::Unsupported || code == StatusCode::PeerFailed ||
         code == StatusCode::TimedOut;
}

} // namespace

Explanation explainFailure(const Status &failure, bool isOnGpus, int64_t ranks,
                           const BackendRegistry &registry) {
  if (!mayBeExplained(failure.code()))
    return {};
  Sources sources = processSources(registry);
  sources.patience = std::chrono::seconds(3);
  if (!isOnGpus)
    sources.nvml = nullptr;
  if (!isOnGpus || failure.code() != StatusCode::Unsupported)
    for (auto &[name, ask] : sources.backends)
      ask = nullptr;
  Facts facts = readFacts(sources);
  facts.ranks = ranks;
  const std::optional<Finding> finding =
      explain({failure.code(), failure.message(), isOnGpus}, facts);
  return {finding ? inOneLine(*finding) : "",
          facts.nvml.isLate || facts.cuda.isLate || facts.nccl.isLate};
}

} // namespace braid::doctor
