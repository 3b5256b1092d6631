//===- api/pairs/pair_meter.cpp - one rank of those that measure ------------------------------===//

#include "api/pairs/pair_meter.h"

#include "api/pairs/pair_figures.h"
#include "api/pairs/time_for_sizes.h"
#include "api/timing/seconds_since.h"
#include "ir/failure.h"
#include "runtime/files.h"
#include "runtime/memory_limit.h"

#include "llvm/ADT/STLExtras.h"

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
constexpr int64_t kMostRuns = 50;    ///< of a burst
constexpr int64_t kMostTogether = 8; ///< transfers of a pair while all run

constexpr Effort kOnDevice{int64_t(1) << 30, 2, 64, int64_t(4) << 20, 32, 2000};
/// Cores that copy also have to do everything else.
constexpr Effort kOnHost{int64_t(4) << 20, 2, 8, int64_t(1) << 20, 4, 0};

/// Of several times the usual one. Where the host's own cores copy, others that use them can only
/// add to a time: there the least one says most.
double usualOf(const std::vector<double> &us, const Device &device) {
  return device.sharesHostMemory() ? *std::min_element(us.begin(), us.end()) : medianOf(us);
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
  for (const Moves::End &to : attempt.to)
    BRAID_TRY(blocks_->fill(attempt.run.mine() + to.row * shape.allBytes(), shape,
                            keyOf(rank_, to.peer, attempt)));
  for (const Moves::End &from : attempt.from)
    BRAID_TRY(blocks_->poison(attempt.run.theirs() + from.row * shape.allBytes(), shape,
                              keyOf(from.peer, rank_, attempt)));
  return Status::ok();
}

/// Whether all ranks have what they should. Says what is wrong of each pair.
Result<bool> PairMeter::compareRound(const Attempt &attempt) {
  const BlockShape &shape = attempt.transfers.shape;
  bool isRight = true;
  for (const Moves::End &from : attempt.from) {
    const char *row = attempt.run.theirs() + from.row * shape.allBytes();
    const std::optional<WrongData> wrong =
        BRAID_TRY(blocks_->compare(row, shape, keyOf(from.peer, rank_, attempt)));
    if (!wrong)
      continue;
    isRight = false;
    Measurement line =
        lineOf(Measurement::Kind::Wrong, attempt.transfers.path, shape.bytes, from.peer, rank_);
    line.wrong = *wrong;
    say(line);
  }
  return haveAll(isRight);
}

void PairMeter::startTrace() {
  if (!std::exchange(isTracing_, true))
    device().tracer()->startTrace();
}

/// By peer, of what was done since this was asked before: from the begin of this rank's first copy
/// to or from it, or message, to the end of the last one.
std::vector<double> PairMeter::tracedUs(const Attempt &attempt) {
  const Plan &plan = attempt.run.plan();
  const auto copying = recipeOf(attempt.transfers.path).protocol == Protocol::Get
                           ? Direction::Receive
                           : Direction::Send;
  std::vector<std::pair<int64_t, int64_t>> spans(static_cast<size_t>(cluster_.ranks()),
                                                 {INT64_MAX, 0});
  const auto take = [&](int64_t peer, const Span &span) {
    auto &[begin, end] = spans[static_cast<size_t>(peer)];
    begin = std::min(begin, span.beginNs);
    end = std::max(end, span.endNs);
  };
  for (const Span &span : device().tracer()->takeTrace()) {
    if (span.tag.plan != &plan)
      continue;
    const Command &command = plan.commands[span.tag.command];
    if (command.kind == CommandKind::Copy && command.endpoint != kNone &&
        plan.endpoints[command.endpoint].direction == copying)
      take(plan.endpoints[command.endpoint].peer, span);
    if (command.kind == CommandKind::Group)
      for (const PlanMessage &message : plan.groups[command.group])
        if (message.direction == Direction::Receive)
          take(message.peer, span);
  }
  std::vector<double> us;
  for (const auto &[begin, end] : spans)
    us.push_back(end > begin ? static_cast<double>(end - begin) / 1e3 : 0);
  return us;
}

/// The microseconds of a run of one pair on this rank, if it is timed. A rank that only takes part
/// begins before all have met, so that nobody waits for it in a time; but it issues no more than
/// its device takes until the other side is there.
Result<double> PairMeter::burst(const Attempt &attempt, int64_t runs) {
  const Moves &moves = attempt.moves;
  const bool areTurns = moves.kind == Moves::Kind::ThereAndBack;
  const int64_t timed = areTurns
                            ? moves.source
                            : copyingRank(attempt.transfers.path, moves.source, moves.destination);
  const bool isTimed = rank_ == timed;
  Stopwatch *stopwatch = isTimed ? device().stopwatch() : nullptr;
  const bool isTraced = isTimed && isTracing_ && !areTurns;
  auto issue = [&](int64_t count) {
    for (int64_t i = 0; i < count; ++i)
      attempt.run.issue();
  };
  const int64_t ahead = isTimed ? 0 : std::min(runs, attempt.run.mostAhead());
  issue(ahead);
  BRAID_TRY(meet());
  const Clock::time_point start = Clock::now();
  if (stopwatch)
    stopwatch->startClock();
  issue(runs - ahead);
  if (stopwatch)
    stopwatch->stopClock();
  BRAID_TRY(device().synchronize());
  const std::vector<double> traced = isTracing_ ? tracedUs(attempt) : std::vector<double>();
  const int64_t peer = rank_ == moves.source ? moves.destination : moves.source;
  const double us = !isTimed    ? 0
                    : stopwatch ? stopwatch->clockedUs()
                    : isTraced  ? traced[static_cast<size_t>(peer)]
                                : secondsSince(start) * 1e6;
  return us / static_cast<double>(runs);
}

/// A round that is not timed, unless its data are many; then one that is.
Result<PairMeter::MaybeUs> PairMeter::time(const BlockTransfers &transfers, const Moves &moves) {
  std::unique_ptr<BlockRun> run = BRAID_TRY(runs_.make(transfers, moves));
  Attempt attempt{*run, transfers, moves, moves.sendsOf(rank_, transfers.ranks),
                  moves.receivesOf(rank_, transfers.ranks)};
  if (transfers.shape.bytes < kHeavyBytes) {
    BRAID_TRY(prepareRound(attempt));
    BRAID_TRY(burst(attempt, 1));
    const bool isRight = BRAID_TRY(compareRound(attempt));
    if (!isRight)
      return MaybeUs();
  }
  BRAID_TRY(prepareRound(attempt));
  const double first = BRAID_TRY(burst(attempt, 1));
  const std::vector<double> longest = BRAID_TRY(maximaOverRanks(control(), {first}));
  const auto runs = std::clamp<int64_t>(
      static_cast<int64_t>(effort_.burstUs / std::max(longest.front(), 1.0)), 1, kMostRuns);
  std::vector<double> samples;
  for (int i = 0; i < kBursts; ++i)
    samples.push_back(BRAID_TRY(burst(attempt, runs)));
  const bool isRight = BRAID_TRY(compareRound(attempt));
  if (!isRight)
    return MaybeUs();
  const std::vector<double> us =
      BRAID_TRY(maximaOverRanks(control(), {usualOf(samples, device())}));
  return MaybeUs(us.front());
}

// -- One pair. --

Status PairMeter::measureOneWay(Way &way, int64_t bytes) {
  const Path path = way.work->path;
  const Moves &moves = way.moves;
  if (rank_ == 0)
    say(lineOf(Measurement::Kind::Begin, path, bytes, moves.source, moves.destination));
  const BlockTransfers transfers = transfersOf(path, bytes);
  const MaybeUs us = BRAID_TRY(time(transfers, moves));
  way.isOver = !us;
  if (!us || rank_ != 0)
    return Status::ok();
  Measurement line =
      lineOf(Measurement::Kind::Bandwidth, path, bytes, moves.source, moves.destination);
  line.value = bandwidth(transfers, *us);
  say(line);
  return Status::ok();
}

/// Once for both ways, and only where each has been seen to work.
Status PairMeter::measureThereAndBack(std::vector<Way> &ways, int64_t bytes) {
  const bool areBoth = ways.size() == 2 && llvm::none_of(ways, [&](auto &way) {
                         return way.isOver || !llvm::is_contained(way.work->sizes, bytes);
                       });
  if (!areBoth || bytes > kMostForLatency)
    return Status::ok();
  const Path path = ways.front().work->path;
  Moves moves = ways.front().moves;
  moves.kind = Moves::Kind::ThereAndBack;
  const int64_t turns = std::clamp<int64_t>(effort_.turnBytes / bytes, 1, effort_.mostTurns);
  const BlockTransfers transfers{cluster_.ranks(), path, BlockShape::of(bytes, turns), turns};
  const MaybeUs us = BRAID_TRY(time(transfers, moves));
  for (Way &way : ways) {
    way.isOver = !us;
    if (!us || rank_ != 0)
      continue;
    Measurement line =
        lineOf(Measurement::Kind::Latency, path, bytes, way.moves.source, way.moves.destination);
    line.value = *us / static_cast<double>(2 * turns);
    say(line);
  }
  return Status::ok();
}

Status PairMeter::measureSize(std::vector<Way> &ways, int64_t bytes) {
  nextRound_ = 0;
  for (Way &way : ways)
    if (!way.isOver && llvm::is_contained(way.work->sizes, bytes))
      BRAID_TRY(measureOneWay(way, bytes));
  return measureThereAndBack(ways, bytes);
}

/// Rows that are sent and received, and as much again for what others take meanwhile.
bool PairMeter::fits(int64_t bytes, int64_t rows) {
  const auto needed =
      static_cast<double>(4 * rows * BlockShape::of(bytes, effort_.most).allBytes());
  if (std::optional<int64_t> free = device().freeBytes())
    return needed <= static_cast<double>(*free);
  return needed * static_cast<double>(cluster_.ranks()) <= static_cast<double>(availableMemory());
}

bool PairMeter::lacks(const std::vector<Way> &ways) {
  const std::string lack = runs_.lackOf(ways.front().work->path);
  for (const Way &way : ways)
    if (!lack.empty() && rank_ == 0) {
      Measurement line = lineOf(Measurement::Kind::Unavailable, way.work->path, 0, way.moves.source,
                                way.moves.destination);
      line.text = lack;
      say(line);
    }
  return !lack.empty();
}

/// What has to be opened and connected before the first transfer is no part of the time of a size.
Status PairMeter::open(const Way &way, int64_t bytes) {
  const Path path = way.work->path;
  if (rank_ == 0)
    say(lineOf(Measurement::Kind::Begin, path, bytes, way.moves.source, way.moves.destination));
  return runs_.make(transfersOf(path, bytes), way.moves).status();
}

/// Rank 0 has the clock.
Status PairMeter::measurePath(std::vector<Way> ways) {
  std::vector<int64_t> sizes;
  for (const Way &way : ways)
    llvm::append_range(sizes, way.work->sizes);
  llvm::sort(sizes);
  sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
  if (lacks(ways) || sizes.empty())
    return Status::ok();
  BRAID_TRY(open(ways.front(), sizes.front()));
  const Clock::time_point start = Clock::now();
  TimeForSizes time(sizes, job_.seconds);
  for (size_t i = 0; i < sizes.size(); ++i) {
    const bool isInTime = rank_ != 0 || time.has(i, secondsSince(start));
    const bool isMeasured = BRAID_TRY(haveAll(isInTime && fits(sizes[i], 1)));
    if (!isMeasured)
      continue;
    const Clock::time_point begin = Clock::now();
    BRAID_TRY(measureSize(ways, sizes[i]));
    time.measured(i, secondsSince(begin));
  }
  return Status::ok();
}

// -- All at once. --

/// The times of pairs are told apart by the copies; a group of messages is one whole, so of more
/// than two ranks nothing is known about pairs.
Status PairMeter::measureTogether(int64_t number) {
  const TogetherWork &work = job_.together[static_cast<size_t>(number)];
  const int64_t ranks = cluster_.ranks();
  Moves moves{.kind = Moves::Kind::Together};
  for (const auto &[source, destination] : work.without)
    moves.without.emplace_back(rankOf(source), rankOf(destination));
  const bool canDo =
      runs_.lackOf(work.path).empty() && work.path != Path::Messages && device().tracer();
  const bool goesOn = BRAID_TRY(haveAll(canDo && fits(work.bytes, ranks)));
  if (!goesOn)
    return Status::ok();
  nextRound_ = 0;
  BlockTransfers transfers = transfersOf(work.path, work.bytes);
  transfers.count = std::min(transfers.count, kMostTogether);
  transfers.shape = BlockShape::of(work.bytes, 1);
  std::unique_ptr<BlockRun> run = BRAID_TRY(runs_.make(transfers, moves));
  Attempt attempt{*run, transfers, moves, moves.sendsOf(rank_, ranks),
                  moves.receivesOf(rank_, ranks)};
  BRAID_TRY(prepareRound(attempt));
  std::vector<std::vector<double>> samples; // by peer
  startTrace();
  (void)tracedUs(attempt);
  for (int i = 0; i < kBursts; ++i) {
    for (const Moves::End &to : attempt.to)
      say(lineOf(Measurement::Kind::Begin, work.path, work.bytes, rank_, to.peer));
    BRAID_TRY(meet());
    run->issue();
    BRAID_TRY(device().synchronize());
    samples.push_back(tracedUs(attempt));
  }
  BRAID_TRY(compareRound(attempt));
  const bool gets = recipeOf(work.path).protocol == Protocol::Get;
  for (const Moves::End &end : gets ? attempt.from : attempt.to) {
    std::vector<double> us;
    for (const std::vector<double> &sample : samples)
      us.push_back(sample[static_cast<size_t>(end.peer)]);
    Measurement line = lineOf(Measurement::Kind::Together, work.path, work.bytes,
                              gets ? end.peer : rank_, gets ? rank_ : end.peer);
    line.value = bandwidth(transfers, usualOf(us, device()));
    line.work = number;
    say(line);
  }
  return Status::ok();
}

// -- All that is asked for. --

Status PairMeter::measure() {
  blocks_ = BRAID_TRY(Blocks::create(device()));
  if (!device().stopwatch() && device().tracer())
    startTrace();
  std::vector<bool> isDone(job_.pairs.size(), false);
  for (size_t i = 0; i < job_.pairs.size(); ++i) {
    if (isDone[i])
      continue;
    std::vector<Way> ways;
    for (size_t j = i; j < job_.pairs.size(); ++j) {
      const PairWork &one = job_.pairs[i], &other = job_.pairs[j];
      const bool isSame = one.source == other.source && one.destination == other.destination;
      const bool isBack = one.source == other.destination && one.destination == other.source;
      if (one.path != other.path || isDone[j] || !(isSame || isBack))
        continue;
      isDone[j] = true;
      ways.push_back(
          {&other, {.source = rankOf(other.source), .destination = rankOf(other.destination)}});
    }
    BRAID_TRY(measurePath(std::move(ways)));
  }
  for (size_t number = 0; number < job_.together.size(); ++number)
    BRAID_TRY(measureTogether(static_cast<int64_t>(number)));
  return Status::ok();
}

} // namespace braid
