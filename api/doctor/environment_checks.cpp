//===- api/doctor/environment_checks.cpp - variables and folders that affect programs ---------===//

#include "api/doctor/check.h"

#include "ir/printable.h"

#include "llvm/ADT/StringExtras.h"

namespace braid::doctor {
namespace {

std::string shown(const std::string &value) { return printable(value, 60); }

/// Reports environment variables that make programs refuse to run.
void checkSettingsOfBraid(const Facts &facts, Lines &lines) {
  const Status status = checkSettings(facts.environment());
  if (!status.isOk())
    lines.problem("wrong", "{0}", "programs will not run until this variable is corrected or unset",
                  status.message());
}

void checkRanks(const Facts &facts, Lines &lines) {
  const int64_t seen = facts.cudaDevices();
  if (facts.variable("BRAID_SHARE_GPUS") == "on")
    lines.note("shared", "BRAID_SHARE_GPUS is on: ranks may share GPUs",
               "timings are meaningless; unset it to measure performance");
  else if (seen > 0 && facts.ranks > seen)
    lines.problem("few", "{0} ranks need one GPU each, but programs see only {1}",
                  "start fewer ranks, or set BRAID_SHARE_GPUS=on to let ranks share GPUs, which "
                  "makes timings meaningless",
                  facts.ranks, seen);
}

void checkBlocking(const Facts &facts, Lines &lines) {
  const std::string value = facts.variable("CUDA_LAUNCH_BLOCKING");
  if (!value.empty() && value != "0")
    lines.problem("on",
                  "CUDA_LAUNCH_BLOCKING is '{0}': the host blocks on a peer before issuing the "
                  "commands that the peer is waiting for",
                  "unset CUDA_LAUNCH_BLOCKING", shown(value));
}

void checkQueues(const Facts &facts, Lines &lines) {
  const std::string value = facts.variable("CUDA_DEVICE_MAX_CONNECTIONS");
  int64_t queues = 0;
  if (!value.empty() && (llvm::StringRef(value).getAsInteger(10, queues) || queues < 32))
    lines.note("few", "CUDA_DEVICE_MAX_CONNECTIONS is '{0}': streams share hardware queues",
               "unset it: Braid requests 32 connections, and is slower with fewer", shown(value));
}

/// Ignores variables that affect only NCCL's output, and the variable for shared GPUs.
void checkNcclVariables(const Facts &facts, Lines &lines) {
  std::vector<std::string> set;
  for (const auto &[name, value] : facts.variables)
    if (name.starts_with("NCCL_") && !name.starts_with("NCCL_DEBUG") &&
        name != "NCCL_MULTI_RANK_GPU_ENABLE")
      set.push_back(name + "=" + shown(value));
  if (!set.empty())
    lines.note("set", "{0}",
               "these variables change NCCL's behavior; unset any that you did not set on purpose",
               llvm::join(set, ", "));
}

void checkCache(const Facts &facts, Lines &lines) {
  if (facts.cache.empty())
    lines.note("none", "measurements are not cached (BRAID_CACHE_DIR is none, or HOME is not set)",
               "GPU programs repeat all measurements each time they start");
  else
    lines.ok("fine", "measurements are cached in {0}", printable(facts.cache));
}

} // namespace

std::vector<Check> environmentChecks() {
  return {{"settings", false, checkSettingsOfBraid},    {"job-gpus", true, checkRanks},
          {"launch-blocking", true, checkBlocking},     {"hardware-queues", true, checkQueues},
          {"nccl-variables", true, checkNcclVariables}, {"cache", false, checkCache}};
}

} // namespace braid::doctor
