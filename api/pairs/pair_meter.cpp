//===- api/pairs/pair_meter.cpp - one rank of the two that measure a pair ---------------------===//

#include "api/pairs/pair_meter.h"

#include "api/launch/job_rank.h"
#include "api/pairs/blocks.h"
#include "api/ranks/job_state.h"
#include "ir/failure.h"
#include "runtime/files.h"
#include "runtime/memory_limit.h"
#include "runtime/split_mix.h"
#include "runtime/tune/median.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

namespace braid {
namespace {

using Clock = std::chrono::steady_clock;

/// The latency of larger transfers is that of their bytes.
constexpr int64_t kMostForLatency = int64_t(1) << 20;
constexpr int64_t kMostRowBytes = int64_t(16) << 20; ///< unless a single block is larger
constexpr int kBursts = 3;
constexpr double kMostRuns = 50; ///< in a burst

/// The number of transfers in a run, and the length of a burst of runs.
struct Effort {
  int64_t runBytes, most; ///< one way
  int64_t turns;          ///< there and back
  double burstUs;
};
constexpr Effort kOnDevice{int64_t(1) << 30, 64, 32, 10000};
/// Cores that copy also have to do everything else.
constexpr Effort kOnHost{int64_t(4) << 20, 8, 4, 0};

const Effort &effortOn(const Device &device) {
  return device.sharesHostMemory() ? kOnHost : kOnDevice;
}

BlockTransfers transfersOf(const Step &step, int64_t bytes, int64_t count, bool andBack) {
  const int64_t slots = std::clamp<int64_t>(kMostRowBytes / bytes, 1, count);
  return {step.path, step.source, andBack, bytes, slots, count};
}

Record recordOf(Record::Kind kind, const Step &step, const std::string &text = "") {
  Record record;
  record.kind = kind;
  record.step = step;
  std::strncpy(record.text, text.c_str(), sizeof record.text - 1);
  return record;
}

} // namespace

/// A command that reads no longer ends its ranks, so a failure to write matters to nobody.
void PairMeter::write(const Record &record) const {
  (void)writeAll(options_.results, {reinterpret_cast<const char *>(&record), sizeof record});
}

/// Rank 0 writes what both ranks know. Both write Begin, because a rank may fail at what it begins
/// before the other rank gets there.
void PairMeter::write(Record::Kind kind, const Step &step, int64_t bytes, double value) const {
  Record record = recordOf(kind, step);
  record.bytes = bytes;
  record.value = value;
  if (rank_ == 0 || kind == Record::Kind::Begin)
    write(record);
}

/// The larger one of both ranks' numbers. Both have called it when it returns.
Result<double> PairMeter::largest(double mine) {
  const std::vector<std::string> all =
      BRAID_TRY(cluster_.control(rank_).allGather(fmt::format("{}", mine)));
  return std::max(std::strtod(all[0].c_str(), nullptr), std::strtod(all[1].c_str(), nullptr));
}

/// Rows that are sent and received, and as much again for what others take meanwhile.
bool PairMeter::fits(const BlockTransfers &transfers) const {
  const auto needed = 4 * static_cast<double>(transfers.rowBytes());
  const std::optional<int64_t> free = device().freeBytes();
  return free ? needed <= static_cast<double>(*free)
              : 2 * needed <= static_cast<double>(availableMemory());
}

// -- One round. --

uint64_t PairMeter::seedOf(int64_t sender) const {
  return 2 * round_ + static_cast<uint64_t>(sender);
}

Status PairMeter::prepareRound(BlockRun &run, const BlockTransfers &transfers) {
  ++round_;
  const int64_t peer = 1 - rank_, bytes = transfers.rowBytes();
  if (transfers.sends(rank_))
    BRAID_TRY(fillBlocks(device(), run.sent, bytes, seedOf(rank_), Drawn::Bytes));
  if (transfers.sends(peer))
    BRAID_TRY(fillBlocks(device(), run.received, bytes, seedOf(peer), Drawn::Complement));
  return Status::ok();
}

/// Whether both ranks have received what was sent.
Result<bool> PairMeter::compareRound(BlockRun &run, const BlockTransfers &transfers) {
  const int64_t peer = 1 - rank_, bytes = transfers.rowBytes();
  std::optional<WrongData> wrong;
  if (transfers.sends(peer))
    wrong = BRAID_TRY(compareBlocks(device(), run.received, bytes, seedOf(peer)));
  if (wrong) {
    Record record = recordOf(Record::Kind::Wrong, {transfers.path, peer});
    record.wrong = *wrong;
    record.wrong.bytes = transfers.bytes;
    record.wrong.offset %= transfers.bytes;
    write(record);
  }
  const double isWrong = BRAID_TRY(largest(wrong ? 1 : 0));
  return isWrong == 0;
}

/// The microseconds of one of `runs` runs, by the device's clock if it has one.
Result<double> PairMeter::burst(BlockRun &run, int64_t runs) {
  Stopwatch *stopwatch = device().stopwatch();
  BRAID_TRY(largest(0));
  const Clock::time_point start = Clock::now();
  if (stopwatch)
    stopwatch->startClock();
  for (int64_t i = 0; i < runs; ++i)
    run.issue();
  if (stopwatch)
    stopwatch->stopClock();
  BRAID_TRY(device().synchronize());
  const std::chrono::duration<double, std::micro> onHost = Clock::now() - start;
  return (stopwatch ? stopwatch->clockedUs() : onHost.count()) / static_cast<double>(runs);
}

/// The median of some bursts. Where the host's cores copy, whatever else uses them only adds to a
/// time, and the shortest says most.
Result<double> PairMeter::usualTime(BlockRun &run) {
  const double mine = BRAID_TRY(burst(run, 1));
  const double first = BRAID_TRY(largest(mine));
  const double runs = effortOn(device()).burstUs / std::max(first, 1.0);
  std::vector<double> us;
  for (int i = 0; i < kBursts; ++i)
    us.push_back(BRAID_TRY(burst(run, static_cast<int64_t>(std::clamp(runs, 1.0, kMostRuns)))));
  const bool isOnHost = device().sharesHostMemory();
  return largest(isOnHost ? *std::min_element(us.begin(), us.end()) : median(us));
}

/// Runs two rounds, and times the second one.
Result<std::optional<double>> PairMeter::time(const BlockTransfers &transfers) {
  BlockRun run = BRAID_TRY(runs_.make(transfers));
  BRAID_TRY(prepareRound(run, transfers));
  BRAID_TRY(burst(run, 1));
  const bool isRight = BRAID_TRY(compareRound(run, transfers));
  if (!isRight)
    return std::optional<double>();
  BRAID_TRY(prepareRound(run, transfers));
  const double us = BRAID_TRY(usualTime(run));
  const bool isStillRight = BRAID_TRY(compareRound(run, transfers));
  return isStillRight ? std::optional(us) : std::nullopt;
}

// -- All steps. --

Status PairMeter::measure(const Step &step) {
  const Effort &effort = effortOn(device());
  const bool hasLatency = step.source == 1 && right_ == Step{step.path, 0};
  right_.reset();
  for (int64_t bytes : options_.sizes) {
    const int64_t count = std::clamp<int64_t>(effort.runBytes / bytes, 2, effort.most);
    const BlockTransfers oneWay = transfersOf(step, bytes, count, false);
    const double lacksMemory = BRAID_TRY(largest(fits(oneWay) ? 0 : 1));
    if (lacksMemory != 0)
      break;
    write(Record::Kind::Begin, step, bytes, 0);
    const std::optional<double> us = BRAID_TRY(time(oneWay));
    if (!us)
      return Status::ok();
    const auto moved = static_cast<double>(bytes * count);
    write(Record::Kind::Bandwidth, step, bytes, moved / std::max(*us, 1e-3) / 1e3);
    if (!hasLatency || bytes > kMostForLatency)
      continue;
    const BlockTransfers turns = transfersOf(step, bytes, effort.turns, true);
    const std::optional<double> ofTurns = BRAID_TRY(time(turns));
    if (!ofTurns)
      return Status::ok();
    write(Record::Kind::Latency, step, bytes, *ofTurns / static_cast<double>(2 * turns.count));
  }
  right_ = step;
  return Status::ok();
}

Status PairMeter::measure() {
  write(recordOf(Record::Kind::Device, {Path::PutEngine, rank_},
                 device().identity() + " " + device().description()));
  for (const Step &step : options_.steps)
    BRAID_TRY(measure(step));
  return Status::ok();
}

Status measureAsRank(const Backend &backend, const MeterOptions &options) {
  const Result<std::optional<Place>> place = findPlace(processEnvironment());
  if (!place || !*place || (*place)->ranks != 2)
    return badInput("expected to be one of two ranks that measure");
  std::unique_ptr<JobRank> rank = BRAID_TRY(JobRank::join(**place));
  std::deque<std::vector<Plan>> plans; // outlives the devices
  // The command knows better when a transfer has hung: it may have been stopped meanwhile.
  const auto job = BRAID_TRY(
      JobState::join(backend, {.ranks = 2, .timeout = std::chrono::hours(24)}, std::move(rank)));
  PairMeter meter(options, backend, *job->cluster, (*place)->rank, plans);
  Status status = meter.measure();
  if (status.isOk())
    status = job->cluster->commit();
  if (!status.isOk())
    status = job->cluster->fail(status);
  if (job->cluster->isStuck()) // a transfer that never ends still uses what is here
    std::_Exit(static_cast<int>(status.code()));
  return status;
}

} // namespace braid
