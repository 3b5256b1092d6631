//===- api/doctor/job_checks.cpp - in what the ranks of a job differ --------------------------===//

#include "api/doctor/check.h"
#include "ir/printable.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

#include <set>

namespace braid::doctor {
namespace {

constexpr size_t kShownOfValue = 40;
constexpr size_t kShownValues = 4;

/// "rank 0: 'a'; ranks 1, 2: not set"; of many values the first.
std::string perRank(const std::vector<std::string> &values) {
  std::vector<std::string> order;
  for (const std::string &value : values)
    if (!llvm::is_contained(order, value))
      order.push_back(value);
  std::vector<std::string> parts;
  for (const std::string &value : llvm::ArrayRef(order).take_front(kShownValues)) {
    std::vector<std::string> ranks;
    for (size_t rank = 0; rank < values.size(); ++rank)
      if (values[rank] == value)
        ranks.push_back(std::to_string(rank));
    parts.push_back(fmt::format("{} {}: {}", ranks.size() == 1 ? "rank" : "ranks",
                                llvm::join(ranks, ", "), value));
  }
  return llvm::join(parts, "; ") + (order.size() > kShownValues ? "; ..." : "");
}

bool differ(const std::vector<std::string> &values) {
  return llvm::any_of(values, [&](const std::string &each) { return each != values.front(); });
}

std::vector<std::string> valuesOf(const Facts &facts, const std::string &name) {
  std::vector<std::string> values;
  for (const RankFacts &rank : facts.ofRanks) {
    const auto found = rank.variables.find(name);
    values.push_back(found == rank.variables.end()
                         ? "not set"
                         : "'" + printable(found->second, kShownOfValue) + "'");
  }
  return values;
}

void lookAtVariables(const Facts &facts, Lines &lines) {
  std::set<std::string> names;
  for (const RankFacts &rank : facts.ofRanks)
    for (const auto &[name, value] : rank.variables)
      names.insert(name);
  for (const std::string &name : names)
    if (const auto values = valuesOf(facts, name); differ(values))
      lines.add(name == "CUDA_VISIBLE_DEVICES" ? "gpus" : "differs", name, perRank(values));
}

void lookAtNamespaces(const Facts &facts, Lines &lines) {
  auto look = [&](const char *id, uint64_t RankFacts::*which) {
    std::vector<std::string> values;
    for (const RankFacts &rank : facts.ofRanks)
      values.push_back(rank.*which == 0 ? "not known" : std::to_string(rank.*which));
    if (!values.empty() && differ(values))
      lines.add(id, perRank(values));
  };
  look("pid", &RankFacts::pidNamespace);
  look("ipc", &RankFacts::ipcNamespace);
}

/// Two ranks that would take one GPU, each such pair once.
void lookForSameGpus(const Facts &facts, Lines &lines) {
  for (size_t rank = 0; rank < facts.ofRanks.size(); ++rank)
    for (size_t other = 0; other < rank; ++other)
      if (const std::string &gpu = facts.ofRanks[rank].gpu;
          !gpu.empty() && gpu == facts.ofRanks[other].gpu)
        return lines.add("same", other, rank, gpu);
}

void lookAtGpusOfRanks(const Facts &facts, Lines &lines) {
  const std::optional<int64_t> devices = facts.cudaNumber("devices");
  if (facts.variable("BRAID_SHARE_GPUS") == "on")
    return;
  if (!facts.ofRanks.empty())
    return lookForSameGpus(facts, lines);
  if (devices.value_or(0) > 0 && facts.ranks > *devices)
    lines.add("few", facts.ranks, *devices);
}

} // namespace

std::vector<Check> jobChecks() {
  using enum Severity;
  return {
      {.name = "job-gpus",
       .needsGpu = true,
       .lines = {{"few", Problem, "{0} ranks need a GPU each, but programs see {1}",
                  "start fewer ranks; BRAID_SHARE_GPUS=on lets them share, for results and not "
                  "for speed"},
                 {"same", Problem, "ranks {0} and {1} would take the same GPU, {2}",
                  "let the launcher show all GPUs to all ranks, or another one to each"}},
       .look = lookAtGpusOfRanks,
       .explains = [](const Failure &failure) { return failure.mentions({"needs a GPU"}); }},
      {.name = "job-namespaces",
       .needsGpu = true,
       .lines = {{"pid", Problem, "ranks are in different PID name spaces: {0}",
                  "CUDA IPC fails between them: start all ranks in one container, or with "
                  "--pid=host; or choose --memory vmm"},
                 {"ipc", Problem, "ranks are in different IPC name spaces: {0}",
                  "CUDA IPC fails between them: start all ranks in one container, or with "
                  "--ipc=host; or choose --memory vmm"}},
       .look = lookAtNamespaces},
      {.name = "job-variables",
       .lines = {{"gpus", Note, "{0} differs between ranks: {1}",
                  "fine if each rank is to see a GPU of its own"},
                 {"differs", Note, "{0} differs between ranks: {1}",
                  "let the launcher pass it on to all ranks"}},
       .look = lookAtVariables},
  };
}

} // namespace braid::doctor
