//===- api/doctor/environment_checks.cpp - variables and folders that affect programs ---------===//

#include "api/doctor/check.h"

#include "ir/counted.h"
#include "ir/printable.h"

#include "llvm/ADT/StringExtras.h"

namespace braid::doctor {
namespace {

std::string shown(const std::string &value) { return printable(value, 60); }

/// Reports environment variables that make programs refuse to run.
void checkSettingsOfBraid(const Facts &facts, Lines &lines) {
  const Status status = checkSettings(facts.environment());
  if (!status.isOk())
    lines.problem("wrong", "{0}", "programs refuse to run until it is corrected or unset",
                  status.message());
}

void checkRanks(const Facts &facts, Lines &lines) {
  const int64_t seen = facts.cudaDevices();
  if (facts.variable("BRAID_SHARE_GPUS") == "on")
    lines.note("shared", "BRAID_SHARE_GPUS is on: ranks may share GPUs",
               "times are meaningless; unset it to measure");
  else if (seen > 0 && facts.ranks > seen)
    lines.problem(
        "few", "{0} ranks need a GPU each, but programs see {1}",
        "start fewer ranks; with BRAID_SHARE_GPUS=on ranks share GPUs, but times are meaningless",
        facts.ranks, seen);
}

void checkBlocking(const Facts &facts, Lines &lines) {
  const std::string value = facts.variable("CUDA_LAUNCH_BLOCKING");
  if (!value.empty() && value != "0")
    lines.problem("on",
                  "CUDA_LAUNCH_BLOCKING is '{0}': the host waits for a peer before issuing the "
                  "commands that the peer waits for",
                  "unset CUDA_LAUNCH_BLOCKING", shown(value));
}

void checkQueues(const Facts &facts, Lines &lines) {
  const std::string value = facts.variable("CUDA_DEVICE_MAX_CONNECTIONS");
  int64_t queues = 0;
  if (!value.empty() && (llvm::StringRef(value).getAsInteger(10, queues) || queues < 32))
    lines.note("few", "CUDA_DEVICE_MAX_CONNECTIONS is '{0}': streams share hardware queues",
               "unset it: Braid asks for 32, and is slower with fewer", shown(value));
}

/// Ignores variables that affect only NCCL's output.
void checkNcclVariables(const Facts &facts, Lines &lines) {
  std::vector<std::string> set;
  for (const auto &[name, value] : facts.variables)
    if (name.starts_with("NCCL_") && !name.starts_with("NCCL_DEBUG") &&
        name != "NCCL_MULTI_RANK_GPU_ENABLE")
      set.push_back(name + "=" + shown(value));
  if (!set.empty())
    lines.note("set", "{0}", "these change how NCCL behaves; unset those that you did not intend",
               llvm::join(set, ", "));
}

void checkCache(const Facts &facts, Lines &lines) {
  if (facts.cache.empty())
    lines.note("none", "measurements are not kept (BRAID_CACHE_DIR=none, or no HOME)",
               "GPU programs repeat the measurements at every start");
  else
    lines.ok("fine", "measurements are kept in {0}", printable(facts.cache));
}

} // namespace

std::vector<Check> environmentChecks() {
  return {{"settings", false, checkSettingsOfBraid},    {"job-gpus", true, checkRanks},
          {"launch-blocking", true, checkBlocking},     {"hardware-queues", true, checkQueues},
          {"nccl-variables", true, checkNcclVariables}, {"cache", false, checkCache}};
}

} // namespace braid::doctor
