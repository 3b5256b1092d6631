//===- api/doctor/environment_checks.cpp - variables and folders that change behaviour --------===//

#include "api/doctor/check.h"

#include "llvm/ADT/StringExtras.h"

#include <algorithm>

namespace braid::doctor {
namespace {

constexpr size_t kShownOfVariable = 60;

std::string shown(const std::string &value) { return printable(value, kShownOfVariable); }

void lookAtBlocking(const Facts &facts, Lines &lines) {
  const std::string value = facts.variable("CUDA_LAUNCH_BLOCKING").value_or("");
  if (!value.empty() && value != "0")
    lines.add("on", shown(value));
}

/// The default of Braid's is 32, and CUDA's is 8.
void lookAtQueues(const Facts &facts, Lines &lines) {
  const std::string value = facts.variable("CUDA_DEVICE_MAX_CONNECTIONS").value_or("");
  int64_t queues = 0;
  if (!value.empty() && (llvm::StringRef(value).getAsInteger(10, queues) || queues < 32))
    lines.add("few", shown(value));
}

/// What changes NCCL; not what says only how much it prints.
void lookAtNcclVariables(const Facts &facts, Lines &lines) {
  std::vector<std::string> set;
  for (const auto &[name, value] : facts.own.variables)
    if (llvm::StringRef(name).take_front(5) == "NCCL_" &&
        llvm::StringRef(name).take_front(10) != "NCCL_DEBUG" &&
        name != "NCCL_MULTI_RANK_GPU_ENABLE")
      set.push_back(name + "=" + shown(value));
  if (!set.empty())
    lines.add("set", llvm::join(set, ", "));
}

void lookAtSharedGpus(const Facts &facts, Lines &lines) {
  if (facts.variable("BRAID_SHARE_GPUS") == "on")
    lines.add("on");
}

/// Where hosts meet without a launcher's store. What is wrong would be said when they meet.
void lookAtRendezvous(const Facts &facts, Lines &lines) {
  const std::string address = facts.variable("BRAID_RENDEZVOUS").value_or("");
  const std::string secret = facts.variable("BRAID_SECRET_FILE").value_or("");
  auto given = [&](const std::string &) { return std::optional(address); };
  if (Status status = address.empty() ? Status::ok() : rendezvousAddress(given).status();
      !status.isOk())
    lines.add("address", status.message());
  if (address.empty() != secret.empty())
    lines.add("half", address.empty() ? "BRAID_SECRET_FILE" : "BRAID_RENDEZVOUS",
              address.empty() ? "BRAID_RENDEZVOUS" : "BRAID_SECRET_FILE");
  if (!facts.secretTrouble.empty())
    lines.add("secret", shown(secret), facts.secretTrouble);
}

/// Ranks that are processes get one thread from Braid's launcher, others what the variable says.
void lookAtThreads(const Facts &facts, Lines &lines) {
  for (const char *name : {"OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"}) {
    int64_t threads = 0;
    const std::string value = facts.variable(name).value_or("");
    if (llvm::StringRef(value).getAsInteger(10, threads))
      continue;
    if (threads > 1 && threads * std::max<int64_t>(facts.ranks, 1) > facts.processors)
      lines.add("many", name, shown(value), std::max<int64_t>(facts.ranks, 1), facts.processors);
  }
}

void lookAtPreload(const Facts &facts, Lines &lines) {
  if (const std::string value = facts.variable("LD_PRELOAD").value_or(""); !value.empty())
    lines.add("set", shown(value));
}

void lookAtCache(const Facts &facts, Lines &lines) {
  constexpr uint64_t kLeast = uint64_t(16) << 20;
  if (facts.cacheFolder.empty())
    return lines.add("none");
  if (!facts.cacheTrouble.empty())
    return lines.add("unwritable", facts.cacheFolder, facts.cacheTrouble);
  if (facts.cacheSpace && facts.cacheSpace->available < kLeast)
    return lines.add("full", facts.cacheFolder, facts.cacheSpace->available >> 20);
  lines.add("fine", facts.cacheFolder);
}

} // namespace

std::vector<Check> environmentChecks() {
  using enum Severity;
  return {
      {.name = "launch-blocking",
       .needsGpu = true,
       .lines = {{"on", Problem,
                  "CUDA_LAUNCH_BLOCKING is '{0}': the host waits for a peer before it has issued "
                  "what the peer waits for",
                  "unset CUDA_LAUNCH_BLOCKING"}},
       .look = lookAtBlocking,
       .explains =
           [](const Failure &failure) {
             return failure.mentions({"CUDA_LAUNCH_BLOCKING"}) ||
                    failure.code == StatusCode::TimedOut;
           }},
      {.name = "hardware-queues",
       .needsGpu = true,
       .lines = {{"few", Note,
                  "CUDA_DEVICE_MAX_CONNECTIONS is '{0}': streams share hardware queues",
                  "unset it: Braid asks for 32, and is slower with fewer"}},
       .look = lookAtQueues},
      {.name = "nccl-variables",
       .needsGpu = true,
       .lines = {{"set", Note, "{0}", "NCCL behaves differently; unset what is not meant"}},
       .look = lookAtNcclVariables},
      {.name = "shared-gpus",
       .needsGpu = true,
       .lines = {{"on", Note, "BRAID_SHARE_GPUS is on: ranks may share GPUs",
                  "for results and not for speed; unset it to measure"}},
       .look = lookAtSharedGpus},
      {.name = "threads",
       .lines = {{"many", Note, "{0} is {1}: {2} ranks together ask for more than {3} processors",
                  "set it to the processors that a rank has"}},
       .look = lookAtThreads},
      {.name = "rendezvous",
       .lines = {{"address", Problem, "{0}", "name a host and a port of this network"},
                 {"half", Problem, "{0} is set, and {1} is not: hosts cannot meet",
                  "set both on all hosts, or none where the launcher has a store"},
                 {"secret", Problem, "BRAID_SECRET_FILE '{0}' is no secret: {1}",
                  "head -c 32 /dev/urandom > FILE; chmod 600 FILE; copy it to each host"}},
       .look = lookAtRendezvous},
      {.name = "preload",
       .lines = {{"set", Note, "LD_PRELOAD puts '{0}' before every library",
                  "unset it, unless that is meant"}},
       .look = lookAtPreload},
      {.name = "cache",
       .lines = {{"fine", Ok, "measurements are kept in {0}", ""},
                 {"none", Note, "measurements are not kept (BRAID_CACHE_DIR=none, or no HOME)",
                  "programs on GPUs measure anew each time they start"},
                 {"unwritable", Note, "measurements cannot be kept in {0}: {1}",
                  "let BRAID_CACHE_DIR name a folder that can be written, or none"},
                 {"full", Note, "measurements may not be kept in {0}: {1} MiB are free",
                  "make room, or let BRAID_CACHE_DIR name another folder"}},
       .look = lookAtCache},
  };
}

} // namespace braid::doctor
