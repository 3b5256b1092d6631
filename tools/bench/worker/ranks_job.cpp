//===- tools/bench/worker/ranks_job.cpp - the job of processes that times our rows ------------===//

#include "tools/bench/worker/ranks_job.h"

#include "api/launch/signals.h"
#include "ir/failure.h"
#include "tools/process.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace braid::tools {

using Json = nlohmann::json;

//===- The main thread ------------------------------------------------------------------------===//

void RanksJob::runJobs() {
  constexpr std::chrono::milliseconds kSlice{50};
  SignalWatch signals; // between jobs: a rival's rows take their time, too
  std::unique_lock lock(mutex_);
  while (state_ != State::Closed) {
    if (int signal = signals.take())
      signal_ = signal;
    if (state_ != State::Wanted) {
      changed_.wait_for(lock, kSlice);
      continue;
    }
    state_ = State::Running;
    LaunchOptions options = launchOptions();
    lock.unlock();
    Result<LaunchReport> report = launch(options);
    lock.lock();
    lastEnd_ = report ? report->status : report.status();
    if (report && report->signal != 0) {
      signal_ = report->signal;
      lastEnd_ = peerFailed("interrupted");
    }
    state_ = State::Idle;
    changed_.notify_all();
  }
}

LaunchOptions RanksJob::launchOptions() const {
  LaunchOptions options;
  options.ranks = flags_.ranks;
  options.arguments = commandLine("bench", {"--requests", requests_, "--answers", answers_});
  options.input = flags_.fileText;
  options.timeout = std::chrono::milliseconds(flags_.timeoutMs);
  return options;
}

//===- The bench's thread ---------------------------------------------------------------------===//

/// New ones for each job, so that nothing of the job before is left in them. This end has both open
/// for both, so that opening does not wait and neither ever ends.
Status RanksJob::makePipes() {
  requests_ = fmt::format("{}/requests.{}", folder_, jobs_);
  answers_ = fmt::format("{}/answers.{}", folder_, jobs_);
  FileDescriptor ends[2];
  for (auto [path, end] : {std::pair(&requests_, &ends[0]), {&answers_, &ends[1]}}) {
    if (mkfifo(path->c_str(), 0600) == 0)
      *end = FileDescriptor(open(path->c_str(), O_RDWR | O_NONBLOCK | O_CLOEXEC));
    if (!end->isValid())
      return unsupported("expected a pipe {} for the ranks, got '{}'", *path, std::strerror(errno));
  }
  channel_ = Channel(std::move(ends[1]), std::move(ends[0]));
  return Status::ok();
}

Status RanksJob::start() {
  if (isRunning())
    return Status::ok();
  if (interruptedBy() != 0)
    return peerFailed("interrupted");
  ++jobs_;
  allocatedBytes_ = preparedRows_ = 0;
  BRAID_TRY(makePipes());
  {
    std::lock_guard lock(mutex_);
    state_ = State::Wanted;
    changed_.notify_all();
  }
  Json ready = BRAID_TRY(receive(0));
  device_ = ready.value("device", "");
  return Status::ok();
}

Result<Answer> RanksJob::ask(Json request) {
  const uint64_t id = ++lastId_;
  request["id"] = id;
  BRAID_TRY(channel_.send(request));
  Json message = BRAID_TRY(receive(id));
  allocatedBytes_ = message.value("bytes", int64_t(0));
  preparedRows_ = message.value("prepared", int64_t(0));
  return Answer::from(message);
}

/// The job itself sees to it that its ranks go on or fail in time.
Result<Json> RanksJob::receive(uint64_t id) {
  constexpr std::chrono::milliseconds kSlice{20};
  while (true) {
    const bool wasOver = isOver(); // before looking: what it wrote is there
    Result<std::optional<Json>> message = channel_.receive(kSlice);
    if (message && *message && answers(**message, id))
      return **message;
    if (!message || (wasOver && !*message))
      return ending();
  }
}

bool RanksJob::isOver() const {
  std::lock_guard lock(mutex_);
  return state_ == State::Idle;
}

/// How the job that is over ended.
Status RanksJob::ending() {
  channel_ = Channel();
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return state_ == State::Idle; });
  return lastEnd_.isOk() ? peerFailed("the ranks ended without an answer") : lastEnd_;
}

void RanksJob::end() {
  if (!isRunning())
    return;
  (void)channel_.send({{"id", ++lastId_}, {"end", true}});
  (void)ending();
}

void RanksJob::close() {
  end();
  std::lock_guard lock(mutex_);
  state_ = State::Closed;
  changed_.notify_all();
}

int RanksJob::interruptedBy() const {
  std::lock_guard lock(mutex_);
  return signal_;
}

} // namespace braid::tools
