//===- api/launch/launch.cpp - starts the ranks of a job and waits for them to end ------------===//

#include "api/launch/launch.h"

#include "api/launch/children.h"
#include "api/launch/output_relay.h"
#include "api/launch/signals.h"
#include "ir/failure.h"
#include "runtime/files.h"
#include "runtime/job/bootstrap/rendezvous.h"
#include "runtime/job/job_view.h"

#include "llvm/ADT/STLExtras.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <thread>

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

namespace braid {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

/// The interval between the launcher's checks of the ranks.
constexpr milliseconds kSlice{10};
/// The minimum time that rank 0 has to print its results after a committed run.
constexpr milliseconds kTeardownOfRank0{10000};

Status lacking(const char *what) {
  return unsupported("cannot {} for the ranks of a job: {}", what, std::strerror(errno));
}

Status makeRoomForDescriptors(int64_t ranks) {
  const rlim_t needed = static_cast<rlim_t>(openFilesFor(ranks));
  rlimit limit;
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
    return lacking("read the limit on open files");
  if (limit.rlim_cur >= needed)
    return Status::ok();
  if (limit.rlim_max < needed)
    return unsupported("starting {} ranks as processes requires {} open files, but this process is "
                       "limited to {} (ulimit -Hn)",
                       ranks, needed, limit.rlim_max);
  limit.rlim_cur = needed;
  return setrlimit(RLIMIT_NOFILE, &limit) == 0 ? Status::ok() : lacking("open enough files");
}

/// Creates an anonymous file that contains `text`.
Result<FileDescriptor> fileOf(const std::string &text) {
  FileDescriptor file(memfd_create("braid-input", MFD_CLOEXEC));
  if (!file.isValid() || writeAll(file.get(), text) != 0)
    return lacking("store standard input in memory");
  return file;
}

/// Returns Unsupported if ranks cannot execute /proc/self/exe.
Status expectProc() {
  if (access("/proc/self/exe", X_OK) == 0)
    return Status::ok();
  return unsupported("/proc must be mounted (mount -t proc proc /proc) to start ranks as "
                     "processes: cannot execute /proc/self/exe: {}",
                     std::strerror(errno));
}

std::string startingRank(int64_t rank) { return fmt::format("starting rank {}", rank); }

/// Returns the status code for a rank that ended before it joined, derived from its exit status.
StatusCode codeOf(const Ending &ending) {
  for (StatusCode code : {StatusCode::BadInput, StatusCode::Unsupported, StatusCode::TimedOut})
    if (ending == Ending{false, static_cast<int>(code)})
      return code;
  return StatusCode::PeerFailed;
}

/// Waits until `isReady` returns true, but at most for `patience`. Returns the last result.
bool waitUntil(milliseconds patience, llvm::function_ref<bool()> isReady) {
  const auto deadline = Clock::now() + patience;
  while (!isReady() && Clock::now() < deadline)
    std::this_thread::sleep_for(milliseconds(1));
  return isReady();
}

/// A single job, from its launch until the last rank is reaped.
class JobLauncher {
public:
  JobLauncher(const LaunchOptions &options, JobMemory memory, std::string job)
      : options_(options), memory_(std::move(memory)), job_(std::move(job)),
        signals_(options.signals ? *options.signals : ownSignals_.emplace()),
        children_(options.ranks) {}

  Status start();
  LaunchReport supervise();

private:
  Status startRank(int64_t rank, const std::string &endpoint, const FileDescriptor &input);
  std::string explainDeath(int64_t rank);
  void onSignals();
  void onEnded();
  void sayFailure();
  void killWhatIsLeft();
  std::optional<milliseconds> patienceWith(int64_t rank) const;
  Status failure() const;
  LaunchReport report(const Status &relayed);

  bool isDecided() const { return memory_.isAborted() || memory_.committed() > 0; }
  /// Records an interrupt by `signal`. The first call aborts the job.
  void interrupt(int signal);

  const LaunchOptions &options_;
  JobMemory memory_;
  const std::string job_;
  std::optional<SignalWatch> ownSignals_;
  SignalWatch &signals_;
  OutputRelay relay_; ///< its threads end after all children have ended
  Children children_;
  std::atomic<int> interruptedBy_{0};
  int signalsSeen_ = 0;
  std::optional<Clock::time_point> decidedAt_;
  bool hasSaidFailure_ = false;
  std::unique_ptr<Rendezvous> rendezvous_; ///< last, because its thread uses the other members
};

Status JobLauncher::start() {
  BRAID_TRY(makeRoomForDescriptors(options_.ranks));
  FileDescriptor input = BRAID_TRY(fileOf(options_.input));
  RendezvousPlace place =
      BRAID_TRY(listenForJob({.job = job_, .ranks = options_.ranks}, deadlineIn(options_.timeout)));
  RendezvousOptions host{.job = job_,
                         .joinTimeout = options_.timeout,
                         .explainDeath = [this](int64_t rank) { return explainDeath(rank); }};
  if (options_.plans)
    host.describe = [this](int64_t rank) {
      return JobView(memory_, options_.plans(memory_)).rankText(rank);
    };
  rendezvous_ = BRAID_TRY(Rendezvous::start(std::move(place), memory_, std::move(host)));
  for (int64_t rank = 0; rank < options_.ranks; ++rank)
    if (Status status = startRank(rank, rendezvous_->name(), input); !status.isOk()) {
      memory_.abort({status, -1});
      children_.killAll(SIGKILL);
      return status;
    }
  return Status::ok();
}

Status JobLauncher::startRank(int64_t rank, const std::string &endpoint,
                              const FileDescriptor &input) {
  // Open the file separately for each rank, because ranks must not share a file offset.
  FileDescriptor stdinFile(
      open(fmt::format("/proc/self/fd/{}", input.get()).c_str(), O_RDONLY | O_CLOEXEC));
  if (!stdinFile.isValid())
    return lacking("open standard input");
  ChildOptions child{.arguments = options_.arguments,
                     .environment = {{"BRAID_RANK", std::to_string(rank)},
                                     {"BRAID_RANKS", std::to_string(options_.ranks)},
                                     {"BRAID_LOCAL_RANK", std::to_string(rank)},
                                     {"BRAID_LOCAL_RANKS", std::to_string(options_.ranks)},
                                     {"BRAID_JOB", job_},
                                     {"BRAID_MEETING", endpoint},
                                     {"OPENBLAS_NUM_THREADS", "1"}},
                     .standardInput = stdinFile.get()};
  llvm::append_range(child.environment, options_.environment);
  FileDescriptor output, error;
  if (options_.discardOutput) {
    output = FileDescriptor(open("/dev/null", O_WRONLY | O_CLOEXEC));
    child.standardOutput = child.standardError = output.get();
  } else if (options_.prefixOutput) {
    output = BRAID_TRY(relay_.add(rank, STDOUT_FILENO));
    error = BRAID_TRY(relay_.add(rank, STDERR_FILENO));
    child.standardOutput = output.get();
    child.standardError = error.get();
  }
  return children_.start(rank, child).annotated(startingRank(rank));
}

/// Describes how a rank ended. Called if the rank's connection closes before the rank disconnects.
std::string JobLauncher::explainDeath(int64_t rank) {
  std::optional<Ending> ending;
  const auto hasEnded = [&] { return (ending = children_.ending(rank)).has_value(); };
  // If the rank is not ending, there is no point in waiting for its exit status.
  if (!children_.isEnding(rank) || !waitUntil(milliseconds(1000), hasEnded))
    return "closed its connection to the job, but is still running";
  // A signal to the whole process group (Ctrl-C in a terminal) is not this rank's failure. On a
  // busy machine, this process may handle the signal long after the rank has died of it.
  const int number = ending->number;
  const bool mayBeShared =
      ending->isSignal && (number == SIGINT || number == SIGTERM || number == SIGHUP);
  if (mayBeShared && !isDecided() &&
      waitUntil(milliseconds(1000), [&] { return signals_.first() == number; }))
    interrupt(number);
  return ending->isSignal ? "was " + str(*ending) : str(*ending) + " before the run had finished";
}

void JobLauncher::interrupt(int signal) {
  int none = 0;
  interruptedBy_.compare_exchange_strong(none, signal);
  memory_.abort({peerFailed("interrupted by signal {} ({})", signal, strsignal(signal)), -1});
}

LaunchReport JobLauncher::supervise() {
  for (bool isAnyAlive = true; isAnyAlive;) {
    poll(nullptr, 0, static_cast<int>(kSlice.count())); // returns early on a signal
    isAnyAlive = children_.isAnyAlive();                // must be read before onEnded()
    onSignals();
    onEnded();
    const Status watched = options_.watch ? options_.watch() : Status::ok();
    if (!watched.isOk() && !isDecided())
      memory_.abort({watched, -1});
    sayFailure();
    killWhatIsLeft();
  }
  const Status relayed = relay_.finish();
  rendezvous_.reset();
  sayFailure();
  return report(relayed);
}

void JobLauncher::onSignals() {
  for (; signalsSeen_ < signals_.count(); ++signalsSeen_) {
    interrupt(signals_.first());
    children_.killAll(signalsSeen_ == 0 ? signals_.first() : SIGKILL);
  }
}

/// Reports ranks that ended while not connected, which the Rendezvous cannot detect.
void JobLauncher::onEnded() {
  for (int64_t rank = 0; rank < options_.ranks && !isDecided(); ++rank) {
    const std::optional<Ending> ending = children_.ending(rank);
    const RankState state = memory_.stateOf(rank); // must be read after `ending`
    if (!ending || state == RankState::Joined || state == RankState::Dead)
      continue;
    if (ending->notBegun() != 0)
      memory_.abort({cannotStart(ending->notBegun()).annotated(startingRank(rank)), rank});
    else if (state == RankState::Absent)
      memory_.abort({{codeOf(*ending),
                      fmt::format("rank {} ended before joining the job: {}", rank, str(*ending))},
                     rank});
    else
      memory_.abort(
          {peerFailed("rank {} ended before the run had finished: {}", rank, str(*ending)), rank});
  }
}

/// Calls onFailure, once, if the job was aborted before a run was committed and the cause is final.
/// Even after all ranks have ended, the Rendezvous may still be determining the cause.
void JobLauncher::sayFailure() {
  const bool isFinal = memory_.cause().has_value() || !rendezvous_;
  if (memory_.committed() == 0 && isFinal && !std::exchange(hasSaidFailure_, true) &&
      options_.onFailure)
    options_.onFailure(failure());
}

/// Once the outcome is decided, kills each rank that has kept running for longer than
/// patienceWith() allows.
void JobLauncher::killWhatIsLeft() {
  if (!isDecided())
    return;
  if (!decidedAt_)
    decidedAt_ = Clock::now();
  for (int64_t rank = 0; rank < options_.ranks; ++rank) {
    std::optional<milliseconds> patience = patienceWith(rank);
    if (!patience || Clock::now() - *decidedAt_ < *patience)
      continue;
    if (!children_.isEnding(rank))
      memory_.slot(rank).isKilled.store(1, std::memory_order_relaxed);
    children_.kill(rank, SIGKILL);
  }
}

/// Returns how long a rank may keep running after the outcome is decided; nullopt means no limit.
std::optional<milliseconds> JobLauncher::patienceWith(int64_t rank) const {
  // A grace period would not help a rank that a signal has stopped.
  if (memory_.committed() == 0)
    return children_.isStopped(rank) ? milliseconds(0) : options_.grace;
  if (rank != 0 || children_.isStopped(rank))
    return options_.teardown;
  // The rank is only printing, perhaps to a slow reader.
  if (memory_.stateOf(rank) == RankState::Left)
    return std::nullopt;
  return std::max(options_.teardown, kTeardownOfRank0);
}

/// Returns the first failure of a job whose run is not committed.
Status JobLauncher::failure() const {
  std::optional<JobCause> cause = memory_.cause();
  return cause ? cause->status : peerFailed("all ranks exited before the run had finished");
}

/// `relayed` is a failure if some of the ranks' output was lost.
LaunchReport JobLauncher::report(const Status &relayed) {
  LaunchReport report;
  report.signal = interruptedBy_.load();
  if (memory_.committed() == 0)
    report.status = failure();
  int expected = static_cast<int>(report.status.code());
  constexpr int kCannotPrint = static_cast<int>(StatusCode::Unsupported);
  report.isOutputLost = report.status.isOk() && children_.ending(0) == Ending{false, kCannotPrint};
  if (!relayed.isOk())
    report.endings.push_back(relayed.message());
  report.isOutputLost |= report.status.isOk() && !relayed.isOk();
  for (int64_t rank = 0; report.signal == 0 && rank < options_.ranks; ++rank) {
    std::optional<Ending> ending = children_.ending(rank);
    if (!ending || (!ending->isSignal && ending->number == expected) ||
        (rank == 0 && report.isOutputLost))
      continue;
    const bool isByUs = ending->isSignal && memory_.slot(rank).isKilled.load() != 0;
    report.endings.push_back(fmt::format("rank {}: {}{}", rank, str(*ending),
                                         isByUs ? ", because it did not exit on its own" : ""));
  }
  report.job = job_;
  report.memory.emplace(std::move(memory_));
  return report;
}

} // namespace

/// Each rank needs descriptors for its connection, its process, its memory, and two output pipes,
/// both ends of which are open while the rank is being started.
int64_t openFilesFor(int64_t ranks) { return 64 + ranks * 6; }

Result<LaunchReport> launch(const LaunchOptions &options) {
  BRAID_TRY(checkTimeLimit(options.timeout));
  BRAID_TRY(expectProc());
  std::string job = BRAID_TRY(randomName());
  JobMemory memory = BRAID_TRY(JobMemory::create(options.ranks));
  JobLauncher launcher(options, std::move(memory), std::move(job));
  BRAID_TRY(launcher.start());
  return launcher.supervise();
}

} // namespace braid
