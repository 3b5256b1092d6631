//===- api/pairs/job_of_ranks.cpp - one job of processes that measure -------------------------===//

#include "api/pairs/job_of_ranks.h"

#include "api/launch/launch.h"
#include "api/launch/stop_rule.h"
#include "ir/failure.h"

#include "llvm/ADT/StringExtras.h"

#include <fmt/ranges.h>

#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <unistd.h>

namespace braid {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

/// The ranks look at their own clocks first, and can say more.
constexpr milliseconds kRanksTurn{300};
/// Processes take their time to start, whatever a transfer may take.
constexpr milliseconds kLeastToStart{10000};
/// Whoever has not ended by then never will.
constexpr milliseconds kGrace{300};
/// How often launch() asks, and with which limit in mind: an absence of a second costs sizes that
/// there is then no time for, however long a transfer may take.
constexpr milliseconds kAskedEvery{20}, kMostPatience{4000};

struct ResultPipe {
  FileDescriptor read, write;
  /// The reading end never waits; the writing end is handed on to processes.
  static Result<ResultPipe> create() {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0)
      return unsupported("expected a pipe for what ranks measure, got '{}'", std::strerror(errno));
    ResultPipe pipe{FileDescriptor(ends[0]), FileDescriptor(ends[1])};
    if (fcntl(ends[0], F_SETFL, O_NONBLOCK) != 0 || fcntl(ends[1], F_SETFD, 0) != 0)
      return unsupported("expected a pipe for what ranks measure, got '{}'", std::strerror(errno));
    return pipe;
  }
};

/// Reads lines as they come, and notices when none do.
class Listener {
public:
  Listener(const JobOfRanks &ranks, const FileDescriptor &pipe)
      : ranks_(ranks), pipe_(pipe), absence_(std::min(ranks.patience, kMostPatience), kAskedEvery) {
  }

  /// TimedOut if there was no line for too long, the time aside in which this process was stopped.
  Status listen() {
    const Clock::duration away = absence_.look(Clock::now());
    wasSuspended_ |= away != Clock::duration(0);
    lastStep_ += away;
    readLines();
    const auto silent = std::chrono::duration_cast<milliseconds>(Clock::now() - lastStep_);
    const milliseconds patience =
        hasBegun_ ? ranks_.patience : std::max(ranks_.patience, kLeastToStart);
    if (silent <= patience + kRanksTurn)
      return Status::ok();
    return timedOut("nothing happened for {} ms", patience.count());
  }
  /// Those that have come.
  void readLines() {
    char bytes[4096];
    for (ssize_t count; (count = read(pipe_.get(), bytes, sizeof bytes)) > 0;)
      received_.append(bytes, static_cast<size_t>(count));
    for (size_t end; (end = received_.find('\n')) != std::string::npos;) {
      takeLine(llvm::StringRef(received_).take_front(end));
      received_.erase(0, end + 1);
    }
  }
  bool wasSuspended() const { return wasSuspended_; }
  std::optional<Measurement> last() const { return last_; }
  milliseconds longestStep() const { return longestStep_; }

private:
  /// What is no line of ours says nothing.
  void takeLine(llvm::StringRef line) {
    const Result<Measurement> measurement = Measurement::decode(line);
    if (!measurement)
      return;
    const Clock::time_point now = Clock::now();
    longestStep_ =
        std::max(longestStep_, std::chrono::duration_cast<milliseconds>(now - lastStep_));
    lastStep_ = now;
    hasBegun_ = true;
    if (measurement->kind == Measurement::Kind::Begin)
      last_ = *measurement;
    ranks_.take(*measurement);
  }

  const JobOfRanks &ranks_;
  const FileDescriptor &pipe_;
  std::string received_;
  AbsenceRule absence_;
  bool wasSuspended_ = false;
  Clock::time_point lastStep_ = Clock::now();
  bool hasBegun_ = false; ///< some rank has said something
  std::optional<Measurement> last_;
  milliseconds longestStep_{0};
};

/// "rank 1" becomes "the process of device 5": of the job's ranks nobody has heard.
std::string namingDevices(llvm::StringRef message, const std::vector<int64_t> &devices) {
  constexpr llvm::StringLiteral kRank = "rank ";
  std::string text;
  while (!message.empty()) {
    const size_t at = message.find(kRank);
    text += message.take_front(at).str();
    message = message.drop_front(std::min(at, message.size()));
    if (message.empty())
      break;
    llvm::StringRef rest = message.drop_front(kRank.size());
    size_t rank = 0;
    if (rest.consumeInteger(10, rank) || rank >= devices.size()) {
      text += kRank.str();
      message = message.drop_front(kRank.size());
      continue;
    }
    text += fmt::format("the process of device {}", devices[rank]);
    message = rest;
  }
  return text;
}

/// In one line, with what was going on.
Status explained(const Status &status, const JobOfRanks &ranks,
                 const std::optional<Measurement> &last) {
  if (status.isOk())
    return status;
  const llvm::StringRef line = llvm::StringRef(status.message()).split('\n').first;
  std::string text = namingDevices(line, ranks.devices);
  if (last)
    text += ", at " + sizeText(last->bytes);
  return {status.code(), text};
}

} // namespace

JobEnd runJob(const JobOfRanks &ranks) {
  JobEnd end;
  Result<ResultPipe> pipe = ResultPipe::create();
  if (!pipe) {
    end.status = pipe.status();
    return end;
  }
  MeasuringJob job = ranks.job;
  job.timeoutMs = ranks.patience.count();
  Listener listener(ranks, pipe->read);
  LaunchOptions options;
  options.ranks = static_cast<int64_t>(job.devices.size());
  options.arguments = ranks.rankCommand;
  options.arguments.push_back(std::to_string(pipe->write.get()));
  options.environment = {{"BRAID_DEVICES", fmt::format("{}", fmt::join(ranks.devices, ","))}};
  options.input = job.encode();
  options.timeout = std::max(ranks.patience, kLeastToStart);
  options.grace = kGrace;
  options.discardOutput = true; // libraries may print what they like, and Braid's names ranks
  options.watch = [&] { return listener.listen(); };
  Result<LaunchReport> report = launch(options);
  listener.readLines(); // what they said last
  end.wasSuspended = listener.wasSuspended();
  end.last = listener.last();
  end.longestStep = listener.longestStep();
  end.signal = report ? report->signal : 0;
  end.status = explained(report ? report->status : report.status(), ranks, end.last);
  return end;
}

} // namespace braid
