//===- api/pairs/pair_meter.cpp - one of the two ranks that measure a pair --------------------===//

#include "api/pairs/block_plans.h"
#include "api/pairs/measure_pairs.h"
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

/// The largest transfer whose latency is measured. Larger transfers are limited by bandwidth.
constexpr int64_t kMostForLatency = int64_t(1) << 20;
constexpr int64_t kMostRowBytes = int64_t(16) << 20; ///< unless a single block is larger
constexpr int kBursts = 3;
constexpr double kMostRuns = 50; ///< per burst

/// The number of transfers in a run, and the target duration of a burst of runs.
struct Effort {
  int64_t runBytes, most; ///< one-way runs: target size in bytes, and maximum number of transfers
  int64_t turns;          ///< number of round trips
  double burstUs;
};
constexpr Effort kOnDevice{int64_t(1) << 30, 64, 32, 10000};
/// CPU ranks transfer less, because the cores that copy also do all other work.
constexpr Effort kOnHost{int64_t(4) << 20, 8, 4, 0};

/// Returns the mode for `path`. For messages, or without copy engines, this is the default mode.
TransferMode modeOf(Path path, Device &device) {
  if (path == Path::PutKernel || path == Path::GetKernel)
    return {CopyBy::Kernel};
  const TransferMode engine{CopyBy::Engine};
  const bool isOffered =
      path != Path::Messages && device.peerMemory() && device.peerMemory()->offers(engine);
  return isOffered ? engine : TransferMode();
}

/// Returns random bytes for a row. Each seed is used only once per job, so a byte from another run
/// or position is detected with a probability of 255/256.
std::vector<char> drawRow(uint64_t seed, int64_t bytes) {
  constexpr size_t kWord = sizeof(uint64_t);
  std::vector<char> row((static_cast<size_t>(bytes) + kWord - 1) / kWord * kWord);
  for (size_t at = 0; at < row.size(); at += kWord) {
    const uint64_t word = splitMix(mixBits(seed) + at / kWord * kSplitMixStep);
    std::memcpy(row.data() + at, &word, kWord);
  }
  row.resize(static_cast<size_t>(bytes));
  return row;
}

/// Measures the steps. Before a series of runs, the source is filled with random blocks, and the
/// destination with their complements. Only the result of the last run is checked, so that times
/// exclude filling and checking. A time is the maximum over both ranks.
class PairMeter {
public:
  /// `options` and `timer` must outlive this object.
  PairMeter(const MeterOptions &options, const Backend &backend, PlanTimer &timer)
      : options_(options), timer_(timer), device_(timer.device()), rank_(timer.rank()),
        effort_(device_.sharesHostMemory() ? kOnHost : kOnDevice),
        launchMode_(backend.hasGraphs ? LaunchMode::Graph : LaunchMode::Eager) {}

  Status measure() {
    Record record{.kind = Record::Kind::Device, .step = {Path::PutEngine, rank_}};
    const std::string text = device_.identity() + " " + device_.description();
    std::strncpy(record.text, text.c_str(), sizeof record.text - 1);
    write(record);
    for (int64_t number : options_.steps)
      if (number >= 0 && number < kSteps)
        BRAID_TRY(measure(Step::of(number)));
    return Status::ok();
  }

private:
  Status measure(const Step &step) {
    const bool hasLatency = step.source == 1 && right_ == Step{step.path, 0};
    right_.reset();
    for (int64_t bytes : options_.sizes) {
      const auto transfers = [&](int64_t count, bool andBack) -> BlockTransfers {
        const int64_t slots = std::clamp<int64_t>(kMostRowBytes / bytes, 1, count);
        return {step.path, step.source, andBack, bytes, slots, count};
      };
      const int64_t count = std::clamp<int64_t>(effort_.runBytes / bytes, 2, effort_.most);
      const BlockTransfers oneWay = transfers(count, /*andBack=*/false);
      if (BRAID_TRY(timer_.largest(fits(oneWay) ? 0 : 1)) != 0)
        break;
      write({Record::Kind::Begin, step, bytes});
      const std::optional<double> us = BRAID_TRY(time(oneWay));
      if (!us)
        return Status::ok();
      const auto moved = static_cast<double>(bytes * count);
      write({Record::Kind::Bandwidth, step, bytes, moved / std::max(*us, 1e-3) / 1e3});
      if (!hasLatency || bytes > kMostForLatency)
        continue;
      const std::optional<double> ofTurns =
          BRAID_TRY(time(transfers(effort_.turns, /*andBack=*/true)));
      if (!ofTurns)
        return Status::ok();
      write(
          {Record::Kind::Latency, step, bytes, *ofTurns / static_cast<double>(2 * effort_.turns)});
    }
    right_ = step;
    return Status::ok();
  }

  /// Returns true if there is enough memory for the rows to send and receive, plus the same amount
  /// for other users of the memory. The host needs two more rows per rank for the comparison.
  bool fits(const BlockTransfers &transfers) const {
    const auto needed = 4 * static_cast<double>(transfers.rowBytes());
    const std::optional<int64_t> free = device_.freeBytes();
    return (!free || needed <= static_cast<double>(*free)) &&
           (free ? 1 : 3) * needed <= static_cast<double>(availableMemory());
  }

  /// Performs one run as a warm-up, then times the following runs. Returns the time of a run in
  /// microseconds, or nullopt if wrong data arrived.
  Result<std::optional<double>> time(const BlockTransfers &transfers) {
    std::vector<Plan> plans = BRAID_TRY(blockPlans(transfers));
    TimedPlan plan =
        BRAID_TRY(timer_.makeReady(std::move(plans), launchMode_, modeOf(transfers.path, device_)));
    const std::optional<double> first =
        BRAID_TRY(checked(plan, transfers, [&] { return timer_.timeRuns(plan, 1); }));
    return first ? checked(plan, transfers, [&] { return usualTime(plan); }) : first;
  }

  /// Fills the rows, calls `run`, and compares the received data with the sent data. Returns the
  /// result of `run`, or nullopt if wrong data arrived at either rank.
  Result<std::optional<double>> checked(const TimedPlan &plan, const BlockTransfers &transfers,
                                        llvm::function_ref<Result<double>()> run) {
    ++round_;
    const int64_t peer = 1 - rank_, bytes = transfers.rowBytes();
    const auto draw = [&](int64_t sender) {
      return drawRow(2 * round_ + static_cast<uint64_t>(sender), bytes);
    };
    char *const sent = static_cast<char *>(plan.address(kBlocks)), *const received = sent + bytes;
    if (transfers.sends(rank_))
      BRAID_TRY(copy(sent, draw(rank_).data(), bytes));
    std::vector<char> expected, got;
    if (transfers.sends(peer)) {
      expected = got = draw(peer);
      for (char &byte : got)
        byte = static_cast<char>(~byte);
      BRAID_TRY(copy(received, got.data(), bytes));
    }
    const double us = BRAID_TRY(run());
    if (transfers.sends(peer))
      BRAID_TRY(copy(got.data(), received, bytes));
    const auto [right, wrong] = std::mismatch(expected.begin(), expected.end(), got.begin());
    const bool isWrong = wrong != got.end();
    if (isWrong)
      write({.kind = Record::Kind::Wrong,
             .step = {transfers.path, peer},
             .wrong = {transfers.bytes, (wrong - got.begin()) % transfers.bytes,
                       static_cast<uint8_t>(*right), static_cast<uint8_t>(*wrong)}});
    const bool isWrongAnywhere = BRAID_TRY(timer_.largest(isWrong ? 1 : 0)) != 0;
    return isWrongAnywhere ? std::nullopt : std::optional(us);
  }

  /// Returns the median time of a few bursts, or the minimum if the host's cores copy the data,
  /// because other work on the host can only increase the time.
  Result<double> usualTime(TimedPlan &plan) {
    const double mine = BRAID_TRY(timer_.timeRuns(plan, 1));
    const double first = BRAID_TRY(timer_.largest(mine));
    const double runs = std::clamp(effort_.burstUs / std::max(first, 1.0), 1.0, kMostRuns);
    std::vector<double> us;
    for (int i = 0; i < kBursts; ++i)
      us.push_back(BRAID_TRY(timer_.timeRuns(plan, static_cast<int64_t>(runs))));
    return timer_.largest(device_.sharesHostMemory() ? *std::min_element(us.begin(), us.end())
                                                     : median(us));
  }

  Status copy(void *to, const void *from, int64_t bytes) {
    device_.copy(0, {}, to, from, bytes);
    return device_.synchronize();
  }

  /// Both ranks have the results, so only rank 0 writes them. Both ranks write Begin, because a
  /// rank may fail in a step before the other rank starts the step. Ignores write errors, because a
  /// command that stops reading also ends its ranks.
  void write(const Record &record) const {
    const bool isResult =
        record.kind == Record::Kind::Bandwidth || record.kind == Record::Kind::Latency;
    if (rank_ == 0 || !isResult)
      (void)writeAll(options_.results, {reinterpret_cast<const char *>(&record), sizeof record});
  }

  const MeterOptions &options_;
  PlanTimer &timer_;
  Device &device_;
  const int64_t rank_;
  const Effort &effort_;
  const LaunchMode launchMode_;
  uint64_t round_ = 0;
  std::optional<Step> right_; ///< the last step, if all of its data was correct
};

} // namespace

Status measureSteps(const MeterOptions &options, const Backend &backend, PlanTimer &timer) {
  return PairMeter(options, backend, timer).measure();
}

Status measureAsRank(const Backend &backend, const MeterOptions &options) {
  const Result<std::optional<Place>> place = findPlace(processEnvironment());
  if (!place || !*place || (*place)->ranks != 2)
    return badInput("this process is not one of the two ranks that braid p2p starts");
  // Use a practically infinite timeout, because the command detects hangs itself and does not count
  // the time during which it is stopped.
  const auto job =
      BRAID_TRY(JobState::join(backend, {.ranks = 2, .timeout = std::chrono::hours(24)}, **place));
  PlanTimer timer(*job->cluster, (*place)->rank, job->trials.front());
  Status status = measureSteps(options, backend, timer);
  if (status.isOk())
    status = job->cluster->commit();
  if (!status.isOk())
    status = job->cluster->fail(status);
  if (job->cluster->isStuck()) // a transfer that never ends still uses local objects
    std::_Exit(static_cast<int>(status.code()));
  return status;
}

} // namespace braid
