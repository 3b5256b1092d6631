//===- runtime/job/bootstrap/environment.cpp - which rank of a job this process is ------------===//

#include "runtime/job/bootstrap/environment.h"

#include "ir/failure.h"
#include "ir/printable.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/raw_ostream.h"

#include <fmt/format.h>

#include <array>
#include <cstdlib>
#include <iterator>
#include <limits>
#include <sstream>
#include <unistd.h>

namespace braid {
namespace {

/// The meaning of a variable. The first variable of a source that is set counts for its role,
/// except for parts of the job's name, which all do.
enum class Role {
  Rank,
  Ranks,
  LocalRank,
  LocalRanks,
  TasksPerNode, ///< SLURM's list, "4(x2),3"
  Store,        ///< the way to the launcher's store, see network/hosts_store.h
  Job,          ///< the job's name
  JobPart,      ///< a part of the job's name
};

enum class Need {
  Identifies, ///< set only in ranks, and in all of them
  Required,   ///< may be set elsewhere, too
  Optional,
};

struct Variable {
  const char *name;
  Role role;
  Need need;
  const char *meaning;
};

struct Source {
  const char *name;
  bool isNamedByProcess;  ///< the launcher's process is part of the job's name
  const char *defaultJob; ///< or null
  const char *advice;     ///< where ranks are not placed host by host, equally many on each
  std::vector<Variable> variables;
};

const std::vector<Source> &sources() {
  using enum Role;
  using enum Need;
  static const std::vector<Source> all = {
      {"BRAID_*",
       false,
       "default",
       "number the ranks host by host, as BRAID_RANK = host * BRAID_LOCAL_RANKS + BRAID_LOCAL_RANK",
       {{"BRAID_RANK", Rank, Identifies, "rank of this process"},
        {"BRAID_RANKS", Ranks, Identifies, "number of ranks"},
        {"BRAID_LOCAL_RANK", LocalRank, Optional, "rank among those of this host"},
        {"BRAID_LOCAL_RANKS", LocalRanks, Optional, "number of ranks on this host; all if not set"},
        {"BRAID_JOB", Job, Optional,
         "name of the job, equal in its ranks and no other's; \"default\" if not set"}}},
      {"torchrun",
       false,
       nullptr,
       "use the same --nproc-per-node on each host",
       {{"RANK", Rank, Identifies, "rank of this process"},
        {"WORLD_SIZE", Ranks, Identifies, "number of ranks"},
        {"LOCAL_RANK", LocalRank, Identifies, "rank among those of this host"},
        {"LOCAL_WORLD_SIZE", LocalRanks, Identifies, "number of ranks on this host"},
        {"MASTER_ADDR", JobPart, Required, "part of the job's name; host of torchrun's store"},
        {"MASTER_PORT", JobPart, Required, "part of the job's name; port of torchrun's store"},
        {"TORCHELASTIC_USE_AGENT_STORE", Store, Optional,
         "True: torchrun itself has the store, through which hosts meet"},
        {"TORCHELASTIC_RUN_ID", JobPart, Optional, "part of the job's name"},
        {"TORCHELASTIC_RESTART_COUNT", JobPart, Optional, "part of the job's name"}}},
      {"Open MPI",
       false,
       nullptr,
       "use mpirun --map-by slot, with equally many slots on each host",
       {{"OMPI_COMM_WORLD_RANK", Rank, Identifies, "rank of this process"},
        {"OMPI_COMM_WORLD_SIZE", Ranks, Identifies, "number of ranks"},
        {"OMPI_COMM_WORLD_LOCAL_RANK", LocalRank, Identifies, "rank among those of this host"},
        {"OMPI_COMM_WORLD_LOCAL_SIZE", LocalRanks, Identifies, "number of ranks on this host"},
        {"PMIX_NAMESPACE", Job, Required, "name of the job"}}},
      // Hydra names no job. Where PMI_JOBID is set it may be that of an outer job, and where the
      // launcher is a daemon it may start several jobs, so both are needed.
      {"PMI",
       true,
       nullptr,
       "use mpiexec -ppn N, with N ranks on each host",
       {{"PMI_RANK", Rank, Identifies, "rank of this process"},
        {"PMI_SIZE", Ranks, Identifies, "number of ranks"},
        {"MPI_LOCALRANKID", LocalRank, Optional, "rank among those of this host"},
        {"PMI_LOCAL_RANK", LocalRank, Optional, "the same, from other launchers"},
        {"MPI_LOCALNRANKS", LocalRanks, Optional, "number of ranks on this host; all if not set"},
        {"PMI_LOCAL_SIZE", LocalRanks, Optional, "the same, from other launchers"},
        {"PMI_JOBID", JobPart, Optional, "part of the job's name, beside the launcher's process"}}},
      {"SLURM",
       false,
       nullptr,
       "use srun --distribution=block --ntasks-per-node=N",
       {{"SLURM_STEP_ID", JobPart, Identifies, "part of the job's name; says that srun started it"},
        {"SLURM_JOB_ID", JobPart, Required, "part of the job's name"},
        {"SLURM_RESTART_COUNT", JobPart, Optional, "part of the job's name"},
        {"SLURM_PROCID", Rank, Required, "rank of this process"},
        {"SLURM_STEP_NUM_TASKS", Ranks, Required, "number of ranks"},
        {"SLURM_NTASKS", Ranks, Required, "the same, if SLURM_STEP_NUM_TASKS is not set"},
        {"SLURM_LOCALID", LocalRank, Required, "rank among those of this host"},
        {"SLURM_STEP_TASKS_PER_NODE", TasksPerNode, Required, "number of ranks on each host"}}},
  };
  return all;
}

struct Setting {
  const char *name;
  const char *meaning;
  bool isSwitch = false; ///< it is on or off
};

constexpr std::array<Setting, 13> kSettings = {{
    {"BRAID_MEETING", "abstract name of the socket at which the ranks of the job meet"},
    {"TMPDIR", "folder for flight records; /tmp if not set"},
    {"BRAID_RENDEZVOUS",
     "tcp://host:port where host 0 has the hosts' store; otherwise the launcher has one"},
    {"BRAID_PMIX_LIBRARY",
     "file of PMIx, for mpirun and srun on several hosts; otherwise libpmix.so.2 is looked for"},
    {"BRAID_TUNE", "off: on GPUs, multiply by the library's first guess and measure nothing", true},
    {"BRAID_SHARE_GPUS", "on: ranks may share GPUs, for results and not for speed; tunes nothing",
     true},
    {"BRAID_DEVICES",
     "GPUs of the ranks by CUDA's number, in rank order: 3,5,0; each its own if not set"},
    {"BRAID_NCCL_LIBRARY",
     "file of NCCL, for --backend nccl; otherwise libnccl.so.2 is looked for"},
    {"BRAID_SITE_PACKAGES", "folders of Python packages, which may have NCCL"},
    {"BRAID_NVML_LIBRARY",
     "file of NVML, which says what is known of GPUs; otherwise libnvidia-ml.so.1 is looked for"},
    {"BRAID_CACHE_DIR", "folder of what was measured; none: keep none"},
    {"XDG_CACHE_HOME", "folder of the folder braid for that otherwise"},
    {"HOME", "has that in .cache/braid otherwise"},
}};

constexpr size_t kShownOfValue = 60;

Result<int64_t> wholeNumber(const char *name, llvm::StringRef text) {
  int64_t number = 0;
  bool isDigits = !text.empty() && llvm::all_of(text, [](char c) { return llvm::isDigit(c); });
  if (isDigits && !text.getAsInteger(10, number))
    return number;
  return badInput("expected {} to be a whole number{}, got '{}'", name,
                  isDigits ? " of at most 63 bits" : "", printable(text.str(), kShownOfValue));
}

/// SLURM numbers the steps that are not started by srun for their ranks, such as the batch script
/// and the shell of salloc, downwards from the largest 32-bit number.
bool isStepOfRanks(const std::string &step) {
  constexpr int64_t kFirstSpecialStep = 0xfffffff0;
  Result<int64_t> number = wholeNumber("SLURM_STEP_ID", step);
  return !number || *number < kFirstSpecialStep || *number > 0xffffffff;
}

/// Reads what one source says.
class Reader {
public:
  Reader(const Source &source, const Environment &environment)
      : source_(source), environment_(environment) {}

  bool isThere() const;
  bool isOfSrun() const;
  bool counts(const Variable &variable) const {
    return variable.role == Role::JobPart ? environment_(variable.name).has_value()
                                          : first(variable.role) == &variable;
  }
  Result<Place> place(const Launcher &launcher) const;

private:
  using Number = std::optional<int64_t>;
  const Variable *first(Role role) const;
  std::string nameOf(Role role) const;
  Status checkComplete() const;
  Result<Number> number(Role role) const;
  Result<Number> tasksPerNode(int64_t ranks) const;
  Status readLocal(Place &place) const;
  Status readHost(Place &place) const;
  Status readJob(const Launcher &launcher, Place &place) const;
  Status checkIndex(Role index, int64_t indexValue, Role count, int64_t countValue) const;
  Status unevenHosts(const std::string &got) const {
    return unsupported("expected equally many ranks on each host, got {}; {}", got, source_.advice);
  }

  const Source &source_;
  const Environment &environment_;
};

bool Reader::isThere() const {
  return llvm::any_of(source_.variables, [this](const Variable &variable) {
    const std::optional<std::string> value = environment_(variable.name);
    return variable.need == Need::Identifies && value &&
           (variable.name != llvm::StringRef("SLURM_STEP_ID") || isStepOfRanks(*value));
  });
}

/// srun sets PMI's variables beside its own, which also say what is on which host.
bool Reader::isOfSrun() const {
  if (source_.name != llvm::StringRef("PMI") || first(Role::LocalRank) || first(Role::LocalRanks))
    return false;
  const std::optional<std::string> job = environment_("SLURM_JOB_ID");
  const std::optional<std::string> step = environment_("SLURM_STEP_ID");
  return job && step && environment_("PMI_JOBID") == *job + "." + *step;
}

/// The variable of that role that counts, or null if none is set.
const Variable *Reader::first(Role role) const {
  const auto found = llvm::find_if(source_.variables, [&](const Variable &variable) {
    return variable.role == role && environment_(variable.name);
  });
  return found == source_.variables.end() ? nullptr : &*found;
}

/// The variable that was read, or "SLURM_STEP_NUM_TASKS or SLURM_NTASKS": all of that role.
std::string Reader::nameOf(Role role) const {
  if (const Variable *variable = first(role))
    return variable->name;
  std::vector<std::string> names;
  for (const Variable &variable : source_.variables)
    if (variable.role == role)
      names.push_back(variable.name);
  return llvm::join(names, " or ");
}

Status missing(const std::string &names) {
  return badInput("expected {} to be set too, got no such variable", names);
}

Status Reader::checkComplete() const {
  for (const Variable &variable : source_.variables) {
    const bool isPart = variable.role == Role::JobPart;
    const bool isGiven = isPart ? counts(variable) : first(variable.role) != nullptr;
    if (variable.need != Need::Optional && !isGiven)
      return missing(isPart ? variable.name : nameOf(variable.role));
  }
  return Status::ok();
}

Result<std::optional<int64_t>> Reader::number(Role role) const {
  const Variable *variable = first(role);
  if (!variable)
    return Number();
  return Number(BRAID_TRY(wholeNumber(variable->name, *environment_(variable->name))));
}

/// The sum of SLURM's list of ranks by host: "4(x2),3" is two hosts with 4 and one with 3.
struct Tasks {
  int64_t sum = 0, ofFirst = 0;
  bool areAlike = true; ///< each host has equally many
};

/// Nothing if it is not of that form. A sum of more than `most` is some number that is greater.
std::optional<Tasks> parseTasksPerNode(llvm::StringRef text, int64_t most) {
  Tasks all;
  llvm::SmallVector<llvm::StringRef, 4> items;
  text.split(items, ',');
  for (llvm::StringRef item : items) {
    uint32_t tasks = 0, nodes = 1;
    if (item.consumeInteger(10, tasks) || tasks == 0)
      return std::nullopt;
    if (!item.empty() &&
        (!item.consume_front("(x") || item.consumeInteger(10, nodes) || nodes == 0 || item != ")"))
      return std::nullopt;
    all.ofFirst = all.ofFirst == 0 ? tasks : all.ofFirst;
    all.areAlike &= all.ofFirst == tasks;
    const bool isTooMany = all.sum > most || nodes > (most - all.sum) / tasks;
    all.sum = isTooMany ? std::numeric_limits<int64_t>::max() : all.sum + int64_t(tasks) * nodes;
  }
  return all;
}

/// The number of ranks on this host from SLURM's list, if the source has one.
Result<std::optional<int64_t>> Reader::tasksPerNode(int64_t ranks) const {
  const Variable *variable = first(Role::TasksPerNode);
  if (!variable)
    return Number();
  const std::string value = *environment_(variable->name);
  const std::string shown = printable(value, kShownOfValue);
  const std::optional<Tasks> tasks = parseTasksPerNode(value, ranks);
  if (!tasks)
    return badInput("expected {} to be a list like 4(x2),3, got '{}'", variable->name, shown);
  if (tasks->sum != ranks)
    return badInput("expected {} to sum up to {}, got '{}'", variable->name, ranks, shown);
  if (!tasks->areAlike)
    return unevenHosts(shown);
  return Number(tasks->ofFirst);
}

/// The index is one of so many things as `count` says, at least one.
Status Reader::checkIndex(Role index, int64_t indexValue, Role count, int64_t countValue) const {
  if (countValue < 1)
    return badInput("expected {} to be at least 1, got {}", nameOf(count), countValue);
  if (indexValue >= countValue)
    return badInput("expected {} to be less than {} = {}, got {}", nameOf(index), nameOf(count),
                    countValue, indexValue);
  return Status::ok();
}

/// Reads the place of this process among the ranks of its host.
Status Reader::readLocal(Place &place) const {
  const Number rank = BRAID_TRY(number(Role::LocalRank));
  const Number listed = BRAID_TRY(tasksPerNode(place.ranks));
  const Number ranks = listed ? listed : BRAID_TRY(number(Role::LocalRanks));
  place.localRank = rank.value_or(place.rank);
  place.localRanks = ranks.value_or(place.ranks);
  if (!rank && !ranks)
    return Status::ok();
  if (!rank || !ranks)
    return missing(nameOf(rank ? Role::LocalRanks : Role::LocalRank));
  const Role count = listed ? Role::TasksPerNode : Role::LocalRanks;
  BRAID_TRY(checkIndex(Role::LocalRank, *rank, count, *ranks));
  if (*ranks > place.ranks)
    return badInput("expected {} to be at most {} = {}, got {}", nameOf(count), nameOf(Role::Ranks),
                    place.ranks, *ranks);
  return Status::ok();
}

/// Which host this is, of hosts that have equally many ranks each, numbered host by host.
Status Reader::readHost(Place &place) const {
  place.hosts = place.ranks / place.localRanks;
  place.host = place.rank / place.localRanks;
  if (place.ranks % place.localRanks != 0)
    return unevenHosts(fmt::format("{} of {} on this one", place.localRanks, place.ranks));
  if (place.hosts > 1 && place.rank % place.localRanks != place.localRank)
    return unsupported("expected the ranks of a host to be consecutive, got rank {} as number {} "
                       "of {} on its host; {}",
                       place.rank, place.localRank, place.localRanks, source_.advice);
  return Status::ok();
}

/// BRAID_JOB and "default" are the name as they stand. What a launcher says becomes "torchrun
/// MASTER_ADDR=localhost MASTER_PORT=29500", so that jobs of different launchers differ.
Status Reader::readJob(const Launcher &launcher, Place &place) const {
  if (source_.defaultJob) {
    place.job = environment_("BRAID_JOB").value_or(source_.defaultJob);
    place.meeting = environment_("BRAID_MEETING").value_or("");
    return Status::ok();
  }
  place.job = source_.name;
  bool isNamed = false;
  for (const Variable &variable : source_.variables)
    if ((variable.role == Role::Job || variable.role == Role::JobPart) && counts(variable)) {
      place.job += fmt::format(" {}={}", variable.name, *environment_(variable.name));
      isNamed = true;
    }
  if (!source_.isNamedByProcess)
    return Status::ok();
  if (std::optional<std::string> process = launcher(nameOf(Role::Rank)))
    place.job += " launcher=" + *process;
  else if (!isNamed)
    return badInput("expected a launcher that can be told from others, got none in /proc");
  return Status::ok();
}

Result<Place> Reader::place(const Launcher &launcher) const {
  BRAID_TRY(checkComplete());
  Place place;
  place.source = source_.name;
  place.rank = *BRAID_TRY(number(Role::Rank));
  place.ranks = *BRAID_TRY(number(Role::Ranks));
  BRAID_TRY(checkIndex(Role::Rank, place.rank, Role::Ranks, place.ranks));
  BRAID_TRY(readLocal(place));
  BRAID_TRY(readHost(place));
  BRAID_TRY(readJob(launcher, place));
  return place;
}

const Source *chosenSource(const Environment &environment) {
  for (const Source &source : sources())
    if (const Reader reader(source, environment); reader.isThere() && !reader.isOfSrun())
      return &source;
  return nullptr;
}

/// "RANK='3', MASTER_ADDR='a' (torchrun), SLURM_PROCID='0' (SLURM)": all that is set.
std::string found(const Environment &environment) {
  std::string text;
  for (const Source &source : sources()) {
    std::string list;
    for (const Variable &variable : source.variables)
      if (std::optional<std::string> value = environment(variable.name))
        list += fmt::format("{}{}='{}'", list.empty() ? "" : ", ", variable.name,
                            printable(*value, kShownOfValue));
    if (!list.empty())
      text += fmt::format("{}{} ({})", text.empty() ? "" : ", ", list, source.name);
  }
  return text;
}

/// Whether the process was started with the variable set. That of another user was not, as far as
/// can be seen: such is a launcher that runs as root.
bool wasStartedWith(int64_t pid, const std::string &variable) {
  auto text = llvm::MemoryBuffer::getFileAsStream(fmt::format("/proc/{}/environ", pid));
  if (!text)
    return false;
  llvm::SmallVector<llvm::StringRef, 64> entries;
  (*text)->getBuffer().split(entries, '\0');
  return llvm::any_of(entries, [&](llvm::StringRef entry) {
    return entry.consume_front(variable + "=") && !entry.empty();
  });
}

} // namespace

Environment processEnvironment() {
  return [](const std::string &name) -> std::optional<std::string> {
    const char *value = std::getenv(name.c_str());
    return value && *value ? std::optional<std::string>(value) : std::nullopt;
  };
}

std::vector<std::string> processStatus(int64_t pid) {
  auto text = llvm::MemoryBuffer::getFileAsStream(fmt::format("/proc/{}/stat", pid));
  if (!text)
    return {};
  // The second field is the command in parentheses, which may hold blanks and parentheses too.
  std::istringstream rest((*text)->getBuffer().rsplit(')').second.str());
  return {std::istream_iterator<std::string>(rest), {}};
}

std::optional<std::string> launcherProcess(const std::string &rankVariable) {
  constexpr int kMostAncestors = 64;
  int64_t pid = getppid();
  for (int i = 0; i < kMostAncestors && pid > 0; ++i) {
    constexpr size_t kParent = 1, kStartTime = 19; // fields 4 and 22 of proc(5)
    const std::vector<std::string> status = processStatus(pid);
    if (status.size() <= kStartTime)
      return std::nullopt;
    if (!wasStartedWith(pid, rankVariable))
      return fmt::format("{}@{}", pid, status[kStartTime]);
    if (llvm::StringRef(status[kParent]).getAsInteger(10, pid))
      return std::nullopt;
  }
  return std::nullopt;
}

Result<std::optional<Place>> findPlace(const Environment &environment, const Launcher &launcher) {
  const Source *source = chosenSource(environment);
  if (!source)
    return std::optional<Place>();
  Result<Place> place = Reader(*source, environment).place(launcher);
  if (place)
    return std::optional<Place>(std::move(*place));
  Status status = place.status().annotated(source->name);
  if (status.code() != StatusCode::BadInput)
    return status;
  return badInput(
      "{}; found {}; unset what is not meant, or set BRAID_RANK and BRAID_RANKS, which come first",
      status.message(), found(environment));
}

std::string variablesOfPlace(const Environment &environment) {
  std::vector<std::string> names;
  if (const Source *source = chosenSource(environment))
    for (const Variable &variable : source->variables)
      if (variable.need == Need::Identifies && environment(variable.name))
        names.push_back(variable.name);
  return llvm::join(names, ", ");
}

Result<bool> isOn(const Environment &environment, const std::string &name, bool otherwise) {
  const std::optional<std::string> value = environment(name);
  if (!value)
    return otherwise;
  if (*value == "on" || *value == "off")
    return *value == "on";
  return badInput("expected {} to be on or off, got '{}'", name, printable(*value, kShownOfValue));
}

Result<std::vector<int64_t>> devicesOfRanks(const Environment &environment) {
  std::vector<int64_t> devices;
  const std::string text = environment("BRAID_DEVICES").value_or("");
  llvm::SmallVector<llvm::StringRef, 8> parts;
  llvm::StringRef(text).split(parts, ',', -1, /*KeepEmpty=*/!text.empty());
  for (llvm::StringRef part : parts) {
    uint16_t device = 0;
    if (part.getAsInteger(10, device) || llvm::is_contained(devices, device))
      return badInput("expected BRAID_DEVICES to be numbers of GPUs, each once, as in 3,5,0, "
                      "got '{}'",
                      printable(text, kShownOfValue));
    devices.push_back(device);
  }
  return devices;
}

std::optional<TcpAddress> parseTcpAddress(const std::string &whole) {
  llvm::StringRef text = whole;
  if (!text.consume_front("tcp://"))
    return std::nullopt;
  auto [host, port] = text.rsplit(':');
  const bool isBracketed = host.consume_front("[") && host.consume_back("]");
  TcpAddress address;
  constexpr size_t kLongestName = 253; // of DNS
  auto isOfName = [&](char c) {
    return llvm::isAlnum(c) || c == '-' || c == '.' || c == '_' ||
           (isBracketed && (c == ':' || c == '%'));
  };
  if (host.empty() || host.size() > kLongestName || !llvm::all_of(host, isOfName) ||
      !llvm::all_of(port, llvm::isDigit) || port.getAsInteger(10, address.port) ||
      address.port == 0)
    return std::nullopt;
  address.host = host.str();
  return address;
}

Result<std::optional<TcpAddress>> rendezvousAddress(const Environment &environment) {
  const std::optional<std::string> value = environment("BRAID_RENDEZVOUS");
  std::optional<TcpAddress> address = value ? parseTcpAddress(*value) : std::nullopt;
  if (value && !address)
    return badInput("expected BRAID_RENDEZVOUS to be tcp://host:port, as in tcp://node1:29500 or "
                    "tcp://[fe80::1]:29500, got '{}'",
                    printable(*value, kShownOfValue));
  return address;
}

Status checkSettings(const Environment &environment) {
  BRAID_TRY(devicesOfRanks(environment));
  BRAID_TRY(rendezvousAddress(environment));
  for (const Setting &setting : kSettings)
    if (setting.isSwitch)
      if (Result<bool> value = isOn(environment, setting.name, false); !value)
        return value.status();
  return Status::ok();
}

std::vector<VariableReport> reportVariables(const Environment &environment) {
  std::vector<VariableReport> reports;
  const Source *chosen = chosenSource(environment);
  for (const Source &source : sources())
    for (const Variable &variable : source.variables)
      reports.push_back({variable.name, source.name, variable.meaning, environment(variable.name),
                         &source == chosen && Reader(source, environment).counts(variable)});
  for (const Setting &setting : kSettings) {
    std::optional<std::string> value = environment(setting.name);
    reports.push_back({setting.name, "braid", setting.meaning, value, value.has_value()});
  }
  return reports;
}

} // namespace braid
