//===- api/pairs/pair_meter.cpp - one of the two ranks that measure a pair --------------------===//

#include "api/pairs/pair_meter.h"

#include "api/ranks/job_state.h"
#include "ir/failure.h"
#include "runtime/files.h"
#include "runtime/memory_limit.h"
#include "runtime/split_mix.h"
#include "runtime/tune/median.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

namespace braid {
namespace {

/// The largest transfer whose latency is measured. Bandwidth dominates the time of larger ones.
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

const Effort &effortOn(const Device &device) {
  return device.sharesHostMemory() ? kOnHost : kOnDevice;
}

BlockTransfers transfersOf(const Step &step, int64_t bytes, int64_t count, bool andBack) {
  const int64_t slots = std::clamp<int64_t>(kMostRowBytes / bytes, 1, count);
  return {step.path, step.source, andBack, bytes, slots, count};
}

/// Returns the mode for `path`. If the device cannot copy by engine, returns its default mode.
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

} // namespace

/// Ignores write errors: when the command stops reading, it also ends its ranks.
void PairMeter::write(const Record &record) const {
  // Both ranks know the results, so only rank 0 writes them. Both ranks write Begin, because a rank
  // may fail in a step before the other rank starts the step.
  const bool isResult =
      record.kind == Record::Kind::Bandwidth || record.kind == Record::Kind::Latency;
  if (rank() == 0 || !isResult)
    (void)writeAll(options_.results, {reinterpret_cast<const char *>(&record), sizeof record});
}

/// Returns true if there is enough memory for the rows to send and receive, plus as much again for
/// other users of the memory. The host needs two more rows per rank for the comparison.
bool PairMeter::fits(const BlockTransfers &transfers) const {
  const auto needed = 4 * static_cast<double>(transfers.rowBytes());
  const std::optional<int64_t> free = device().freeBytes();
  return (!free || needed <= static_cast<double>(*free)) &&
         (free ? 1 : 3) * needed <= static_cast<double>(availableMemory());
}

// -- One run. --

Result<PairMeter::BlockRun> PairMeter::prepareRun(const BlockTransfers &transfers) {
  std::vector<Plan> plans = BRAID_TRY(blockPlans(transfers));
  const std::vector<PlanBuffer> &buffers = plans.front().buffers;
  const auto rows = llvm::find_if(
      buffers, [](const PlanBuffer &buffer) { return buffer.kind == BufferKind::Symmetric; });
  const auto number = static_cast<uint32_t>(rows - buffers.begin());
  BlockRun run{
      BRAID_TRY(timer_.makeReady(std::move(plans), launchMode_, modeOf(transfers.path, device()))),
      nullptr, nullptr};
  run.sent = static_cast<char *>(run.plan.address(number));
  run.received = run.sent + transfers.rowBytes();
  return run;
}

uint64_t PairMeter::seedOf(int64_t sender) const {
  return 2 * round_ + static_cast<uint64_t>(sender);
}

Status PairMeter::copy(void *to, const void *from, int64_t bytes) {
  device().copy(0, {}, to, from, bytes);
  return device().synchronize();
}

/// Fills the source with random bytes, and the destination with the complement of the expected
/// bytes, so that every byte that is not overwritten is wrong.
Status PairMeter::fillRows(const BlockRun &run, const BlockTransfers &transfers) {
  ++round_;
  const int64_t peer = 1 - rank(), bytes = transfers.rowBytes();
  if (transfers.sends(rank()))
    BRAID_TRY(copy(run.sent, drawRow(seedOf(rank()), bytes).data(), bytes));
  if (!transfers.sends(peer))
    return Status::ok();
  std::vector<char> complement = drawRow(seedOf(peer), bytes);
  for (char &byte : complement)
    byte = static_cast<char>(~byte);
  return copy(run.received, complement.data(), bytes);
}

/// Returns true if both ranks have received the correct bytes. Otherwise, writes Wrong records.
Result<bool> PairMeter::compareRow(const BlockRun &run, const BlockTransfers &transfers) {
  const int64_t peer = 1 - rank(), bytes = transfers.rowBytes();
  bool isRight = true;
  if (transfers.sends(peer)) {
    const std::vector<char> expected = drawRow(seedOf(peer), bytes);
    std::vector<char> got(expected.size());
    BRAID_TRY(copy(got.data(), run.received, bytes));
    const auto [right, wrong] = std::mismatch(expected.begin(), expected.end(), got.begin());
    isRight = wrong == got.end();
    if (!isRight)
      write({.kind = Record::Kind::Wrong,
             .step = {transfers.path, peer},
             .wrong = {transfers.bytes, (wrong - got.begin()) % transfers.bytes,
                       static_cast<uint8_t>(*right), static_cast<uint8_t>(*wrong)}});
  }
  return BRAID_TRY(timer_.largest(isRight ? 0 : 1)) == 0;
}

/// Returns the median time of a few bursts, or the minimum if the host's cores copy, because other
/// work on the host can only add to the time.
Result<double> PairMeter::usualTime(TimedPlan &plan) {
  const double mine = BRAID_TRY(timer_.timeRuns(plan, 1));
  const double first = BRAID_TRY(timer_.largest(mine));
  const double runs = std::clamp(effortOn(device()).burstUs / std::max(first, 1.0), 1.0, kMostRuns);
  std::vector<double> us;
  for (int i = 0; i < kBursts; ++i)
    us.push_back(BRAID_TRY(timer_.timeRuns(plan, static_cast<int64_t>(runs))));
  return timer_.largest(device().sharesHostMemory() ? *std::min_element(us.begin(), us.end())
                                                    : median(us));
}

/// Fills the rows, runs and compares twice. Times only the second run.
Result<std::optional<double>> PairMeter::time(const BlockTransfers &transfers) {
  BlockRun run = BRAID_TRY(prepareRun(transfers));
  BRAID_TRY(fillRows(run, transfers));
  BRAID_TRY(timer_.timeRuns(run.plan, 1));
  if (!BRAID_TRY(compareRow(run, transfers)))
    return std::optional<double>();
  BRAID_TRY(fillRows(run, transfers));
  const double us = BRAID_TRY(usualTime(run.plan));
  return BRAID_TRY(compareRow(run, transfers)) ? std::optional(us) : std::nullopt;
}

// -- All steps. --

Status PairMeter::measure(const Step &step) {
  const Effort &effort = effortOn(device());
  const bool hasLatency = step.source == 1 && right_ == Step{step.path, 0};
  right_.reset();
  for (int64_t bytes : options_.sizes) {
    const int64_t count = std::clamp<int64_t>(effort.runBytes / bytes, 2, effort.most);
    const BlockTransfers oneWay = transfersOf(step, bytes, count, false);
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
    const BlockTransfers turns = transfersOf(step, bytes, effort.turns, true);
    const std::optional<double> ofTurns = BRAID_TRY(time(turns));
    if (!ofTurns)
      return Status::ok();
    write({Record::Kind::Latency, step, bytes, *ofTurns / static_cast<double>(2 * turns.count)});
  }
  right_ = step;
  return Status::ok();
}

Status PairMeter::measure() {
  Record record{.kind = Record::Kind::Device, .step = {Path::PutEngine, rank()}};
  const std::string text = device().identity() + " " + device().description();
  std::strncpy(record.text, text.c_str(), sizeof record.text - 1);
  write(record);
  for (const Step &step : options_.steps)
    BRAID_TRY(measure(step));
  return Status::ok();
}

Status measureAsRank(const Backend &backend, const MeterOptions &options) {
  const Result<std::optional<Place>> place = findPlace(processEnvironment());
  if (!place || !*place || (*place)->ranks != 2)
    return badInput("expected to be one of two ranks that measure");
  // Effectively no timeout: the command detects hangs, and knows whether it has been stopped.
  const auto job =
      BRAID_TRY(JobState::join(backend, {.ranks = 2, .timeout = std::chrono::hours(24)}, **place));
  PlanTimer timer(*job->cluster, (*place)->rank, job->trials.front());
  PairMeter meter(options, backend, timer);
  Status status = meter.measure();
  if (status.isOk())
    status = job->cluster->commit();
  if (!status.isOk())
    status = job->cluster->fail(status);
  if (job->cluster->isStuck()) // a transfer that never ends still uses local objects
    std::_Exit(static_cast<int>(status.code()));
  return status;
}

} // namespace braid
