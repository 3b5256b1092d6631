//===- tools/bench/bench.cpp - times every row of every shape in turns ------------------------===//

#include "tools/bench/bench.h"

#include "api/timing/seconds_since.h"
#include "ir/failure.h"
#include "runtime/warn.h"
#include "tools/bench/gpu_state.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/raw_ostream.h"

#include <fmt/format.h>

#include <set>

#include <sys/resource.h>

namespace braid::tools {
namespace {

using Clock = std::chrono::steady_clock;

std::string firstLine(const std::string &text) { return text.substr(0, text.find('\n')); }

/// How many rows a job can have prepared. Each takes open files, of which this process may have as
/// many as it is allowed to from now on, and memory that a rank offers to its peers: on CPUs all
/// that is symmetric, on GPUs the words.
int64_t roomForRows(const BenchFlags &flags) {
  constexpr int64_t kOffers = 250; // a rank may make 256
  const int64_t byOffers = kOffers / (flags.backend == "cpu" ? 2 : 1);
  rlimit limit;
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
    return 0;
  limit.rlim_cur = limit.rlim_max;
  (void)setrlimit(RLIMIT_NOFILE, &limit);
  const rlim_t filesOfRow = 2 * (2 * static_cast<rlim_t>(flags.ranks) + 2);
  const rlim_t files = std::min<rlim_t>(limit.rlim_max, 1 << 20);
  return std::min(byOffers, static_cast<int64_t>(files / filesOfRow));
}

/// How many a job will prepare for these.
int64_t rowsToPrepare(const std::vector<BenchRow> &rows) {
  constexpr int64_t kTriedByAuto = 50; // candidates, and GEMMs alone
  std::set<std::string> names;         // a graph is no row of its own
  int64_t tried = 0;
  for (const BenchRow &row : rows)
    if (!isTorchRow(row.name) && names.insert(row.name).second && isAutoRow(row.name))
      tried += kTriedByAuto;
  return static_cast<int64_t>(names.size()) + tried;
}

/// Two lists in one, the shorter spread evenly over the longer.
std::vector<BenchRow> mixed(std::vector<BenchRow> ours, std::vector<BenchRow> theirs) {
  std::vector<BenchRow> rows;
  size_t i = 0, j = 0;
  while (i < ours.size() || j < theirs.size()) {
    bool isOurTurn = j == theirs.size() || (i + 1) * theirs.size() <= (j + 1) * ours.size();
    rows.push_back(std::move(isOurTurn && i < ours.size() ? ours[i++] : theirs[j++]));
  }
  return rows;
}

} // namespace

Bench::Bench(const BenchFlags &flags, RanksJob &job)
    : flags_(flags), mostRowsOfJob_(roomForRows(flags)), job_(job),
      torch_(flags, job.folder(), [&job] { return job.interruptedBy() != 0; }) {}

/// In the order in which they are timed, without those that are there.
std::vector<BenchRow> Bench::rowsToTime(const BenchShape &shape) const {
  std::vector<BenchRow> ours, theirs;
  const std::vector<bool> graphChoices = flags_.graphChoices();
  for (bool isGraphed : graphChoices) {
    for (const std::string &name : flags_.impl)
      if (llvm::StringRef(name).contains("launch=")) {
        if (isGraphed == graphChoices.front()) // once: it says so itself
          ours.push_back({shape, name, BenchFlags::isGraphByName(name)});
      } else if (!isAutoRow(name))
        ours.push_back({shape, name, isGraphed});
      else if (isGraphed == graphChoices.front()) // once: it chooses how to issue, too
        ours.push_back({shape, name});
  }
  for (BenchRow &row : ours)
    row.kind = flags_.operation.kindOf(row.name);
  if (flags_.against == "torch")
    theirs = torchRows(flags_.operation, shape, graphChoices);
  std::vector<BenchRow> rows = mixed(std::move(ours), std::move(theirs));
  llvm::erase_if(rows, [&](const BenchRow &row) { return results_.has(row); });
  return rows;
}

Status Bench::run() {
  BRAID_TRY(results_.resume());
  BRAID_TRY(results_.checkFiles());
  std::vector<BenchShape> shapes;
  for (const BenchShape &shape : flags_.shapes())
    if (!rowsToTime(shape).empty() && !llvm::is_contained(shapes, shape))
      shapes.push_back(shape);
  if (shapes.empty()) {
    llvm::errs() << "braid: every row is there\n";
    return results_.write(/*isLast=*/true);
  }
  if (flags_.against == "torch")
    if (Status launched = torch_.launch(); launched.code() == StatusCode::BadInput)
      return launched; // of other failures its rows say so
  Progress progress(flags_.operation, shapes, *flags_.rounds, flags_.timeLimit);
  const Status measured = measure(progress);
  torch_.end();
  // Whatever ended it, shapes that are complete are kept.
  if (!measured.isOk() && progress.shapesDone() == 0)
    return measured;
  const Status written = results_.write(/*isLast=*/true);
  return measured.isOk() ? written : measured;
}

Status Bench::measure(Progress &progress) {
  for (const BenchShape &shape : progress.shapes()) {
    bool isDone = BRAID_TRY(progress.hasTimeForNext() ? measureShape(shape, progress) : false);
    if (!isDone) {
      sayWhatIsLeft(progress);
      break;
    }
  }
  return Status::ok();
}

void Bench::sayWhatIsLeft(const Progress &progress) const {
  const BenchShape &next = progress.shapes()[progress.shapesDone()];
  const char *advice = flags_.json.empty() ? "" : "; go on with --resume";
  llvm::errs() << fmt::format("braid: --time-limit: {} of {} shapes are done, ",
                              progress.shapesDone(), progress.shapes().size())
               << fmt::format("{} is next{}\n", flags_.operation.title(next), advice);
}

/// A device keeps memory that is shared, and its descriptors, for later programs of like sizes. The
/// shapes of a grid differ, so a job that has prepared much makes room for another one.
Status Bench::replaceFullJob(const std::vector<BenchRow> &next) {
  if (job_.allocatedBytes() > flags_.jobMib << 20 ||
      job_.preparedRows() + rowsToPrepare(next) > mostRowsOfJob_)
    job_.end();
  BRAID_TRY(job_.start());
  return results_.setDevice(job_.device());
}

Result<bool> Bench::measureShape(const BenchShape &shape, Progress &progress) {
  std::vector<BenchRow> rows = rowsToTime(shape);
  BenchBatch batch{shape, timeNow(), 0, "", nullptr, nullptr};
  for (BenchRow &row : rows)
    row.date = batch.date;
  std::optional<GpuState> gpus;
  if (flags_.usesGpus())
    gpus.emplace();
  const Clock::time_point begin = Clock::now();
  BRAID_TRY(replaceFullJob(rows));
  for (int64_t round = 0; round < *flags_.rounds; ++round) {
    if (round > 0 && progress.isTimeOver())
      return false;
    BRAID_TRY(timeRound(rows, round));
    progress.roundDone(round);
  }
  batch.seconds = secondsSince(begin);
  batch.rival = torch_.device();
  if (gpus) {
    batch.gpusBefore = gpus->take();
    batch.gpusAfter = GpuState().take();
  }
  results_.add(std::move(rows), batch);
  progress.shapeDone();
  results_.printTable(shape);
  if (const Status written = results_.write(/*isLast=*/false); !written.isOk())
    warnOnStderr(written.message());
  return true;
}

/// Every other round goes backwards, so that a machine that gets slower or faster meanwhile favours
/// no row.
Status Bench::timeRound(std::vector<BenchRow> &rows, int64_t round) {
  for (size_t i = 0; i < rows.size(); ++i) {
    BenchRow &row = rows[round % 2 == 0 ? i : rows.size() - 1 - i];
    if (!row.failure.empty())
      continue;
    BRAID_TRY(timeRow(row, round));
  }
  return Status::ok();
}

nlohmann::json Bench::requestFor(const BenchRow &row, int64_t round) const {
  constexpr int64_t kLaterWarmUp = 2;
  return {{"m", row.shape.m},
          {"n", row.shape.n},
          {"k", row.shape.k},
          {"row", row.name},
          {"graph", row.isGraphed},
          {"warm_up", round == 0 ? flags_.warmUp : std::min(flags_.warmUp, kLaterWarmUp)},
          {"iterations", flags_.iterations},
          {"limit_us", 1e3 * double(flags_.rowMs)},
          {"warm_up_us", 1e3 * double(flags_.warmUpTimeMs(row.shape))},
          {"idle_gap_us", flags_.idleGapUs},
          {"bursts", flags_.bursts / *flags_.rounds + (flags_.bursts % *flags_.rounds != 0)}};
}

/// What fails is the row's failure, unless our ranks cannot even start.
Status Bench::timeRow(BenchRow &row, int64_t round) {
  const bool isTorch = isTorchRow(row.name);
  BenchWorker &worker = isTorch ? static_cast<BenchWorker &>(torch_) : job_;
  Status started = worker.start();
  if (!started.isOk() && !isTorch)
    return started;
  Result<Answer> answer = started.isOk() ? worker.ask(requestFor(row, round)) : started;
  if (job_.interruptedBy() != 0)
    return peerFailed("interrupted");
  if (answer && answer->failure.empty()) {
    if (answer->choice != row.choice) { // a job that was started anew has chosen otherwise
      row.rounds.clear();
      row.bursts.clear();
    }
    row.rounds.push_back(std::move(answer->samples));
    row.bursts.insert(row.bursts.end(), answer->bursts.begin(), answer->bursts.end());
    row.choice = answer->choice;
    return Status::ok();
  }
  row.rounds.clear();
  row.bursts.clear();
  row.failure = firstLine(answer ? answer->failure : answer.status().message());
  if (!isTorch && firstFailure_ == StatusCode::Ok)
    firstFailure_ = answer ? answer->code : answer.status().code();
  llvm::errs() << fmt::format("braid: {}  {}{}: {}\n", flags_.operation.title(row.shape), row.name,
                              row.isGraphed ? ", graph" : "", row.failure);
  return Status::ok();
}

} // namespace braid::tools
