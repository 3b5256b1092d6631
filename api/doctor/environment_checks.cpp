//===- api/doctor/environment_checks.cpp - variables and folders that change behaviour --------===//

#include "api/doctor/check.h"

#include "ir/counted.h"
#include "ir/printable.h"

#include "llvm/ADT/StringExtras.h"

#include <algorithm>
#include <limits>

namespace braid::doctor {
namespace {

constexpr size_t kShownOfVariable = 60, kShownOfPath = 300;

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

/// Of nested teams, "4,2", the outer one. 0: it is no number.
int64_t threadsOf(llvm::StringRef value) {
  const llvm::StringRef first = value.split(',').first.trim();
  int64_t threads = 0;
  if (!first.getAsInteger(10, threads))
    return threads;
  const bool isTooLarge = !first.empty() && llvm::all_of(first, llvm::isDigit);
  return isTooLarge ? std::numeric_limits<int64_t>::max() : 0;
}

/// Ranks that are processes get one thread from Braid's launcher, others what the variable says.
void lookAtThreads(const Facts &facts, Lines &lines) {
  const int64_t ranks = std::max<int64_t>(facts.ranks, 1);
  for (const char *name : {"OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"}) {
    const std::string value = facts.variable(name).value_or("");
    const int64_t threads = threadsOf(value);
    if (threads > 1 && threads > facts.processors / ranks)
      lines.add("many", name, shown(value),
                ranks == 1 ? "a rank asks" : fmt::format("{} ranks together ask", ranks),
                counted(facts.processors, "processor"));
  }
}

void lookAtPreload(const Facts &facts, Lines &lines) {
  if (const std::string value = facts.variable("LD_PRELOAD").value_or(""); !value.empty())
    lines.add("set", shown(value));
}

/// All that Braid itself would refuse.
void lookAtSettings(const Facts &facts, Lines &lines) {
  const Status status = checkSettings([&](const std::string &name) {
    const std::optional<std::string> value = facts.variable(name);
    return value && value->empty() ? std::nullopt : value;
  });
  if (!status.isOk())
    lines.add("wrong", status.message());
}

/// Those that are malformed are the business of the settings.
void lookAtDevices(const Facts &facts, Lines &lines) {
  const Result<std::vector<int64_t>> devices =
      devicesOfRanks([&](const std::string &) { return facts.variable("BRAID_DEVICES"); });
  const int64_t seen = facts.cudaNumber("devices").value_or(0);
  if (!devices || devices->empty())
    return;
  const std::string value = shown(facts.variable("BRAID_DEVICES").value_or(""));
  for (int64_t device : *devices)
    if (seen > 0 && device >= seen)
      return lines.add("absent", value, device, counted(seen, "GPU"));
  if (facts.ranks > static_cast<int64_t>(devices->size()))
    lines.add("few", value, counted(static_cast<int64_t>(devices->size()), "GPU"), facts.ranks);
}

std::string withSource(const MeetingFolder &meeting) {
  return printable(meeting.path, kShownOfPath) +
         (meeting.source.empty() ? "" : " (" + meeting.source + ")");
}

void lookAtMeeting(const Facts &facts, Lines &lines) {
  constexpr uint64_t kLeast = uint64_t(64) << 10;
  const MeetingFolder &meeting = facts.meeting;
  const std::string folder = withSource(meeting);
  if (!meeting.ignored.empty())
    lines.add("relative", shown(meeting.ignored), folder);
  if (!meeting.trouble.empty())
    return lines.add("unwritable", folder, meeting.trouble);
  if (meeting.space && meeting.space->available < kLeast)
    return lines.add("full", folder, meeting.space->available >> 10);
  if (meeting.excessBytes > 0)
    return lines.add("long", folder, counted(meeting.excessBytes, "byte"));
  if (meeting.excessOfNamed > 0)
    lines.add("long-for-names", folder, counted(meeting.excessOfNamed, "byte"));
  if (meeting.isNoExec)
    lines.add("no-exec", folder);
  if (lines.count() == 0)
    lines.add("fine", folder);
}

void lookAtCache(const Facts &facts, Lines &lines) {
  constexpr uint64_t kLeast = uint64_t(16) << 20;
  if (facts.cacheFolder.empty())
    return lines.add("none");
  const std::string folder = printable(facts.cacheFolder, kShownOfPath);
  if (facts.cacheFolder.front() != '/')
    lines.add("relative", folder);
  if (!facts.cacheTrouble.empty())
    return lines.add("unwritable", folder, facts.cacheTrouble);
  if (facts.cacheSpace && facts.cacheSpace->available < kLeast)
    return lines.add("full", folder, facts.cacheSpace->available >> 20);
  if (lines.count() == 0)
    lines.add(facts.isCacheThere ? "fine" : "new", folder);
}

} // namespace

std::vector<Check> environmentChecks() {
  using enum Severity;
  return {
      {.name = "settings",
       .lines = {{"wrong", Problem, "{0}", "programs refuse to run: set it right, or unset it"}},
       .look = lookAtSettings,
       .explains = [](const Failure &failure) { return failure.mentions({"BRAID_"}); }},
      {.name = "devices",
       .needsGpu = true,
       .lines = {{"absent", Problem,
                  "BRAID_DEVICES is '{0}', but there is no GPU {1}: CUDA sees {2}",
                  "name GPUs by CUDA's numbers, from 0 on, or unset it"},
                 {"few", Problem, "BRAID_DEVICES is '{0}', which has {1} for {2} ranks",
                  "name a GPU for each rank, or unset it"}},
       .look = lookAtDevices,
       .explains = [](const Failure &failure) { return failure.mentions({"BRAID_DEVICES"}); }},
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
       .lines = {{"many", Note, "{0} is {1}: {2} for more than {3}",
                  "set it to the processors that a rank has"}},
       .look = lookAtThreads},
      {.name = "preload",
       .lines = {{"set", Note, "LD_PRELOAD puts '{0}' before every library",
                  "unset it, unless that is meant"}},
       .look = lookAtPreload},
      {.name = "meeting",
       .lines = {{"fine", Ok, "ranks of a job meet in {0}", ""},
                 {"relative", Note,
                  "TMPDIR is '{0}', which is no absolute path: {1} is used instead",
                  "let TMPDIR be an absolute path, or unset it"},
                 {"unwritable", Problem, "ranks of a job cannot meet in {0}: {1}",
                  "let TMPDIR, or XDG_RUNTIME_DIR, name a folder that can be written"},
                 {"full", Problem, "ranks of a job cannot meet in {0}: {1} KiB are free",
                  "make room, or let TMPDIR, or XDG_RUNTIME_DIR, name another folder"},
                 {"long", Problem,
                  "ranks of a job cannot meet in {0}: the path of a socket there is {1} too long",
                  "let TMPDIR, or XDG_RUNTIME_DIR, name a folder with a shorter path"},
                 {"long-for-names", Note,
                  "ranks that mpirun, torchrun or srun starts cannot meet in {0}: the path of a "
                  "socket there is {1} too long",
                  "let TMPDIR, or XDG_RUNTIME_DIR, name a folder with a shorter path"},
                 {"no-exec", Note, "no library can be loaded from {0}: it is mounted noexec",
                  "Braid loads none; what PyTorch and Triton compile there does not run: let "
                  "TMPDIR name another folder"}},
       .look = lookAtMeeting,
       .explains =
           [](const Failure &failure) {
             return failure.mentions({"TMPDIR", "XDG_RUNTIME_DIR", "make the directory",
                                      "make a directory", "cannot listen at", "cannot lock"});
           }},
      {.name = "cache",
       .lines = {{"fine", Ok, "measurements are kept in {0}", ""},
                 {"new", Ok, "measurements will be kept in {0}, which is yet to be made", ""},
                 {"relative", Note, "BRAID_CACHE_DIR is '{0}', which is no absolute path",
                  "measurements are found again only by programs that start in this folder: let it "
                  "be an absolute path"},
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
