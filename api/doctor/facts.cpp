//===- api/doctor/facts.cpp - all that `braid doctor` looks at, as values ---------------------===//

#include "api/doctor/facts.h"

#include "api/doctor/between_ranks.h"
#include "api/launch/ask_in_process.h"
#include "api/machine/ask_nvml.h"
#include "ir/failure.h"
#include "runtime/files.h"
#include "runtime/job/bootstrap/endpoint.h"
#include "runtime/tune/measurement_cache.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <thread>

#include <sched.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

extern char **environ; // NOLINT: unistd.h has it for GNU only

namespace braid::doctor {
namespace {

namespace fs = llvm::sys::fs;
using std::chrono::milliseconds;
namespace path = llvm::sys::path;

constexpr size_t kMostOfFile = 1 << 16; ///< bytes; of what the kernel writes

/// What stands in a file of the kernel's; empty if there is none.
std::string textAt(const std::string &file) {
  Result<std::string> text = readFile(file, kMostOfFile);
  return text ? llvm::StringRef(*text).trim().str() : "";
}

std::vector<std::string> namesIn(const std::string &folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; entry != end && !error;
       entry.increment(error))
    names.push_back(path::filename(entry->path()).str());
  llvm::sort(names);
  return names;
}

std::string linkAt(const std::string &file) {
  std::array<char, 256> target = {};
  const ssize_t size = readlink(file.c_str(), target.data(), target.size());
  return size > 0 ? std::string(target.data(), static_cast<size_t>(size)) : "";
}

// -- What this process is. --

std::optional<uint64_t> limitOf(int resource, rlim_t rlimit::*which) {
  rlimit limit{};
  if (getrlimit(static_cast<__rlimit_resource>(resource), &limit) != 0 ||
      limit.*which == RLIM_INFINITY)
    return std::nullopt;
  return limit.*which;
}

Limits ownLimits() {
  return {.openFiles = limitOf(RLIMIT_NOFILE, &rlimit::rlim_max),
          .lockedBytes = limitOf(RLIMIT_MEMLOCK, &rlimit::rlim_cur),
          .processes = limitOf(RLIMIT_NPROC, &rlimit::rlim_cur),
          .addressBytes = limitOf(RLIMIT_AS, &rlimit::rlim_cur)};
}

int64_t ownProcessors() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) == 0)
    return CPU_COUNT(&set);
  return std::thread::hardware_concurrency();
}

std::optional<Space> spaceOf(const std::string &folder) {
  struct statvfs about = {};
  if (statvfs(folder.c_str(), &about) != 0)
    return std::nullopt;
  return Space{uint64_t(about.f_blocks) * about.f_frsize,
               uint64_t(about.f_bavail) * about.f_frsize};
}

std::map<std::string, std::string> ownVariables() {
  std::map<std::string, std::string> variables;
  for (char **entry = environ; entry && *entry; ++entry) {
    const auto [name, value] = llvm::StringRef(*entry).split('=');
    variables[name.str()] = value.str();
  }
  return variables;
}

void readProcess(const Sources &sources, Facts &facts) {
  const std::string self = sources.root + "/proc/self";
  for (const auto &[name, value] : sources.variables)
    if (changesBehaviour(name))
      facts.own.variables[name] = value;
  facts.status = parseProcessStatus(textAt(self + "/status"));
  facts.own.pidNamespace = parseNamespace(linkAt(self + "/ns/pid"), "pid").value_or(0);
  facts.own.ipcNamespace = parseNamespace(linkAt(self + "/ns/ipc"), "ipc").value_or(0);
  if (int64_t scope = 0;
      !llvm::StringRef(textAt(sources.root + "/proc/sys/kernel/yama/ptrace_scope"))
           .getAsInteger(10, scope))
    facts.ptraceScope = scope;
  if (sources.limits)
    facts.limits = sources.limits();
  facts.processors = sources.processors;
}

// -- Folders. --

/// The nearest that is there, of `folder` and those above it.
std::string nearestThere(const std::string &folder) {
  llvm::SmallString<256> absolute(folder);
  (void)fs::make_absolute(absolute);
  llvm::StringRef there = absolute;
  while (!there.empty() && !fs::exists(there))
    there = path::parent_path(there);
  return there.str();
}

/// Why no file can be made in `folder`, which may be yet to be made; empty: one can.
std::string whyNotWritable(const std::string &folder) {
  const std::string there = nearestThere(folder);
  if (there.empty())
    return std::strerror(ENOENT);
  if (!fs::is_directory(there))
    return fmt::format("{} is no folder", there);
  return access(there.c_str(), W_OK | X_OK) == 0 ? "" : std::strerror(errno);
}

bool isNoExec(const std::string &folder) {
  struct statvfs about = {};
  return statvfs(folder.c_str(), &about) == 0 && (about.f_flag & ST_NOEXEC) != 0;
}

Environment environmentOf(const std::map<std::string, std::string> &variables) {
  return [&variables](const std::string &name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    return found == variables.end() || found->second.empty() ? std::nullopt
                                                             : std::optional(found->second);
  };
}

/// It has to be there, and nobody makes it.
MeetingFolder readMeetingFolder(const Sources &sources) {
  MeetingFolder meeting;
  const Environment environment = environmentOf(sources.variables);
  meeting.path = endpointBase(environment);
  for (const char *variable : {"XDG_RUNTIME_DIR", "TMPDIR"})
    if (environment(variable) == meeting.path && meeting.source.empty())
      meeting.source = variable;
  if (const std::string given = environment("TMPDIR").value_or("");
      meeting.source.empty() && !given.empty() && given.front() != '/')
    meeting.ignored = given;
  meeting.trouble = fs::exists(meeting.path) ? whyNotWritable(meeting.path) : std::strerror(ENOENT);
  meeting.excessBytes = excessOfEndpoint(meeting.path, "");
  meeting.excessOfNamed = excessOfEndpoint(meeting.path, "named");
  if (sources.space)
    meeting.space = sources.space(meeting.path);
  meeting.isNoExec = sources.isNoExec && sources.isNoExec(meeting.path);
  return meeting;
}

void readFolders(const Sources &sources, Facts &facts) {
  if (sources.space)
    facts.sharedMemory = sources.space(sources.root + "/dev/shm");
  facts.meeting = readMeetingFolder(sources);
  facts.cacheFolder = measurementFolder(environmentOf(sources.variables));
  if (facts.cacheFolder.empty())
    return;
  facts.isCacheThere = fs::is_directory(facts.cacheFolder);
  facts.cacheTrouble = whyNotWritable(facts.cacheFolder);
  if (sources.space)
    facts.cacheSpace = sources.space(nearestThere(facts.cacheFolder));
}

// -- GPUs. --

bool isGpuOfNvidia(const std::string &folder) {
  const std::string kind = textAt(folder + "/class");
  return textAt(folder + "/vendor") == "0x10de" &&
         (kind.starts_with("0x0300") || kind.starts_with("0x0302"));
}

PciGpu readGpu(const std::string &address, const std::string &root) {
  PciGpu gpu;
  gpu.address = normalizedPci(address);
  const std::string devices = root + "/sys/bus/pci/devices/";
  gpu.iommu = textAt(devices + address + "/iommu_group/type");
  gpu.bridges = pciPath(address, root);
  if (!gpu.bridges.empty())
    gpu.bridges.pop_back(); // the device itself
  for (const std::string &bridge : gpu.bridges)
    if (Result<std::string> config = readFile(devices + bridge + "/config", kMostOfFile))
      if (redirectsPeers(*config).value_or(false))
        gpu.redirecting.push_back(bridge);
  return gpu;
}

bool isDeviceFile(llvm::StringRef name) {
  return name.consume_front("nvidia") && !name.empty() && llvm::all_of(name, llvm::isDigit);
}

void readPci(const Sources &sources, Facts &facts) {
  for (const std::string &address : namesIn(sources.root + "/sys/bus/pci/devices"))
    if (isGpuOfNvidia(sources.root + "/sys/bus/pci/devices/" + address))
      facts.gpus.push_back(readGpu(address, sources.root));
  const std::string driver = textAt(sources.root + "/proc/driver/nvidia/version");
  facts.kernelDriver = driver.substr(0, driver.find('\n'));
  facts.deviceFiles = llvm::count_if(namesIn(sources.root + "/dev"), isDeviceFile);
}

template <class Value> Answer<Value> answerOf(const Result<Value> &result) {
  Answer<Value> answer;
  if (result)
    answer.value = *result;
  else
    answer.error = result.status().message();
  answer.isLate = result.status().code() == StatusCode::TimedOut;
  return answer;
}

Answer<NvmlReport> askNvml(const Sources &sources) {
  if (!sources.nvml)
    return {};
  return answerOf(sources.nvml(environmentOf(sources.variables), sources.patience));
}

Answer<BackendFacts> askBackend(const Sources &sources, const char *name) {
  const auto found = sources.backends.find(name);
  if (found == sources.backends.end() || !found->second)
    return {};
  return answerOf(found->second(sources.patience));
}

// -- Backends, by whom they are asked. --

using AskFacts = std::function<BackendFacts()>;

Result<BackendFacts> factsByProcess(const AskFacts &ask, milliseconds patience) {
  const std::string text =
      BRAID_TRY(askInProcess([&] { return encodeBackendFacts(ask()); }, patience));
  return decodeBackendFacts(text);
}

/// Of one that is late the thread is left alone: nobody can end a call into a driver.
Result<BackendFacts> factsByThread(const AskFacts &ask, milliseconds patience) {
  struct Shared {
    std::mutex mutex;
    std::condition_variable changed;
    std::optional<BackendFacts> facts;
  };
  auto shared = std::make_shared<Shared>();
  std::thread([shared, ask] {
    BackendFacts facts = ask();
    std::lock_guard lock(shared->mutex);
    shared->facts = std::move(facts);
    shared->changed.notify_all();
  }).detach();
  std::unique_lock lock(shared->mutex);
  if (!shared->changed.wait_for(lock, patience, [&] { return shared->facts.has_value(); }))
    return timedOut("no answer within {} ms", patience.count());
  return std::move(*shared->facts);
}

void readGpus(const Sources &sources, Facts &facts) {
  readPci(sources, facts);
  facts.patience = sources.patience;
  facts.nvml = askNvml(sources);
  facts.machine = facts.nvml.value ? readMachine(*facts.nvml.value, sources.root) : Machine();
  facts.hasCuda = sources.backends.count("cuda") != 0;
  facts.cuda = askBackend(sources, "cuda");
  facts.nccl = askBackend(sources, "nccl");
}

} // namespace

bool changesBehaviour(llvm::StringRef variable) {
  for (llvm::StringRef own : {"BRAID_RANK", "BRAID_RANKS", "BRAID_LOCAL_RANK", "BRAID_LOCAL_RANKS",
                              "BRAID_JOB", "BRAID_MEETING"})
    if (variable == own)
      return false;
  for (llvm::StringRef prefix : {"BRAID_", "CUDA_", "NCCL_", "OMP_", "OPENBLAS_"})
    if (variable.take_front(prefix.size()) == prefix)
      return true;
  for (llvm::StringRef name :
       {"LD_LIBRARY_PATH", "LD_PRELOAD", "TMPDIR", "XDG_CACHE_HOME", "XDG_RUNTIME_DIR"})
    if (variable == name)
      return true;
  return false;
}

bool Facts::hasGpu() const {
  return !gpus.empty() || deviceFiles > 0 || !kernelDriver.empty() ||
         (nvml.value && !nvml.value->devices.empty()) || nvml.isLate || cuda.isLate ||
         cudaNumber("devices").value_or(0) > 0;
}

std::optional<std::string> Facts::variable(const std::string &name) const {
  const auto found = own.variables.find(name);
  return found == own.variables.end() ? std::nullopt : std::optional(found->second);
}

std::optional<std::string> Facts::cudaText(const std::string &name) const {
  if (!cuda.value)
    return std::nullopt;
  const auto found = cuda.value->find(name);
  return found == cuda.value->end() ? std::nullopt : std::optional(found->second);
}

std::optional<int64_t> Facts::cudaNumber(const std::string &name) const {
  const std::optional<std::string> text = cudaText(name);
  int64_t number = 0;
  return !text || llvm::StringRef(*text).getAsInteger(10, number) ? std::nullopt
                                                                  : std::optional(number);
}

std::string Facts::gpuOfRank(int64_t localRank) const {
  const int64_t device = cudaNumber("devices") == 1 ? 0 : localRank;
  return normalizedPci(cudaText(std::to_string(device) + ".pci").value_or(""));
}

Sources processSources(const BackendRegistry &registry, AskedBy askedBy) {
  Sources sources;
  sources.variables = ownVariables();
  sources.limits = ownLimits;
  sources.space = spaceOf;
  sources.isNoExec = isNoExec;
  sources.processors = ownProcessors();
  sources.nvml = braid::askNvml;
  for (const Backend &backend : registry.all())
    if (backend.facts)
      sources.backends[backend.name] = [facts = backend.facts, askedBy](milliseconds patience) {
        return askedBy == AskedBy::Process ? factsByProcess(facts, patience)
                                           : factsByThread(facts, patience);
      };
  return sources;
}

Facts readFacts(const Sources &sources) {
  Facts facts;
  readProcess(sources, facts);
  readFolders(sources, facts);
  readGpus(sources, facts);
  return facts;
}

} // namespace braid::doctor
