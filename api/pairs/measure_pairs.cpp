//===- api/pairs/measure_pairs.cpp - measures every pair of a machine's devices ---------------===//

#include "api/pairs/measure_pairs.h"

#include "api/launch/signals.h"
#include "api/pairs/job_of_ranks.h"
#include "api/pairs/pair_figures.h"
#include "api/pairs/path_recipe.h"
#include "api/pairs/verdicts.h"
#include "ir/failure.h"
#include "runtime/host_name.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <array>
#include <map>

namespace braid {
namespace {

using std::chrono::milliseconds;

/// More is only more of the same, and every rank has a row for each other one.
constexpr int64_t kMostTogetherBytes = int64_t(256) << 20;
/// How much longer than its longest step so far a pair may take that has hung before.
constexpr int kPatience = 4;
constexpr milliseconds kLeastPatience{1000};
/// More links than that are slow for a reason of all.
constexpr size_t kMostCoupled = 8;
/// Each couple is tried so often, and the best counts: what is shared is so every time.
constexpr size_t kTrialsOfCouple = 2;
/// A machine so loaded that it looks like that again and again has to come to an end.
constexpr int kMostSuspensions = 5;

PathOutcome outcomeOfFailure(StatusCode code) {
  switch (code) {
  case StatusCode::TimedOut:
    return PathOutcome::Hung;
  case StatusCode::Unsupported:
    return PathOutcome::Unavailable;
  default:
    return PathOutcome::Crashed;
  }
}

/// Whether the job says nothing because this process was stopped in its midst. What crashed did so
/// all the same.
bool isToBeRepeated(const JobEnd &end, int suspensions) {
  return end.wasSuspended && suspensions < kMostSuspensions &&
         (end.status.isOk() || end.status.code() == StatusCode::TimedOut);
}

bool isSettled(const PathReport &path) { return path.outcome != PathOutcome::NotMeasured; }

/// Links that run at once: one, or two without a device in common.
using LinksAtOnce = std::vector<const CoupledLink *>;

bool isApart(const CoupledLink &one, const CoupledLink &other) {
  return one.source != other.source && one.source != other.destination &&
         one.destination != other.source && one.destination != other.destination;
}

/// Each alone, and each two; none where no two are apart.
std::vector<LinksAtOnce> trialsOf(const std::vector<CoupledLink> &links) {
  std::vector<LinksAtOnce> alone, couples;
  for (const CoupledLink &link : links) {
    alone.push_back({&link});
    for (const CoupledLink &other : links)
      if (&link < &other && isApart(link, other))
        couples.push_back({&link, &other});
  }
  if (couples.empty())
    return {};
  llvm::append_range(alone, couples);
  return alone;
}

bool runs(const CoupledLink &link, const PairRow &row) {
  return (link.source == row.source && link.destination == row.destination) ||
         (link.bothWays && link.source == row.destination && link.destination == row.source);
}

class Measuring {
public:
  explicit Measuring(const MeasureOptions &options) : options_(options) {
    report_.backend = options.backend;
    report_.hostname = hostName();
    report_.devices.resize(options.devices.size());
    for (int64_t source : numbers())
      for (int64_t destination : numbers())
        if (source != destination)
          report_.rows.push_back({source, destination, {}, {}});
  }

  Status measure();
  MeasuredPairs take() { return {std::move(report_), signal_}; }

private:
  Status measurePair(int64_t one, int64_t other);
  void measureTogether();
  void measureCouples();
  void measureCouples(Path path, const std::vector<CoupledLink> &links);
  int64_t bytesTogether(Path path) const;
  TogetherWork workOf(const LinksAtOnce &links, Path path) const;
  double coupledGBps(const CoupledLink &link, size_t trial, size_t trials) const;
  std::vector<PairWork> workOf(int64_t one, int64_t other) const;
  std::vector<PairWork> left(const std::vector<PairWork> &works, const Measurement *last) const;
  JobEnd run(const MeasuringJob &job, milliseconds patience);
  void take(const Measurement &line);
  void takeFailure(const std::vector<PairWork> &works, const JobEnd &end);
  void settle(const std::vector<PairWork> &works);
  void forget(std::vector<PairWork> &works, const std::vector<PairRow> &before);

  /// Devices by their place in the report.
  std::vector<int64_t> numbers() const {
    std::vector<int64_t> all(options_.devices.size());
    for (size_t i = 0; i < all.size(); ++i)
      all[i] = static_cast<int64_t>(i);
    return all;
  }
  /// By source, then destination, without a device's row to itself.
  size_t rowOf(int64_t source, int64_t destination) const {
    const auto others = static_cast<int64_t>(report_.devices.size()) - 1;
    return static_cast<size_t>(source * others + destination - (destination > source ? 1 : 0));
  }
  PathReport &path(int64_t source, int64_t destination, Path path) {
    return on(report_.rows[rowOf(source, destination)], path);
  }
  const PathReport &path(const PairWork &work) const {
    return on(report_.rows[rowOf(work.source, work.destination)], work.path);
  }
  PathReport &path(const PairWork &work) { return path(work.source, work.destination, work.path); }
  MeasuringJob jobFor(std::vector<int64_t> devices) const;

  const MeasureOptions &options_;
  PairReport report_;
  SignalWatch signals_; ///< between jobs
  int signal_ = 0;
  bool isTogether_ = false;                          ///< all pairs run
  bool isCoupling_ = false;                          ///< or some of them
  std::map<std::array<int64_t, 3>, double> coupled_; ///< GB/s by work, source, destination
  bool hasMeasured_ = false;                         ///< some rank has begun to
  Status lack_;                                      ///< the first that is no fault
};

MeasuringJob Measuring::jobFor(std::vector<int64_t> devices) const {
  MeasuringJob job;
  job.backend = options_.backend;
  job.devices = std::move(devices);
  job.seconds = options_.secondsOfPath;
  return job;
}

JobEnd Measuring::run(const MeasuringJob &job, milliseconds patience) {
  JobOfRanks ranks{
      job, {}, patience, options_.rankCommand, [this](const Measurement &line) { take(line); }};
  for (int64_t device : job.devices)
    ranks.devices.push_back(options_.devices[static_cast<size_t>(device)]);
  JobEnd end = runJob(ranks);
  signal_ = end.signal != 0 ? end.signal : signals_.take();
  return end;
}

void Measuring::take(const Measurement &line) {
  const auto devices = static_cast<int64_t>(report_.devices.size());
  if (line.kind == Measurement::Kind::Device) {
    auto [identity, description] = llvm::StringRef(line.text).split(' ');
    MachineDevice &device = report_.devices[static_cast<size_t>(line.source % devices)];
    device.uuid = identity == "-" ? "" : identity.str();
    device.name =
        description.empty() ? options_.backend + " rank" : description.split(',').first.str();
    return;
  }
  if (line.source == line.destination || line.source >= devices || line.destination >= devices)
    return; // of a rank that has gone mad
  hasMeasured_ = true;
  PathReport &report = path(line.source, line.destination, line.path);
  switch (line.kind) {
  case Measurement::Kind::Bandwidth:
    report.points.push_back({line.bytes, 0, line.value});
    break;
  case Measurement::Kind::Latency:
    if (!report.points.empty() && report.points.back().bytes == line.bytes)
      report.points.back().latencyUs = line.value;
    break;
  case Measurement::Kind::Wrong:
    report.outcome = PathOutcome::WrongData;
    if (!report.wrong) {
      report.wrong = line.wrong;
      report.wrong->together = isTogether_;
    }
    break;
  case Measurement::Kind::Unavailable:
    report.outcome = PathOutcome::Unavailable;
    report.reason = line.text;
    break;
  case Measurement::Kind::Together:
    if (isCoupling_)
      coupled_[{line.work, line.source, line.destination}] = line.value;
    else
      report.togetherGBps = line.value;
    break;
  case Measurement::Kind::Device:
  case Measurement::Kind::Begin:
    break;
  }
}

// -- One pair. --

std::vector<PairWork> Measuring::workOf(int64_t one, int64_t other) const {
  std::vector<PairWork> works;
  for (Path path : options_.paths)
    for (auto [source, destination] : {std::pair(one, other), {other, one}})
      works.push_back({source, destination, path, options_.sizes});
  return works;
}

/// Those have been measured as far as they will be.
void Measuring::settle(const std::vector<PairWork> &works) {
  for (const PairWork &work : works) {
    PathReport &report = path(work);
    if (!isSettled(report) && !report.points.empty())
      report.outcome = PathOutcome::Measured;
  }
}

/// What a job that ended early leaves to do: nothing of the paths before the one that it was at, of
/// that one the sizes that are missing, and all that comes behind.
std::vector<PairWork> Measuring::left(const std::vector<PairWork> &works,
                                      const Measurement *last) const {
  std::vector<PairWork> rest;
  const auto current =
      llvm::find_if(works, [&](const PairWork &work) { return last && work.path == last->path; });
  for (auto work = current; work != works.end(); ++work) {
    PairWork remaining = *work;
    const PathReport &report = path(*work);
    if (!report.points.empty())
      llvm::erase_if(remaining.sizes,
                     [&](int64_t bytes) { return bytes <= report.points.back().bytes; });
    if (!isSettled(report) && !remaining.sizes.empty())
      rest.push_back(std::move(remaining));
  }
  return rest;
}

/// Gives the failure of a job to whatever it was doing; of one that did nothing yet, to all.
void Measuring::takeFailure(const std::vector<PairWork> &works, const JobEnd &end) {
  const PathOutcome outcome = outcomeOfFailure(end.status.code());
  const bool isLacking = outcome == PathOutcome::Unavailable;
  for (const PairWork &work : works) {
    PathReport &report = path(work);
    const bool isCurrent =
        end.last && work.path == end.last->path && (isLacking || work.source == end.last->source);
    // What one path cannot have of a peer's memory the others cannot have, either.
    const bool isAlike = isLacking && end.last && report.points.empty() &&
                         reachesPeers(end.last->path) && reachesPeers(work.path);
    if (isSettled(report) || (end.last && !isCurrent && !isAlike))
      continue;
    report.reason = end.status.message();
    report.outcome = isLacking && !report.points.empty() ? PathOutcome::Measured : outcome;
  }
}

/// Of what a job has measured only wrong data count, for they are wrong however long it took.
void Measuring::forget(std::vector<PairWork> &works, const std::vector<PairRow> &before) {
  for (const PairWork &work : works)
    if (path(work).outcome != PathOutcome::WrongData)
      path(work) = on(before[rowOf(work.source, work.destination)], work.path);
  llvm::erase_if(works, [&](const PairWork &work) { return isSettled(path(work)); });
}

Status Measuring::measurePair(int64_t one, int64_t other) {
  std::vector<PairWork> works = workOf(one, other);
  milliseconds patience = options_.timeout;
  int suspensions = 0;
  while (!works.empty() && signal_ == 0) {
    MeasuringJob job = jobFor({one, other});
    job.pairs = works;
    const std::vector<PairRow> before = report_.rows;
    const JobEnd end = run(job, patience);
    if (signal_ == 0 && isToBeRepeated(end, suspensions)) {
      forget(works, before);
      ++suspensions;
      continue;
    }
    if (end.status.isOk() || signal_ != 0) {
      settle(works);
      return Status::ok();
    }
    if (end.status.code() == StatusCode::BadInput)
      return end.status;
    if (lack_.isOk() && end.status.code() == StatusCode::Unsupported)
      lack_ = end.status;
    takeFailure(works, end);
    std::vector<PairWork> rest = left(works, end.last ? &*end.last : nullptr);
    settle(works);
    works = std::move(rest);
    for (const PairWork &work : works) // it goes on
      if (path(work).outcome == PathOutcome::Measured)
        path(work).outcome = PathOutcome::NotMeasured;
    if (end.status.code() == StatusCode::TimedOut)
      patience = std::min(patience, std::max(kLeastPatience, kPatience * end.longestStep));
  }
  return Status::ok();
}

// -- All of them. --

/// Pairs that do not work by themselves would only end it for all.
void Measuring::measureTogether() {
  isTogether_ = true;
  MeasuringJob job = jobFor(numbers());
  for (Path each : options_.paths) {
    TogetherWork work{each, bytesTogether(each), {}};
    for (const PairRow &row : report_.rows)
      if (on(row, each).outcome != PathOutcome::Measured)
        work.without.emplace_back(row.source, row.destination);
    if (work.without.size() < report_.rows.size())
      job.together.push_back(std::move(work));
  }
  milliseconds patience = options_.timeout;
  int suspensions = 0;
  while (!job.together.empty() && signal_ == 0) {
    const JobEnd end = run(job, patience);
    if (signal_ == 0 && isToBeRepeated(end, suspensions)) {
      ++suspensions;
      continue;
    }
    if (end.status.isOk() || signal_ != 0)
      break;
    report_.together = outcomeOfFailure(end.status.code());
    report_.togetherReason = end.status.message();
    auto current = llvm::find_if(job.together, [&](const TogetherWork &work) {
      return end.last && work.path == end.last->path;
    });
    const bool isKnown = current != job.together.end();
    job.together.erase(job.together.begin(), isKnown ? current + 1 : current);
    if (end.status.code() == StatusCode::TimedOut)
      patience = std::min(patience, std::max(kLeastPatience, kPatience * end.longestStep));
  }
  if (report_.together == PathOutcome::NotMeasured && signal_ == 0)
    report_.together = PathOutcome::Measured;
}

// -- Two links at a time. --

int64_t Measuring::bytesTogether(Path path) const {
  int64_t bytes = kMostTogetherBytes;
  for (const PairRow &row : report_.rows)
    if (const PathReport &report = on(row, path); report.outcome == PathOutcome::Measured)
      bytes = std::min(bytes, report.points.back().bytes);
  return bytes;
}

TogetherWork Measuring::workOf(const LinksAtOnce &links, Path path) const {
  TogetherWork work{path, bytesTogether(path), {}};
  for (const PairRow &row : report_.rows)
    if (llvm::none_of(links, [&](const CoupledLink *link) { return runs(*link, row); }))
      work.without.emplace_back(row.source, row.destination);
  return work;
}

/// What the slower direction of the link gave at best.
double Measuring::coupledGBps(const CoupledLink &link, size_t trial, size_t trials) const {
  double best = 0;
  for (size_t i = 0; i < kTrialsOfCouple; ++i) {
    const auto work = static_cast<int64_t>(i * trials + trial);
    auto of = [&](int64_t source, int64_t destination) {
      const auto found = coupled_.find({work, source, destination});
      return found == coupled_.end() ? 0 : found->second;
    };
    const double there = of(link.source, link.destination);
    best =
        std::max(best, link.bothWays ? std::min(there, of(link.destination, link.source)) : there);
  }
  return best;
}

void Measuring::measureCouples(Path path, const std::vector<CoupledLink> &links) {
  const std::vector<LinksAtOnce> trials = trialsOf(links);
  MeasuringJob job = jobFor(numbers());
  for (size_t i = 0; i < kTrialsOfCouple; ++i)
    for (const LinksAtOnce &trial : trials)
      job.together.push_back(workOf(trial, path));
  JobEnd end;
  for (int suspensions = 0; !trials.empty(); ++suspensions) {
    coupled_.clear();
    end = run(job, options_.timeout);
    if (signal_ != 0 || !isToBeRepeated(end, suspensions))
      break;
  }
  if (!end.status.isOk() && signal_ == 0) { // which none of them did while all ran
    report_.together = outcomeOfFailure(end.status.code());
    report_.togetherReason = end.status.message();
  }
  auto tried = [&](const CoupledLink &link, size_t trial) {
    CoupledLink result = link;
    result.aloneGBps = coupledGBps(link, static_cast<size_t>(&link - links.data()), trials.size());
    result.togetherGBps = coupledGBps(link, trial, trials.size());
    return result;
  };
  for (size_t i = links.size(); i < trials.size() && end.status.isOk(); ++i)
    report_.couples.push_back(
        {path, bytesTogether(path), tried(*trials[i][0], i), tried(*trials[i][1], i)});
}

/// Through the host, all share one memory.
void Measuring::measureCouples() {
  isCoupling_ = true;
  for (Path path : options_.paths) {
    if (path == Path::Host || signal_ != 0)
      continue;
    const std::vector<CoupledLink> links = linksSlowTogether(report_, path);
    if (links.size() >= 2 && links.size() <= kMostCoupled)
      measureCouples(path, links);
  }
}

Status Measuring::measure() {
  const auto devices = static_cast<int64_t>(options_.devices.size());
  MeasureStep step{1, static_cast<size_t>(devices * (devices - 1) / 2 + 1)};
  auto say = [&](int64_t source, int64_t destination) {
    step.source = source;
    step.destination = destination;
    if (options_.progress)
      options_.progress(step);
    ++step.number;
  };
  auto number = [&](int64_t device) { return options_.devices[static_cast<size_t>(device)]; };
  for (int64_t one = 0; one < devices; ++one)
    for (int64_t other = one + 1; other < devices && signal_ == 0; ++other) {
      say(number(one), number(other));
      BRAID_TRY(measurePair(one, other));
    }
  if (!hasMeasured_ && !lack_.isOk())
    return lack_;
  if (signal_ == 0) {
    say(-1, -1);
    measureTogether();
    measureCouples();
  }
  return Status::ok();
}

} // namespace

Result<MeasuredPairs> measurePairs(const MeasureOptions &options) {
  Measuring measuring(options);
  BRAID_TRY(measuring.measure());
  return measuring.take();
}

StatusCode outcomeOf(const PairReport &report) {
  auto has = [&](PathOutcome outcome) {
    return report.together == outcome || llvm::any_of(report.rows, [&](const PairRow &row) {
             return llvm::any_of(row.paths,
                                 [&](const PathReport &path) { return path.outcome == outcome; });
           });
  };
  for (auto [outcome, code] : {std::pair(PathOutcome::WrongData, StatusCode::WrongResult),
                               {PathOutcome::Crashed, StatusCode::PeerFailed},
                               {PathOutcome::Hung, StatusCode::TimedOut}})
    if (has(outcome))
      return code;
  return StatusCode::Ok;
}

} // namespace braid
