//===- runtime/execute/backend.cpp - backends by name -----------------------------------------===//

#include "runtime/execute/backend.h"

#include "ir/counted.h"
#include "ir/failure.h"

#include <fmt/format.h>

namespace braid {

/// "2 hosts of 4 ranks each", "1 host of 8 ranks"
static std::string hostsText(int64_t ranks, int64_t ranksPerHost) {
  const int64_t hosts = ranks / ranksPerHost;
  return fmt::format("{} of {}{}", counted(hosts, "host"), counted(ranksPerHost, "rank"),
                     hosts == 1 ? "" : " each");
}

Status checkHosts(const Cluster &cluster, const Plan &plan) {
  const int64_t expected = cluster.ranksPerHost().value_or(0);
  const int64_t got = plan.ranks / plan.hosts();
  if (expected == 0 || expected == got || plan.ranks != cluster.ranks())
    return Status::ok();
  return badInput("@{} is for {}, but the job has {}: expected mesh [0 .. {}) of {}", plan.program,
                  hostsText(plan.ranks, got), hostsText(cluster.ranks(), expected), plan.ranks,
                  expected);
}

const Backend *BackendRegistry::find(llvm::StringRef name) const {
  for (const Backend &backend : backends_)
    if (name == backend.name)
      return &backend;
  return nullptr;
}

std::vector<std::string> BackendRegistry::names() const {
  std::vector<std::string> names;
  for (const Backend &backend : backends_)
    names.push_back(backend.name);
  return names;
}

} // namespace braid
