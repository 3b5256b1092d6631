//===- tests/processes/fault_job.cpp - jobs of real processes that fail -----------------------===//

#include "tests/processes/fault_job.h"

#include "api/autotune/choose.h"
#include "api/compile/plans.h"
#include "api/launch/children.h"
#include "api/launch/job_rank.h"
#include "api/launch/launch.h"
#include "api/ranks/run.h"
#include "ir/failure.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <set>
#include <sstream>
#include <thread>

#include <fcntl.h>
#include <poll.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

namespace braid::test {

namespace fs = std::filesystem;
using std::chrono::milliseconds;

namespace {

constexpr const char *kFolderVariable = "BRAID_TEST_JOB";
/// The limit for a whole job, far longer than any job needs.
constexpr milliseconds kJobLimit{60000};

// -- Files in the job's folder, through which the processes communicate. --

void writeFile(const fs::path &path, const std::string &text) {
  const fs::path unfinished = path.string() + ".part";
  std::ofstream(unfinished) << text;
  fs::rename(unfinished, path);
}

std::string readFile(const fs::path &path) {
  // If a process ends, its file in /proc may vanish at any time. An ifstream does not throw in that
  // case.
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::string encode(const JobSpec &spec) {
  std::ostringstream os;
  os << spec.ranks << ' ' << spec.schedule << ' ' << spec.iterations << ' ' << spec.timeoutMs << ' '
     << spec.joinTimeoutMs << ' ' << spec.graceMs << ' ' << spec.isForeign << ' ' << spec.timesBest
     << ' ' << spec.isRejected << ' ' << spec.faults.size() << '\n';
  for (const Fault &fault : spec.faults)
    os << fault;
  return os.str();
}

JobSpec decodeSpec(const std::string &text) {
  std::istringstream is(text);
  JobSpec spec;
  size_t faults = 0;
  is >> spec.ranks >> spec.schedule >> spec.iterations >> spec.timeoutMs >> spec.joinTimeoutMs >>
      spec.graceMs >> spec.isForeign >> spec.timesBest >> spec.isRejected >> faults;
  spec.faults.resize(faults);
  for (Fault &fault : spec.faults)
    is >> fault;
  return spec;
}

fs::path verdictPath(const fs::path &folder, int64_t rank) {
  return folder / fmt::format("verdict{}", rank);
}

/// Returns true if `pid` is a live process of this job. A process of another job may have reused
/// the id.
bool isAlive(const std::string &pid, const fs::path &folder) {
  const std::string environment = readFile(fs::path("/proc") / pid / "environ");
  return !pid.empty() && environment.find(folder.string()) != std::string::npos;
}

std::vector<int64_t> aliveRanks(const fs::path &folder, int64_t ranks) {
  std::vector<int64_t> alive;
  for (int64_t rank = 0; rank < ranks; ++rank)
    if (isAlive(readFile(folder / fmt::format("pid{}", rank)), folder))
      alive.push_back(rank);
  return alive;
}

// -- A rank. --

class RankRole {
public:
  RankRole(fs::path folder, JobSpec spec, braid::Place place)
      : folder_(std::move(folder)), spec_(std::move(spec)), place_(std::move(place)) {}

  int play() {
    writeFile(folder_ / fmt::format("pid{}", place_.rank), std::to_string(getpid()));
    arm(spec_.faults, place_.rank, [this] { noteStrike(); });
    Status status;
    try {
      status = live();
      pass(Site::Left);
    } catch (const std::exception &error) {
      status =
          Status(StatusCode::PeerFailed, fmt::format("rank {}: {}", place_.rank, error.what()));
      if (job_ && job_->rank->memory().committed() > 0)
        return 5; // the run is committed, so the job has succeeded
      if (job_ || rank_)
        status = job_ ? job_->fail(status) : rank_->fail(status);
    }
    try {
      job_.reset();
      rank_.reset();
    } catch (...) {
    }
    writeFile(verdictPath(folder_, place_.rank),
              fmt::format("{} {} {} {}. {}.\n{}", static_cast<int>(status.code()), monotonicNs(),
                          elementsCompared_, sentKinds(), receivedKinds(), status.message()));
    return static_cast<int>(status.code());
  }

private:
  /// Does what `braid run` does.
  Status live() {
    pass(Site::Join);
    rank_ = BRAID_TRY(JobRank::join(place_, milliseconds(spec_.joinTimeoutMs)));
    pass(Site::Joined);
    program_ = makeProgram(spec_);
    const RunOptions options{
        .iterations = spec_.iterations,
        .verify = true,
        .cluster = {.ranks = place_.ranks, .timeout = milliseconds(spec_.timeoutMs)},
        .isAuto = spec_.timesBest >= 0};
    job_ = BRAID_TRY(JobState::join(faultyBackend(), options.cluster, std::move(rank_)));
    Result<RunReport> report = run(options);
    if (!report)
      return job_->fail(report.status());
    elementsCompared_ = report->elementsCompared;
    return Status::ok();
  }

  Result<RunReport> run(const RunOptions &options) {
    BRAID_TRY(compareOptions(*job_, program_.compiled, options));
    if (options.isAuto)
      BRAID_TRY(choose());
    return braid::run(*job_, program_.compiled, std::move(program_.plans), options);
  }

  /// Chooses a schedule as `braid run --schedule auto` does.
  Status choose() {
    ChooseOptions how = chooseOptions(job_->backend, /*ranksAreProcesses=*/true);
    how.cacheFolder = "";
    how.timed = spec_.timesBest;
    const auto chosen = BRAID_TRY(job_->choose(program_.source->diags, how));
    JobSpec spec = spec_;
    spec.schedule = chosen->schedule.str();
    program_ = makeProgram(spec);
    if (place_.rank != 0)
      return Status::ok();
    job_->rank->memory().publishChoice(spec.schedule);
    return spec_.isRejected ? Status(StatusCode::Rejected, "not this one") : Status::ok();
  }

  /// Records the time of the first fault. A fault that strikes concurrently waits until the time
  /// has been recorded.
  void noteStrike() {
    std::call_once(hasStruck_, [this] {
      writeFile(folder_ / fmt::format("struck{}", place_.rank), std::to_string(monotonicNs()));
    });
  }

  const fs::path folder_;
  const JobSpec spec_;
  const braid::Place place_;
  FaultyProgram program_;
  std::once_flag hasStruck_;
  std::unique_ptr<JobRank> rank_; ///< moved into job_ on joining
  std::unique_ptr<JobState> job_;
  int64_t elementsCompared_ = 0;
};

// -- A launcher. --

std::vector<std::string> openFiles() {
  std::vector<std::string> files;
  for (const auto &entry : fs::directory_iterator("/proc/self/fd")) {
    std::error_code gone; // the directory's own entry may be gone
    files.push_back(fs::read_symlink(entry, gone).string());
  }
  return files;
}

/// Lists the resources of an ended job that this process still holds.
std::string remains(const std::vector<std::string> &before) {
  std::string text;
  if (std::vector<std::string> after = openFiles(); after.size() != before.size())
    text += fmt::format("open files of the launcher: {}\n", fmt::join(after, ", "));
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);)
    if (line.find("memfd:braid") != std::string::npos)
      text += fmt::format("shared memory of the launcher: {}\n", line);
  return text;
}

int playLauncher(const fs::path &folder, const JobSpec &spec) {
  const std::vector<std::string> before = openFiles();
  FaultyProgram program = makeProgram(spec);
  std::string said; // all reported failures
  auto onFailure = [&](const Status &cause) {
    said += fmt::format("{}\n{}", aliveRanks(folder, spec.ranks).size(), cause.message());
    writeFile(folder / "said", said);
  };
  LaunchOptions options;
  options.ranks = spec.ranks;
  options.arguments = {"rank"};
  options.timeout = milliseconds(spec.joinTimeoutMs);
  options.grace = milliseconds(spec.graceMs);
  options.teardown = milliseconds(std::min<int64_t>(spec.timeoutMs + 1500, 5000));
  options.plans = [&](const JobMemory &) { return llvm::makeArrayRef(program.plans); };
  options.onFailure = onFailure;
  Result<LaunchReport> report = launch(options);
  std::string text = fmt::format("70 -1 0\n{}", report.status().message());
  if (report) {
    std::optional<JobCause> cause = report->memory->cause();
    text = fmt::format("{} {} {}\n{}", static_cast<int>(report->status.code()),
                       report->status.isOk() || !cause ? -1 : cause->rank,
                       report->memory->committed(), report->status.message());
    writeFile(folder / "endings", fmt::format("{}\n", fmt::join(report->endings, "\n")));
    report->memory.reset();
  }
  writeFile(folder / "remains", remains(before));
  writeFile(folder / "report", text);
  return report ? static_cast<int>(report->status.code()) : 70;
}

/// Acts as a launcher other than Braid's: starts the ranks, waits until all have ended or been
/// stopped, and kills those that remain.
int playForeignLauncher(const fs::path &folder, const JobSpec &spec) {
  Children children(spec.ranks);
  const std::string job = fmt::format("test-{}", getpid());
  for (int64_t rank = 0; rank < spec.ranks; ++rank)
    if (Status status =
            children.start(rank, {.arguments = {"rank"},
                                  .environment = {{"BRAID_RANK", std::to_string(rank)},
                                                  {"BRAID_RANKS", std::to_string(spec.ranks)},
                                                  {"BRAID_JOB", job},
                                                  {"OPENBLAS_NUM_THREADS", "1"}}});
        !status.isOk())
      return 70;
  const Deadline end = deadlineIn(milliseconds(2 * spec.timeoutMs + 8000));
  auto isAlive = [&](int64_t rank) { return !children.ending(rank); };
  auto isStopped = [&](int64_t rank) {
    const std::string pid = readFile(folder / fmt::format("pid{}", rank));
    const std::string stat = readFile(fs::path("/proc") / pid / "stat");
    return stat.find(") T ") != std::string::npos;
  };
  auto isAnyoneBusy = [&] {
    for (int64_t rank = 0; rank < spec.ranks; ++rank)
      if (isAlive(rank) && !isStopped(rank))
        return true;
    return false;
  };
  while (isAnyoneBusy() && std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(milliseconds(10));
  }
  children.killAll(SIGKILL);
  while (children.isAnyAlive())
    std::this_thread::sleep_for(milliseconds(1));
  std::string endings;
  for (int64_t rank = 0; rank < spec.ranks; ++rank)
    endings += fmt::format("rank {}: {}\n", rank, braid::str(*children.ending(rank)));
  writeFile(folder / "endings", endings);
  return 0;
}

// -- The test process. --

fs::path makeFolder() {
  std::string name = "/tmp/braid-fault-XXXXXX";
  if (!mkdtemp(name.data()))
    throw std::runtime_error("no temporary folder");
  fs::create_directory(name + "/m"); // for temporary files
  fs::permissions(name + "/m", fs::perms::owner_all);
  return name;
}

/// Starts this program as the launcher of the job in `folder`.
pid_t startLauncher(const fs::path &folder) {
  std::vector<std::string> texts;
  for (char **entry = environ; *entry; ++entry)
    if (!std::string_view(*entry).starts_with("BRAID_"))
      texts.push_back(*entry);
  texts.push_back(fmt::format("TMPDIR={}", (folder / "m").string()));
  texts.push_back(fmt::format("{}={}", kFolderVariable, folder.string()));
  std::vector<char *> environment;
  for (std::string &text : texts)
    environment.push_back(text.data());
  environment.push_back(nullptr);
  const std::string output = folder / "output";
  char argument[] = "launcher";
  char *const arguments[] = {argument, nullptr};
  const pid_t pid = fork();
  if (pid != 0)
    return pid;
  int file = open(output.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
  dup2(file, 1);
  dup2(file, 2);
  if (file > 2)
    ::close(file);
  execve("/proc/self/exe", arguments, environment.data());
  _exit(127);
}

/// Waits for the process to end. Kills it after `limit` and returns false.
bool waitForEnd(pid_t pid, milliseconds limit) {
  FileDescriptor handle(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
  pollfd entry{handle.get(), POLLIN, 0};
  const bool hasEnded = poll(&entry, 1, static_cast<int>(limit.count())) > 0;
  if (!hasEnded)
    ::kill(pid, SIGKILL);
  while (waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
  }
  return hasEnded;
}

void readVerdicts(const fs::path &folder, JobOutcome &outcome) {
  for (size_t rank = 0; rank < outcome.ranks.size(); ++rank) {
    Verdict &verdict = outcome.ranks[rank];
    const fs::path path = verdictPath(folder, static_cast<int64_t>(rank));
    verdict.isThere = fs::exists(path);
    std::ifstream file(path);
    file >> verdict.code >> verdict.endNs >> verdict.elementsCompared >> verdict.sent >>
        verdict.received;
    file.ignore();
    verdict.message.assign(std::istreambuf_iterator<char>(file), {});
    uint64_t struck = 0;
    std::ifstream(folder / fmt::format("struck{}", rank)) >> struck;
    if (struck != 0 && (outcome.struckNs == 0 || struck < outcome.struckNs))
      outcome.struckNs = struck;
  }
  std::ifstream endings(folder / "endings");
  for (std::string line; std::getline(endings, line);)
    for (size_t rank = 0; rank < outcome.ranks.size(); ++rank)
      if (std::string prefix = fmt::format("rank {}: ", rank); line.starts_with(prefix))
        outcome.ranks[rank].ending = line.substr(prefix.size());
}

void readReport(const fs::path &folder, JobOutcome &outcome) {
  std::ifstream file(folder / "report");
  file >> outcome.code >> outcome.causeRank >> outcome.committed;
  file.ignore();
  outcome.message.assign(std::istreambuf_iterator<char>(file), {});
  std::ifstream said(folder / "said");
  if (!(said >> outcome.aliveWhenSaid))
    return;
  said.ignore();
  outcome.saidFailure.assign(std::istreambuf_iterator<char>(said), {});
}

void findLeftovers(const fs::path &folder, const JobSpec &spec, JobOutcome &outcome) {
  for (int64_t rank : aliveRanks(folder, spec.ranks))
    outcome.leftovers.push_back(fmt::format("the process of rank {}", rank));
  for (const auto &entry : fs::recursive_directory_iterator(folder / "m"))
    outcome.leftovers.push_back(entry.path().string());
  if (std::string text = readFile(folder / "remains"); !text.empty())
    outcome.leftovers.push_back(text);
}

} // namespace

std::string str(const JobSpec &spec) {
  std::string text = fmt::format("{} ranks, {}{}", spec.ranks, spec.schedule,
                                 spec.isForeign ? ", rank 0 hosts" : "");
  for (const Fault &fault : spec.faults)
    text += "; " + str(fault);
  return text;
}

FaultyProgram makeProgram(const JobSpec &spec) {
  FaultyProgram made;
  made.source = parseSource("ag.braid", R"(
fusion @ag(D = 4) {
  mesh [0 .. D)
  %A = input f32[DIDx{D}, 8, 16]
  %B = input f32[16, 8]
  %C = matmul %A, %B : f32[Stream{D}, 8, 8]
  output %C
})");
  CompileOptions options;
  options.ranks = spec.ranks;
  options.schedule = *Configurations::parse(spec.schedule);
  Result<Compiled> compiled = compile(*made.source, options);
  if (!compiled)
    throw std::runtime_error(made.source->diags.str());
  made.compiled = *compiled;
  Result<std::vector<Plan>> plans = makePlans(made.compiled);
  if (!plans)
    throw std::runtime_error(made.source->diags.str());
  made.plans = std::move(*plans);
  return made;
}

std::optional<int> playRole() {
  const char *variable = getenv(kFolderVariable);
  if (!variable)
    return std::nullopt;
  const fs::path folder = variable;
  const JobSpec spec = decodeSpec(readFile(folder / "spec"));
  Result<std::optional<braid::Place>> place = findPlace(processEnvironment());
  if (place && *place)
    return RankRole(folder, spec, **place).play();
  return spec.isForeign ? playForeignLauncher(folder, spec) : playLauncher(folder, spec);
}

JobOutcome runJob(const JobSpec &spec) {
  const fs::path folder = makeFolder();
  writeFile(folder / "spec", encode(spec));
  JobOutcome outcome;
  outcome.ranks.resize(static_cast<size_t>(spec.ranks));
  const auto begin = std::chrono::steady_clock::now();
  if (!waitForEnd(startLauncher(folder), kJobLimit))
    outcome.leftovers.push_back("the launcher did not end");
  outcome.elapsedMs =
      std::chrono::duration_cast<milliseconds>(std::chrono::steady_clock::now() - begin).count();
  readVerdicts(folder, outcome);
  readReport(folder, outcome);
  findLeftovers(folder, spec, outcome);
  outcome.output = readFile(folder / "output");
  fs::remove_all(folder);
  return outcome;
}

size_t runJobs(const std::vector<JobSpec> &specs, size_t atOnce, Deadline until,
               const std::function<void(const JobSpec &, const JobOutcome &)> &onEnd) {
  std::atomic<size_t> next{0}, done{0};
  std::mutex mutex;
  auto work = [&] {
    while (std::chrono::steady_clock::now() < until) {
      const size_t index = next.fetch_add(1);
      if (index >= specs.size())
        return;
      JobOutcome outcome = runJob(specs[index]);
      std::lock_guard lock(mutex);
      onEnd(specs[index], outcome);
      done.fetch_add(1);
    }
  };
  std::vector<std::thread> threads;
  for (size_t i = 0; i < atOnce; ++i)
    threads.emplace_back(work);
  for (std::thread &thread : threads)
    thread.join();
  return done.load();
}

int64_t JobOutcome::slowestSurvivorMs() const {
  int64_t slowest = 0;
  for (const Verdict &verdict : ranks)
    if (verdict.isThere && hasStruck() && verdict.endNs > struckNs)
      slowest = std::max(slowest, static_cast<int64_t>((verdict.endNs - struckNs) / 1000000));
  return slowest;
}

std::string JobOutcome::str() const {
  std::string text =
      fmt::format("launcher: {}, rank {}, {} committed: {}\n", code, causeRank, committed, message);
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    const Verdict &verdict = ranks[rank];
    text += fmt::format("rank {}: {} {} {} {} [{}] {}\n", rank,
                        verdict.isThere ? std::to_string(verdict.code) : "says nothing",
                        verdict.message, verdict.sent, verdict.received, verdict.ending,
                        verdict.elementsCompared);
  }
  return text + fmt::format("after {} ms, struck: {}\n{}", elapsedMs, hasStruck(), output);
}

namespace {

/// Returns true if a fault may prevent the rank from reporting.
bool mayBeSilent(const JobSpec &spec, size_t rank) {
  for (const Fault &fault : spec.faults)
    if (fault.rank == static_cast<int64_t>(rank))
      return true;
  return false;
}

} // namespace

std::vector<std::string> contradictions(const JobSpec &spec, const JobOutcome &outcome) {
  std::vector<std::string> found = outcome.leftovers;
  std::optional<size_t> first;
  const int64_t elements = spec.ranks * spec.ranks * 8 * 8 * spec.iterations;
  for (size_t rank = 0; rank < outcome.ranks.size(); ++rank) {
    const Verdict &verdict = outcome.ranks[rank];
    if (!verdict.isThere) {
      if (!mayBeSilent(spec, rank))
        found.push_back(fmt::format("rank {} says nothing", rank));
      continue;
    }
    // A process that the host has not accepted is not a rank of the job and does not know its
    // outcome.
    if (verdict.received == "." && verdict.code != 0 && (spec.isForeign || mayBeSilent(spec, rank)))
      continue;
    if (!first)
      first = rank;
    const Verdict &other = outcome.ranks[*first];
    if (verdict.code != other.code || verdict.message != other.message)
      found.push_back(fmt::format("ranks {} and {} do not say the same", *first, rank));
    const std::set<int> expected = spec.isRejected ? std::set{3} : std::set{0, 5, 6};
    if (!expected.count(verdict.code))
      found.push_back(fmt::format("rank {} ended with {}", rank, verdict.code));
    if (verdict.code == 0 && verdict.elementsCompared != elements)
      found.push_back(fmt::format("rank {} compared {} elements instead of {}", rank,
                                  verdict.elementsCompared, elements));
  }
  if (!spec.isForeign && outcome.saidFailure != (outcome.code == 0 ? "" : outcome.message))
    found.push_back(fmt::format("the launcher said '{}' first", outcome.saidFailure));
  if (spec.isForeign || !first)
    return found;
  const Verdict &verdict = outcome.ranks[*first];
  if (verdict.code != outcome.code || verdict.message != outcome.message)
    found.push_back("the launcher does not say what the ranks say");
  if ((outcome.code == 0) != (outcome.committed > 0))
    found.push_back(fmt::format("{} steps are committed", outcome.committed));
  return found;
}

} // namespace braid::test
