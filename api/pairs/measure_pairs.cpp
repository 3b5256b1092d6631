//===- api/pairs/measure_pairs.cpp - measures every pair of devices on a machine --------------===//

#include "api/pairs/measure_pairs.h"

#include "api/launch/launch.h"
#include "api/launch/signals.h"
#include "ir/failure.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <unistd.h>

namespace braid {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

/// launch() calls listen() at shorter intervals than this, unless this process is stopped, for
/// example by Ctrl-Z. Ranks then wait for this process, so the stop does not count as silence.
constexpr Clock::duration kMostBetweenLooks = milliseconds(200);
/// The minimum timeout for the first record, because processes take time to start.
constexpr milliseconds kLeastToStart{10000};
constexpr milliseconds kGrace{300};
/// After a hang, a pair's timeout is its longest silence times this factor, but at least a second.
constexpr int kPatience = 4;
constexpr milliseconds kLeastPatience{1000};

/// Runs the jobs that measure one pair.
class PairJobs {
public:
  PairJobs(const MeasureOptions &options, SignalWatch &signals, PairReport &report, size_t one,
           size_t other)
      : options_(options), signals_(signals), report_(report), devices_{one, other},
        timeout_(options.timeout) {
    for (Path path : options.paths)
      for (int64_t source : {0, 1})
        steps_.push_back({path, source});
  }

  /// Runs jobs until no steps are left, or until a signal arrives.
  Status run() {
    while (!steps_.empty()) {
      const Result<LaunchReport> report = runJob();
      const Status &status = report ? report->status : report.status();
      if (status.isOk() || signals_.first() != 0)
        break;
      if (status.code() == StatusCode::BadInput)
        return status;
      takeFailure(status);
      if (status.code() == StatusCode::TimedOut)
        timeout_ = std::clamp(std::chrono::duration_cast<milliseconds>(kPatience * longest_),
                              std::min(kLeastPatience, timeout_), timeout_);
    }
    return Status::ok();
  }

private:
  Result<LaunchReport> runJob() {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0)
      return unsupported("cannot create a pipe: {}", std::strerror(errno));
    // This process polls the read end; the ranks inherit the write end.
    pipe_ = FileDescriptor(ends[0]);
    const FileDescriptor write(ends[1]);
    (void)fcntl(pipe_.get(), F_SETFL, O_NONBLOCK);
    (void)fcntl(write.get(), F_SETFD, 0);
    silence_ = longest_ = Clock::duration(0);
    lastLook_ = Clock::now();
    hasBegun_ = false;
    last_.reset();
    std::vector<int64_t> steps;
    for (const Step &step : steps_)
      steps.push_back(step.number());
    Result<LaunchReport> report =
        launch({.ranks = 2,
                .arguments = {"braid", "p2p", "--backend", options_.backend, "--sizes",
                              fmt::format("{}", fmt::join(options_.sizes, ",")), "--measure-steps",
                              fmt::format("{}", fmt::join(steps, ",")), "--measure-to",
                              std::to_string(write.get())},
                .environment = {{"BRAID_DEVICES",
                                 fmt::format("{},{}", deviceOf(0).number, deviceOf(1).number)}},
                .input = "",
                .timeout = std::max(timeout_, kLeastToStart),
                .grace = kGrace,
                .discardOutput = true, // libraries may print messages
                .signals = &signals_,
                .watch = [this] { return listen(); }});
    read();
    return report;
  }

  /// Reads new records. Returns TimedOut if there has been no record for too long.
  Status listen() {
    const Clock::time_point now = Clock::now();
    silence_ += std::min(now - std::exchange(lastLook_, now), kMostBetweenLooks);
    read();
    const milliseconds limit = hasBegun_ ? timeout_ : std::max(timeout_, kLeastToStart);
    return silence_ <= limit ? Status::ok() : timedOut("no progress for {} ms", limit.count());
  }

  /// Processes all pending records. Each record is written and read atomically.
  void read() {
    Record record;
    while (::read(pipe_.get(), &record, sizeof record) == static_cast<ssize_t>(sizeof record)) {
      longest_ = std::max(longest_, std::exchange(silence_, Clock::duration(0)));
      hasBegun_ = true;
      take(record);
    }
  }

  void take(const Record &record) {
    PathReport &report = reportOf(record.step);
    switch (record.kind) {
    case Record::Kind::Device: {
      const auto [identity, description] = llvm::StringRef(record.text).split(' ');
      MeasuredDevice &device = deviceOf(static_cast<size_t>(record.step.source));
      device.uuid = identity.str();
      device.name =
          description.empty() ? options_.backend + " rank" : description.split(',').first.str();
      break;
    }
    case Record::Kind::Begin:
      last_ = record;
      break;
    case Record::Kind::Bandwidth:
      report.points.push_back({record.bytes, 0, record.value});
      break;
    case Record::Kind::Latency:
      for (PathReport *each : {&report, &reportOf({record.step.path, 0})})
        for (PathPoint &point : each->points)
          if (point.bytes == record.bytes)
            point.latencyUs = record.value;
      break;
    case Record::Kind::Wrong:
      report.wrong = record.wrong;
      report.worsen(Verdict::Wrong, fmt::format("byte {} of {} is 0x{:02x}, expected 0x{:02x}",
                                                record.wrong.offset, sizeText(record.wrong.bytes),
                                                record.wrong.got, record.wrong.expected));
      break;
    }
  }

  /// Attributes the failure to the step that began last, or to all steps if none has begun. A path
  /// that the devices do not support is unavailable in both directions.
  void takeFailure(const Status &failure) {
    const bool isLack = failure.code() == StatusCode::Unsupported;
    const Verdict verdict = isLack                                   ? Verdict::Unavailable
                            : failure.code() == StatusCode::TimedOut ? Verdict::Hung
                                                                     : Verdict::Crashed;
    const auto isStruck = [&](const Step &step) {
      return !last_ || step == last_->step || (isLack && step.path == last_->step.path);
    };
    for (const Step &step : steps_)
      if (isStruck(step))
        reportOf(step).worsen(verdict, explained(failure));
    if (last_)
      steps_.erase(steps_.begin(), llvm::find(steps_, last_->step));
    llvm::erase_if(steps_, isStruck);
  }

  /// Describes a failure in one line, with device numbers instead of ranks, and the transfer size.
  std::string explained(const Status &failure) const {
    std::string text = llvm::StringRef(failure.message()).split('\n').first.str();
    for (size_t rank : {0, 1}) {
      llvm::SmallVector<llvm::StringRef> parts;
      llvm::StringRef(text).split(parts, fmt::format("rank {}", rank));
      text = llvm::join(parts, fmt::format("the process of device {}", deviceOf(rank).number));
    }
    const bool hasSize = last_ && failure.code() != StatusCode::Unsupported;
    return hasSize ? text + ", at " + sizeText(last_->bytes) : text;
  }

  MeasuredDevice &deviceOf(size_t rank) const { return report_.devices[devices_[rank]]; }
  PathReport &reportOf(const Step &step) {
    const auto source = static_cast<size_t>(step.source);
    return report_.row(devices_[source], devices_[1 - source]).on(step.path);
  }

  const MeasureOptions &options_;
  SignalWatch &signals_;
  PairReport &report_;
  const std::array<size_t, 2> devices_; ///< indices into the report's devices, by rank
  std::vector<Step> steps_;             ///< steps not measured yet
  milliseconds timeout_;
  // State of the current job.
  FileDescriptor pipe_;
  Clock::duration silence_{0}, longest_{0}; ///< time since the last record; its maximum so far
  Clock::time_point lastLook_;
  bool hasBegun_ = false;      ///< true once a rank has written a record
  std::optional<Record> last_; ///< the last Begin record
};

} // namespace

Result<PairReport> measurePairs(const MeasureOptions &options) {
  PairReport report(options.backend, options.devices);
  SignalWatch signals; // also catches signals between jobs
  size_t number = 0;
  for (size_t one = 0; one < options.devices.size(); ++one)
    for (size_t other = one + 1; other < options.devices.size() && report.signal == 0; ++other) {
      options.progress(options.devices[one], options.devices[other], ++number);
      BRAID_TRY(PairJobs(options, signals, report, one, other).run());
      report.signal = signals.first();
    }
  for (PairRow &row : report.rows)
    for (PathReport &path : row.paths)
      if (!path.points.empty())
        path.worsen(Verdict::Ok, "");
  return report;
}

} // namespace braid
