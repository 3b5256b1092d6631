//===- api/doctor/environment_checks.cpp - variables and folders that change behaviour --------===//

#include "api/doctor/check.h"

#include "ir/counted.h"
#include "ir/printable.h"

#include "llvm/ADT/StringExtras.h"

#include <algorithm>

namespace braid::doctor {
namespace {

std::string shown(const std::string &value) { return printable(value, 60); }

/// What Braid itself would refuse.
void checkSettingsOfBraid(const Facts &facts, Lines &lines) {
  const Status status = checkSettings([&](const std::string &name) {
    const std::string value = facts.variable(name);
    return value.empty() ? std::nullopt : std::optional(value);
  });
  if (!status.isOk())
    lines.problem("wrong", "{0}", "programs refuse to run: set it right, or unset it",
                  status.message());
}

/// A malformed list is a finding of checkSettingsOfBraid().
void checkDevices(const Facts &facts, Lines &lines) {
  const std::string value = facts.variable("BRAID_DEVICES");
  const Result<std::vector<int64_t>> devices = devicesOfRanks(
      [&](const std::string &) { return value.empty() ? std::nullopt : std::optional(value); });
  const int64_t seen = facts.cudaDevices();
  if (!devices || devices->empty())
    return;
  const auto count = static_cast<int64_t>(devices->size());
  const int64_t greatest = *std::max_element(devices->begin(), devices->end());
  if (seen > 0 && greatest >= seen)
    lines.problem("absent", "BRAID_DEVICES is '{0}', but there is no GPU {1}: CUDA sees {2}",
                  "name GPUs by CUDA's numbers, from 0 on, or unset it", shown(value), greatest,
                  counted(seen, "GPU"));
  else if (facts.ranks > count)
    lines.problem("few", "BRAID_DEVICES is '{0}', which has {1} for {2} ranks",
                  "name a GPU for each rank, or unset it", shown(value), counted(count, "GPU"),
                  facts.ranks);
}

void checkRanks(const Facts &facts, Lines &lines) {
  const int64_t seen = facts.cudaDevices();
  if (facts.variable("BRAID_SHARE_GPUS") == "on")
    lines.note("shared", "BRAID_SHARE_GPUS is on: ranks may share GPUs",
               "for results and not for speed; unset it to measure");
  else if (seen > 0 && facts.ranks > seen)
    lines.problem("few", "{0} ranks need a GPU each, but programs see {1}",
                  "start fewer ranks; BRAID_SHARE_GPUS=on lets them share, for results and not "
                  "for speed",
                  facts.ranks, seen);
}

void checkBlocking(const Facts &facts, Lines &lines) {
  const std::string value = facts.variable("CUDA_LAUNCH_BLOCKING");
  if (!value.empty() && value != "0")
    lines.problem("on",
                  "CUDA_LAUNCH_BLOCKING is '{0}': the host waits for a peer before it has issued "
                  "what the peer waits for",
                  "unset CUDA_LAUNCH_BLOCKING", shown(value));
}

void checkQueues(const Facts &facts, Lines &lines) {
  const std::string value = facts.variable("CUDA_DEVICE_MAX_CONNECTIONS");
  int64_t queues = 0;
  if (!value.empty() && (llvm::StringRef(value).getAsInteger(10, queues) || queues < 32))
    lines.note("few", "CUDA_DEVICE_MAX_CONNECTIONS is '{0}': streams share hardware queues",
               "unset it: Braid asks for 32, and is slower with fewer", shown(value));
}

/// All but those that say only how much NCCL prints.
void checkNcclVariables(const Facts &facts, Lines &lines) {
  std::vector<std::string> set;
  for (const auto &[name, value] : facts.variables)
    if (name.starts_with("NCCL_") && !name.starts_with("NCCL_DEBUG") &&
        name != "NCCL_MULTI_RANK_GPU_ENABLE")
      set.push_back(name + "=" + shown(value));
  if (!set.empty())
    lines.note("set", "{0}", "NCCL behaves differently; unset what is not meant",
               llvm::join(set, ", "));
}

/// Braid's launcher gives its ranks one thread each; other ranks take what the variables say.
void checkThreads(const Facts &facts, Lines &lines) {
  const int64_t ranks = std::max<int64_t>(facts.ranks, 1);
  for (const char *name : {"OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"}) {
    const std::string value = facts.variable(name);
    int64_t threads = 0;
    if (!llvm::StringRef(value).split(',').first.trim().getAsInteger(10, threads) && threads > 1 &&
        threads > facts.processors / ranks)
      lines.note("many", "{0} is {1}: {2} for more than {3}",
                 "set it to the processors that a rank has", name, shown(value),
                 ranks == 1 ? "a rank asks" : fmt::format("{} ranks together ask", ranks),
                 counted(facts.processors, "processor"));
  }
}

void checkPreload(const Facts &facts, Lines &lines) {
  if (const std::string value = facts.variable("LD_PRELOAD"); !value.empty())
    lines.note("set", "LD_PRELOAD puts '{0}' before every library",
               "unset it, unless that is meant", shown(value));
}

void checkMeeting(const Facts &facts, Lines &lines) {
  constexpr const char *kAdvice = "let TMPDIR, or XDG_RUNTIME_DIR, name another folder";
  const std::string folder = printable(facts.meeting.path);
  if (!facts.meeting.trouble.empty())
    lines.problem("unwritable", "ranks of a job cannot meet in {0}: {1}", kAdvice, folder,
                  facts.meeting.trouble);
  else if (facts.meeting.space && facts.meeting.space->available < uint64_t(64) << 10)
    lines.problem("full", "ranks of a job cannot meet in {0}: {1} KiB are free", kAdvice, folder,
                  facts.meeting.space->available >> 10);
  else if (facts.meetingExcess > 0)
    lines.note("long",
               "ranks that mpirun, torchrun or srun starts cannot meet in {0}: the path of a "
               "socket there is {1} too long",
               kAdvice, folder, counted(facts.meetingExcess, "byte"));
  else
    lines.ok("fine", "ranks of a job meet in {0}", folder);
}

void checkCache(const Facts &facts, Lines &lines) {
  const std::string folder = printable(facts.cache.path);
  if (facts.cache.path.empty())
    return lines.note("none", "measurements are not kept (BRAID_CACHE_DIR=none, or no HOME)",
                      "programs on GPUs measure anew each time they start");
  if (facts.cache.path.front() != '/')
    lines.note("relative", "BRAID_CACHE_DIR is '{0}', which is no absolute path",
               "only programs that start in this folder find measurements again: let it be an "
               "absolute path",
               folder);
  else if (!facts.cache.trouble.empty())
    lines.note("unwritable", "measurements cannot be kept in {0}: {1}",
               "let BRAID_CACHE_DIR name a folder that can be written, or none", folder,
               facts.cache.trouble);
  else if (facts.cache.space && facts.cache.space->available < uint64_t(16) << 20)
    lines.note("full", "measurements may not be kept in {0}: {1} MiB are free",
               "make room, or let BRAID_CACHE_DIR name another folder", folder,
               facts.cache.space->available >> 20);
  else
    lines.ok("fine", "measurements are kept in {0}", folder);
}

} // namespace

std::vector<Check> environmentChecks() {
  return {{"settings", false, checkSettingsOfBraid},
          {"devices", true, checkDevices},
          {"job-gpus", true, checkRanks},
          {"launch-blocking", true, checkBlocking},
          {"hardware-queues", true, checkQueues},
          {"nccl-variables", true, checkNcclVariables},
          {"threads", false, checkThreads},
          {"preload", false, checkPreload},
          {"meeting", false, checkMeeting},
          {"cache", false, checkCache}};
}

} // namespace braid::doctor
