//===- runtime/job/bootstrap/environment.cpp - finds this process's rank in its job -----------===//

#include "runtime/job/bootstrap/environment.h"

#include "ir/failure.h"
#include "ir/printable.h"

#include "llvm/ADT/StringExtras.h"

#include <fmt/format.h>

#include <cstdlib>

namespace braid {
namespace {

/// The meaning of a launcher's variable.
enum Role { Rank, RankCount, LocalRank, LocalRankCount, Job, kRoles };
constexpr const char *kMeanings[kRoles] = {
    "rank of this process", "number of ranks", "rank of this process on its host",
    "number of ranks on this host", "name of the job, or part of it"};

struct Launcher {
  const char *source;
  /// The names of the variables for each role, separated by spaces. The first one that is set is
  /// used, but all variables for Job that are set become part of the job's name.
  const char *names[kRoles];
  bool saysLocalRank; ///< whether the launcher always sets LocalRank
  const char *advice; ///< shown if ranks are not distributed evenly, host by host
};

constexpr Launcher kLaunchers[] = {
    {"BRAID_*",
     {"BRAID_RANK", "BRAID_RANKS", "BRAID_LOCAL_RANK", "BRAID_LOCAL_RANKS", "BRAID_JOB"},
     false,
     "number the ranks host by host: BRAID_RANK = host * BRAID_LOCAL_RANKS + BRAID_LOCAL_RANK"},
    {"torchrun",
     {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE",
      "MASTER_ADDR MASTER_PORT TORCHELASTIC_RUN_ID TORCHELASTIC_RESTART_COUNT"},
     true,
     "use the same --nproc-per-node on each host"},
    {"Open MPI",
     {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
      "OMPI_COMM_WORLD_LOCAL_SIZE", "PMIX_NAMESPACE"},
     true,
     "use mpirun --map-by slot, with the same number of slots on each host"},
    {"PMI",
     {"PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID PMI_LOCAL_RANK", "MPI_LOCALNRANKS PMI_LOCAL_SIZE",
      "PMI_JOBID"},
     false,
     "use mpiexec -ppn N, with N ranks on each host"},
    {"SLURM",
     {"SLURM_PROCID", "SLURM_STEP_NUM_TASKS SLURM_NTASKS", "SLURM_LOCALID",
      "SLURM_STEP_TASKS_PER_NODE", "SLURM_STEP_ID SLURM_JOB_ID SLURM_RESTART_COUNT"},
     true,
     "use srun --distribution=block --ntasks-per-node=N"},
};

struct Setting {
  const char *name;
  const char *meaning;
  bool isSwitch = false; ///< the value must be on or off
};

constexpr Setting kSettings[] = {
    {"BRAID_MEETING", "abstract name of the socket through which the ranks of the job connect"},
    {"TMPDIR", "folder for flight records; /tmp if not set"},
    {"BRAID_RENDEZVOUS",
     "tcp://host:port of the store on host 0; if not set, the launcher's store is used"},
    {"BRAID_PMIX_LIBRARY",
     "path of the PMIx library, for mpirun and srun on several hosts; libpmix.so.2 if not set"},
    {"BRAID_TUNE",
     "off: on GPUs, use cuBLASLt's first suggestion for each GEMM instead of measuring algorithms",
     true},
    {"BRAID_SHARE_GPUS",
     "on: let ranks share GPUs, to test correctness but not performance; GEMMs are not tuned",
     true},
    {"BRAID_DEVICES", "CUDA device numbers of the ranks' GPUs in rank order, such as 3,5,0; one "
                      "GPU per rank if not set"},
    {"BRAID_NCCL_LIBRARY", "path of the NCCL library, for --backend nccl; libnccl.so.2 if not set"},
    {"BRAID_SITE_PACKAGES", "Python package folders to search for NCCL"},
    {"BRAID_NVML_LIBRARY",
     "path of the NVML library, which is used to query GPUs; libnvidia-ml.so.1 if not set"},
    {"BRAID_CACHE_DIR", "folder for cached measurements; none: do not cache them"},
    {"XDG_CACHE_HOME",
     "measurements are cached in $XDG_CACHE_HOME/braid if BRAID_CACHE_DIR is not set"},
    {"HOME", "measurements are cached in $HOME/.cache/braid if neither BRAID_CACHE_DIR nor "
             "XDG_CACHE_HOME is set"},
};

constexpr size_t kShownOfValue = 60;

std::vector<std::string> namesFor(Role role, const Launcher &launcher) {
  std::vector<std::string> names;
  for (llvm::StringRef name : llvm::split(launcher.names[role], " "))
    names.push_back(name.str());
  return names;
}

/// Returns the variable that is used for a role, or nullopt if none is set.
std::optional<std::string> firstSet(Role role, const Launcher &launcher,
                                    const Environment &environment) {
  for (const std::string &name : namesFor(role, launcher))
    if (environment(name))
      return name;
  return std::nullopt;
}

/// Returns true if srun started this step. SLURM numbers other steps, such as the batch script and
/// salloc's shell, downwards from the largest 32-bit number.
bool isStepOfSrun(const Environment &environment) {
  constexpr int64_t kFirstSpecialStep = 0xfffffff0;
  const std::optional<std::string> step = environment("SLURM_STEP_ID");
  int64_t number = 0;
  return step && (llvm::StringRef(*step).getAsInteger(10, number) || number < kFirstSpecialStep ||
                  number > 0xffffffff);
}

/// Returns the variables that identify this process as a rank started by the launcher `of`.
std::vector<std::string> identifying(const Launcher &of, const Environment &environment) {
  if (of.source == llvm::StringRef("SLURM"))
    return isStepOfSrun(environment) ? std::vector<std::string>{"SLURM_STEP_ID"}
                                     : std::vector<std::string>();
  // srun sets PMI's variables in addition to SLURM's, and only SLURM's assign ranks to hosts.
  std::vector<std::string> found;
  const bool isOfSrun = of.source == llvm::StringRef("PMI") && isStepOfSrun(environment) &&
                        !firstSet(LocalRank, of, environment);
  for (Role role : {Rank, RankCount})
    if (const auto name = firstSet(role, of, environment); name && !isOfSrun)
      found.push_back(*name);
  return found;
}

/// Returns the launcher whose variables are used, or null if there is none.
const Launcher *chosenLauncher(const Environment &environment) {
  const auto *found = llvm::find_if(kLaunchers, [&](const Launcher &launcher) {
    return !identifying(launcher, environment).empty();
  });
  return found == std::end(kLaunchers) ? nullptr : found;
}

class Reader {
public:
  Reader(const Launcher &launcher, const Environment &environment)
      : launcher_(launcher), environment_(environment) {}

  Result<Place> place() const {
    for (Role role : {Rank, RankCount})
      if (!firstSet(role, launcher_, environment_))
        return missing(role);
    Place place;
    place.source = launcher_.source;
    place.ranks = *BRAID_TRY(number(RankCount));
    place.rank = BRAID_TRY(index(Rank, RankCount, place.ranks));
    BRAID_TRY(readHost(place));
    BRAID_TRY(readJob(place));
    return place;
  }

private:
  using Number = std::optional<int64_t>;

  Status missing(Role role) const {
    return badInput("expected {} to be set as well", nameOf(role));
  }
  Status unevenHosts(const std::string &got) const {
    return unsupported("expected the same number of ranks on each host, got {}; {}", got,
                       launcher_.advice);
  }

  /// Returns the variable that is set, or all candidates: "SLURM_STEP_NUM_TASKS or SLURM_NTASKS".
  std::string nameOf(Role role) const {
    return firstSet(role, launcher_, environment_)
        .value_or(llvm::join(namesFor(role, launcher_), " or "));
  }

  /// Reads an integer, or SLURM's list of ranks per host if all entries are equal, as in "4(x2)".
  Result<Number> number(Role role) const {
    const std::optional<std::string> name = firstSet(role, launcher_, environment_);
    if (!name)
      return Number();
    const std::string value = *environment_(*name);
    const std::string shown = printable(value, kShownOfValue);
    const bool isList = *name == "SLURM_STEP_TASKS_PER_NODE";
    llvm::StringRef digits = value;
    if (isList && digits.contains(','))
      return unevenHosts(shown);
    if (isList && digits.consume_back(")"))
      digits = digits.split("(x").first;
    int64_t number = 0;
    if (digits.empty() || !llvm::all_of(digits, llvm::isDigit))
      return badInput("expected {} to be a whole number{}, got '{}'", *name,
                      isList ? " or a list like 4(x2)" : "", shown);
    if (digits.getAsInteger(10, number))
      return badInput("expected {} to be a 63-bit non-negative integer, got '{}'", *name, shown);
    return Number(number);
  }

  /// Reads an index, which must be less than `count`; `count` must be at least 1.
  Result<int64_t> index(Role role, Role countRole, int64_t count) const {
    const int64_t index = *BRAID_TRY(number(role));
    if (count < 1)
      return badInput("expected {} to be at least 1, got {}", nameOf(countRole), count);
    if (index >= count)
      return badInput("expected {} to be less than {} = {}, got {}", nameOf(role),
                      nameOf(countRole), count, index);
    return index;
  }

  /// Reads the local rank and the host's index. All hosts must have the same number of ranks, and
  /// ranks must be numbered host by host.
  Status readHost(Place &place) const {
    const Number rank = BRAID_TRY(number(LocalRank)), ranks = BRAID_TRY(number(LocalRankCount));
    if (rank.has_value() != ranks.has_value() || (launcher_.saysLocalRank && !rank))
      return missing(rank ? LocalRankCount : LocalRank);
    place.localRanks = ranks.value_or(place.ranks);
    place.localRank =
        rank ? BRAID_TRY(index(LocalRank, LocalRankCount, place.localRanks)) : place.rank;
    if (place.localRanks > place.ranks)
      return badInput("expected {} to be at most {} = {}, got {}", nameOf(LocalRankCount),
                      nameOf(RankCount), place.ranks, place.localRanks);
    if (place.ranks % place.localRanks != 0)
      return unevenHosts(fmt::format("{} of {} on this host", place.localRanks, place.ranks));
    place.hosts = place.ranks / place.localRanks;
    place.host = place.rank / place.localRanks;
    if (place.hosts > 1 && place.rank % place.localRanks != place.localRank)
      return unsupported(
          "expected the ranks of a host to be consecutive, got rank {} as local rank {} of {}; {}",
          place.rank, place.localRank, place.localRanks, launcher_.advice);
    return Status::ok();
  }

  /// Sets the job's name: BRAID_JOB or "default", or the launcher's variables joined, as in
  /// "torchrun MASTER_ADDR=localhost MASTER_PORT=29500", so that names of different launchers' jobs
  /// differ. PMI_JOBID may be missing or belong to an outer job, so users may add BRAID_JOB.
  Status readJob(Place &place) const {
    const std::optional<std::string> ours = environment_("BRAID_JOB");
    if (place.source == "BRAID_*") {
      place.job = ours.value_or("default");
      place.meeting = environment_("BRAID_MEETING").value_or("");
      return Status::ok();
    }
    place.job = place.source;
    for (const std::string &name : namesFor(Job, launcher_))
      if (const auto value = environment_(name))
        place.job += fmt::format(" {}={}", name, *value);
    if (place.source == "PMI")
      place.job += ours ? " BRAID_JOB=" + *ours : "";
    else if (!firstSet(Job, launcher_, environment_))
      return missing(Job);
    return Status::ok();
  }

  const Launcher &launcher_;
  const Environment &environment_;
};

/// Lists all variables that are set, by launcher, for example "RANK='3', MASTER_ADDR='a'
/// (torchrun), SLURM_PROCID='0' (SLURM)".
std::string found(const Environment &environment) {
  std::string text, source;
  for (const VariableReport &each : reportVariables(environment)) {
    if (!each.value || each.source == "braid")
      continue;
    if (each.source != source)
      text += source.empty() ? "" : fmt::format(" ({})", source);
    source = each.source;
    text += fmt::format("{}{}='{}'", text.empty() ? "" : ", ", each.name,
                        printable(*each.value, kShownOfValue));
  }
  return text + fmt::format(" ({})", source);
}

} // namespace

Environment processEnvironment() {
  return [](const std::string &name) -> std::optional<std::string> {
    const char *value = std::getenv(name.c_str());
    return value && *value ? std::optional<std::string>(value) : std::nullopt;
  };
}

Result<std::optional<Place>> findPlace(const Environment &environment) {
  const Launcher *chosen = chosenLauncher(environment);
  if (!chosen)
    return std::optional<Place>();
  Result<Place> place = Reader(*chosen, environment).place();
  if (place)
    return std::optional<Place>(std::move(*place));
  Status status = place.status().annotated(chosen->source);
  if (status.code() != StatusCode::BadInput)
    return status;
  return badInput("{}; found {}; unset the variables that do not apply, or set BRAID_RANK and "
                  "BRAID_RANKS, which take precedence",
                  status.message(), found(environment));
}

std::string variablesOfPlace(const Environment &environment) {
  const Launcher *chosen = chosenLauncher(environment);
  return chosen ? llvm::join(identifying(*chosen, environment), ", ") : "";
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
      return badInput("expected BRAID_DEVICES to be distinct GPU numbers, such as 3,5,0, got '{}'",
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
  if (host.empty() || (!isBracketed && host.contains(':')) || !llvm::all_of(port, llvm::isDigit) ||
      port.getAsInteger(10, address.port) || address.port == 0)
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
      BRAID_TRY(isOn(environment, setting.name, false));
  return Status::ok();
}

std::vector<VariableReport> reportVariables(const Environment &environment) {
  std::vector<VariableReport> reports;
  const Launcher *chosen = chosenLauncher(environment);
  for (const Launcher &launcher : kLaunchers)
    for (int role = 0; role < kRoles; ++role)
      for (const std::string &name : namesFor(Role(role), launcher)) {
        const auto value = environment(name);
        const bool counts =
            role == Job ? value.has_value() : firstSet(Role(role), launcher, environment) == name;
        reports.push_back(
            {name, launcher.source, kMeanings[role], value, &launcher == chosen && counts});
      }
  for (const Setting &setting : kSettings) {
    std::optional<std::string> value = environment(setting.name);
    reports.push_back({setting.name, "braid", setting.meaning, value, value.has_value()});
  }
  return reports;
}

} // namespace braid
