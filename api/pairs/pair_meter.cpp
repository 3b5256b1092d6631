//===- api/pairs/pair_meter.cpp - one rank of those that measure ------------------------------===//

#include "api/pairs/pair_meter.h"

#include "ir/failure.h"
#include "runtime/files.h"
#include "runtime/memory_limit.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/Sequence.h"

#include <algorithm>
#include <chrono>

namespace braid {
namespace {

using Clock = std::chrono::steady_clock;

/// Filling and comparing this much takes longer than timing it, so it is done once.
constexpr int64_t kHeavyBytes = int64_t(32) << 20;
/// The latency of more is that of its bytes.
constexpr int64_t kMostForLatency = int64_t(16) << 20;
constexpr int kBursts = 3;
constexpr int64_t kMostRuns = 50; ///< of a burst

constexpr Effort kOnDevice{int64_t(1) << 30, 2, 64, int64_t(4) << 20, 32, 2000};
/// Cores that copy also have to do everything else.
constexpr Effort kOnHost{int64_t(16) << 20, 2, 8, int64_t(1) << 20, 4, 0};

double secondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

double medianOf(std::vector<double> values) {
  llvm::sort(values);
  return values[values.size() / 2];
}

double bandwidth(const BlockTransfers &transfers, double us) {
  return static_cast<double>(transfers.shape.bytes * transfers.count) / std::max(us, 1e-3) / 1e3;
}

} // namespace

PairMeter::PairMeter(const MeasuringJob &job, const Backend &backend, Cluster &cluster,
                     int64_t rank, TimedPlans &plans, Barrier barrier, int results)
    : job_(job), cluster_(cluster), rank_(rank), barrier_(std::move(barrier)), results_(results),
      effort_(cluster.device(rank).sharesHostMemory() ? kOnHost : kOnDevice),
      runs_(backend, cluster, rank, plans) {}

// -- What is said. --

int64_t PairMeter::rankOf(int64_t device) const {
  return llvm::find(job_.devices, device) - job_.devices.begin();
}

Measurement PairMeter::lineOf(Measurement::Kind kind, Path path, int64_t bytes, int64_t from,
                              int64_t to) const {
  Measurement line;
  line.kind = kind;
  line.source = deviceOf(from);
  line.destination = deviceOf(to);
  line.path = path;
  line.bytes = bytes;
  return line;
}

/// A command that reads no longer ends its ranks, so what cannot be written matters to nobody.
void PairMeter::say(Measurement measurement) { (void)writeAll(results_, measurement.encode()); }

// -- How ranks agree. --

Result<bool> PairMeter::haveAll(bool mine) {
  const std::vector<std::string> all = BRAID_TRY(control().allGather(mine ? "yes" : "no"));
  return llvm::all_of(all, [](const std::string &each) { return each == "yes"; });
}

Status PairMeter::meet() {
  return barrier_ ? meetAt(barrier_, device()) : control().allGather("").status();
}

Result<PairMeter::RankTimes> PairMeter::timesOfRanks(double mine) {
  const std::vector<std::string> all = BRAID_TRY(control().allGather(fmt::format("{}", mine)));
  RankTimes times(all.size());
  for (size_t rank = 0; rank < all.size(); ++rank)
    if (llvm::StringRef(all[rank]).getAsDouble(times[rank]))
      return internalError("expected a time of rank {}, got '{}'", rank, all[rank]);
  return times;
}

// -- One run. --

BlockTransfers PairMeter::transfersOf(Path path, int64_t bytes) const {
  const int64_t count = std::clamp(effort_.runBytes / bytes, effort_.least, effort_.most);
  return {cluster_.ranks(), path, BlockShape::of(bytes, count), count};
}

PatternKey PairMeter::keyOf(int64_t from, int64_t to, const Attempt &attempt) const {
  return {deviceOf(from), deviceOf(to), attempt.transfers.shape.bytes, attempt.round};
}

Status PairMeter::prepareRound(Attempt &attempt) {
  const BlockShape &shape = attempt.transfers.shape;
  attempt.round = nextRound_;
  nextRound_ += shape.slots;
  if (std::optional<int64_t> to = attempt.turn.to)
    BRAID_TRY(blocks_->fill(attempt.run.mine(), shape, keyOf(rank_, *to, attempt)));
  if (std::optional<int64_t> from = attempt.turn.from)
    BRAID_TRY(blocks_->poison(attempt.run.theirs(), shape, keyOf(*from, rank_, attempt)));
  return Status::ok();
}

/// Whether all ranks have what they should.
Result<bool> PairMeter::compareRound(const Attempt &attempt) {
  std::optional<WrongData> wrong;
  if (std::optional<int64_t> from = attempt.turn.from) {
    const BlockTransfers &transfers = attempt.transfers;
    wrong = BRAID_TRY(blocks_->compare(attempt.run.theirs(), transfers.shape,
                                       keyOf(*from, rank_, attempt)));
    if (wrong) {
      Measurement line = lineOf(Measurement::Kind::Wrong, transfers.path, transfers.shape.bytes,
                                *from, rank_);
      line.wrong = *wrong;
      say(line);
    }
  }
  return haveAll(!wrong);
}

/// From the begin of the run's first copy to the end of its last one.
double PairMeter::tracedUs(const BlockRun &run) {
  int64_t begin = INT64_MAX, end = 0;
  for (const Span &span : device().tracer()->takeTrace()) {
    const bool isOfRun = span.tag.plan == &run.plan() && span.stream == 0;
    if (!isOfRun || run.plan().commands[span.tag.command].kind != CommandKind::Copy)
      continue;
    begin = std::min(begin, span.beginNs);
    end = std::max(end, span.endNs);
  }
  return end > begin ? static_cast<double>(end - begin) / 1e3 : 0;
}

/// The microseconds of a run on this rank, if it is timed. Ranks that only take part issue theirs
/// before all have met, so that nobody waits for them in a time.
Result<double> PairMeter::burst(const Attempt &attempt, int64_t runs) {
  using Kind = Moves::Kind;
  const Moves &moves = attempt.moves;
  const bool isTimed =
      moves.kind == Kind::Ring ||
      rank_ == (moves.kind == Kind::ThereAndBack
                    ? moves.source
                    : copyingRank(attempt.transfers.path, moves.source, moves.destination));
  Stopwatch *stopwatch = isTimed ? device().stopwatch() : nullptr;
  const bool isTraced = isTimed && !stopwatch && moves.kind != Kind::ThereAndBack;
  auto issueAll = [&] {
    for (int64_t i = 0; i < runs; ++i)
      attempt.run.issue();
  };
  if (!isTimed)
    issueAll();
  BRAID_TRY(meet());
  if (isTraced)
    (void)device().tracer()->takeTrace();
  const Clock::time_point start = Clock::now();
  if (stopwatch)
    stopwatch->startClock();
  if (isTimed)
    issueAll();
  if (stopwatch)
    stopwatch->stopClock();
  BRAID_TRY(device().synchronize());
  const double us = !isTimed    ? 0
                    : stopwatch ? stopwatch->clockedUs()
                    : isTraced  ? tracedUs(attempt.run)
                                : secondsSince(start) * 1e6;
  return us / static_cast<double>(runs);
}

/// A round that is not timed, unless its data are many; then one that is.
Result<PairMeter::RankTimes> PairMeter::time(const BlockTransfers &transfers, const Moves &moves) {
  std::unique_ptr<BlockRun> run = BRAID_TRY(runs_.make(transfers, moves));
  Attempt attempt{*run, transfers, moves, moves.turnOf(rank_, cluster_.ranks())};
  if (transfers.shape.bytes < kHeavyBytes) {
    BRAID_TRY(prepareRound(attempt));
    BRAID_TRY(burst(attempt, 1));
    const bool isRight = BRAID_TRY(compareRound(attempt));
    if (!isRight)
      return RankTimes();
  }
  BRAID_TRY(prepareRound(attempt));
  const double first = BRAID_TRY(burst(attempt, 1));
  const RankTimes firsts = BRAID_TRY(timesOfRanks(first));
  const double longest = *std::max_element(firsts.begin(), firsts.end());
  const auto runs = std::clamp<int64_t>(
      static_cast<int64_t>(effort_.burstUs / std::max(longest, 1.0)), 1, kMostRuns);
  std::vector<double> samples;
  for (int i = 0; i < kBursts; ++i)
    samples.push_back(BRAID_TRY(burst(attempt, runs)));
  const bool isRight = BRAID_TRY(compareRound(attempt));
  return isRight ? timesOfRanks(medianOf(samples)) : Result<RankTimes>(RankTimes());
}

// -- One pair. --

Status PairMeter::measureOneWay(Direction &direction, int64_t bytes) {
  const Path path = direction.work->path;
  const Moves &moves = direction.moves;
  if (rank_ == 0)
    say(lineOf(Measurement::Kind::Begin, path, bytes, moves.source, moves.destination));
  const BlockTransfers transfers = transfersOf(path, bytes);
  const RankTimes us = BRAID_TRY(time(transfers, moves));
  direction.isOver = us.empty();
  if (us.empty() || rank_ != 0)
    return Status::ok();
  Measurement line =
      lineOf(Measurement::Kind::Bandwidth, path, bytes, moves.source, moves.destination);
  line.value = bandwidth(transfers, *std::max_element(us.begin(), us.end()));
  say(line);
  return Status::ok();
}

/// Once for both directions, and only where each has been seen to work.
Status PairMeter::measureThereAndBack(std::vector<Direction> &directions, int64_t bytes) {
  const bool areBoth = directions.size() == 2 && llvm::none_of(directions, [&](auto &direction) {
                         return direction.isOver ||
                                !llvm::is_contained(direction.work->sizes, bytes);
                       });
  if (!areBoth || bytes > kMostForLatency)
    return Status::ok();
  const Path path = directions.front().work->path;
  Moves moves = directions.front().moves;
  moves.kind = Moves::Kind::ThereAndBack;
  const int64_t turns = std::clamp<int64_t>(effort_.turnBytes / bytes, 1, effort_.mostTurns);
  const BlockTransfers transfers{cluster_.ranks(), path, BlockShape::of(bytes, turns), turns};
  const RankTimes us = BRAID_TRY(time(transfers, moves));
  for (Direction &direction : directions) {
    direction.isOver = us.empty();
    if (us.empty() || rank_ != 0)
      continue;
    Measurement line = lineOf(Measurement::Kind::Latency, path, bytes, direction.moves.source,
                              direction.moves.destination);
    line.value = *std::max_element(us.begin(), us.end()) / static_cast<double>(2 * turns);
    say(line);
  }
  return Status::ok();
}

Status PairMeter::measureSize(std::vector<Direction> &directions, int64_t bytes) {
  nextRound_ = 0;
  for (Direction &direction : directions)
    if (!direction.isOver && llvm::is_contained(direction.work->sizes, bytes))
      BRAID_TRY(measureOneWay(direction, bytes));
  return measureThereAndBack(directions, bytes);
}

/// Two rows of blocks, and as much again for what others take meanwhile.
bool PairMeter::fits(int64_t bytes) {
  const auto needed = static_cast<double>(4 * BlockShape::of(bytes, effort_.most).allBytes());
  if (std::optional<int64_t> free = device().freeBytes())
    return needed <= static_cast<double>(*free);
  return needed * static_cast<double>(cluster_.ranks()) <= static_cast<double>(availableMemory());
}

/// From one size to the next, four times as many bytes take at most four times as long.
Status PairMeter::measurePath(std::vector<Direction> directions) {
  constexpr double kGrowth = 4.5;
  const Path path = directions.front().work->path;
  std::vector<int64_t> sizes;
  for (const Direction &direction : directions)
    llvm::append_range(sizes, direction.work->sizes);
  llvm::sort(sizes);
  sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
  const std::string lack = runs_.lackOf(path);
  for (const Direction &direction : directions)
    if (!lack.empty() && rank_ == 0) {
      Measurement line = lineOf(Measurement::Kind::Unavailable, path, 0, direction.moves.source,
                                direction.moves.destination);
      line.text = lack;
      say(line);
    }
  if (!lack.empty())
    return Status::ok();
  const Clock::time_point start = Clock::now();
  double last = 0;
  for (int64_t bytes : sizes) {
    const bool isInTime = rank_ != 0 || secondsSince(start) + kGrowth * last <= job_.seconds;
    const bool goesOn = BRAID_TRY(haveAll(isInTime && fits(bytes)));
    if (!goesOn)
      return Status::ok();
    const Clock::time_point begin = Clock::now();
    BRAID_TRY(measureSize(directions, bytes));
    last = secondsSince(begin);
  }
  return Status::ok();
}

// -- All at once. --

Status PairMeter::measureRing(const TogetherWork &work, int64_t shift) {
  const int64_t ranks = cluster_.ranks();
  Moves moves{.kind = Moves::Kind::Ring, .shift = shift};
  for (int64_t rank = 0; rank < ranks; ++rank)
    if (llvm::is_contained(work.without,
                           std::pair(deviceOf(rank), deviceOf((rank + shift) % ranks))))
      moves.silent.push_back(rank);
  const bool areMessages = work.path == Path::Messages;
  if (static_cast<int64_t>(moves.silent.size()) == ranks ||
      (areMessages && !moves.silent.empty())) // they go in groups, of all or of none
    return Status::ok();
  const HostPath::Turn turn = moves.turnOf(rank_, ranks);
  if (turn.to)
    say(lineOf(Measurement::Kind::Begin, work.path, work.bytes, rank_, *turn.to));
  const BlockTransfers transfers = transfersOf(work.path, work.bytes);
  const RankTimes us = BRAID_TRY(time(transfers, moves));
  if (us.empty() || !turn.to)
    return Status::ok();
  // A group of messages ends with the slower of its two.
  const auto own = static_cast<size_t>(rank_), peer = static_cast<size_t>(*turn.to);
  const double ofPair = areMessages ? std::min(us[own], us[peer])
                                    : us[static_cast<size_t>(copyingRank(work.path, rank_, *turn.to))];
  Measurement line =
      lineOf(Measurement::Kind::Together, work.path, work.bytes, rank_, *turn.to);
  line.value = bandwidth(transfers, ofPair);
  say(line);
  return Status::ok();
}

Status PairMeter::measureTogether(const TogetherWork &work) {
  const bool canDo = runs_.lackOf(work.path).empty();
  const bool goesOn = BRAID_TRY(haveAll(canDo && fits(work.bytes)));
  for (int64_t shift = 1; goesOn && shift < cluster_.ranks(); ++shift) {
    nextRound_ = 0;
    BRAID_TRY(measureRing(work, shift));
  }
  return Status::ok();
}

// -- All that is asked for. --

Status PairMeter::measure() {
  blocks_ = BRAID_TRY(Blocks::create(device()));
  if (!device().stopwatch() && !device().tracer())
    return unsupported("expected a device that times its copies, got '{}'", job_.backend);
  if (!device().stopwatch())
    device().tracer()->startTrace();
  std::vector<bool> isDone(job_.pairs.size(), false);
  for (size_t i = 0; i < job_.pairs.size(); ++i) {
    if (isDone[i])
      continue;
    std::vector<Direction> directions;
    for (size_t j = i; j < job_.pairs.size(); ++j) {
      const PairWork &one = job_.pairs[i], &other = job_.pairs[j];
      const bool isSame = one.source == other.source && one.destination == other.destination;
      const bool isBack = one.source == other.destination && one.destination == other.source;
      if (one.path != other.path || isDone[j] || !(isSame || isBack))
        continue;
      isDone[j] = true;
      directions.push_back({&other,
                            {.source = rankOf(other.source),
                             .destination = rankOf(other.destination)}});
    }
    BRAID_TRY(measurePath(std::move(directions)));
  }
  for (const TogetherWork &work : job_.together)
    BRAID_TRY(measureTogether(work));
  return Status::ok();
}

} // namespace braid
