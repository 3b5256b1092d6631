//===- api/doctor/explain_failure.cpp - the line that explains a failed run -------------------===//

#include "api/doctor/explain_failure.h"

#include "api/doctor/report.h"

#include <exception>

namespace braid::doctor {
namespace {

bool mayBeExplained(StatusCode code) {
  return code == StatusCode::Unsupported || code == StatusCode::PeerFailed ||
         code == StatusCode::TimedOut;
}

Explanation lookForCause(const Status &failure, bool isOnGpus, int64_t ranks,
                         const BackendRegistry &registry) {
  if (!mayBeExplained(failure.code()))
    return {};
  Sources sources = processSources(registry, AskedBy::Thread);
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
  return {finding ? inOneLine(*finding) : "", facts.cuda.isLate || facts.nccl.isLate};
}

} // namespace

/// Whatever made the run fail may be short here, too: memory, threads.
Explanation explainFailure(const Status &failure, bool isOnGpus, int64_t ranks,
                           const BackendRegistry &registry) {
  try {
    return lookForCause(failure, isOnGpus, ranks, registry);
  } catch (const std::exception &) {
    return {};
  }
}

} // namespace braid::doctor
