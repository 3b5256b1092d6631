//===- api/timing/plan_timer.cpp - times Plans on the ranks of a job --------------------------===//

#include "api/timing/plan_timer.h"

#include "api/timing/random_tile.h"
#include "ir/failure.h"
#include "lowering/schedule/gpu_facts.h"

#include <algorithm>
#include <cstring>

namespace braid {
namespace {

/// Made in a moment, and too long to repeat within the tiles of a GEMM.
constexpr size_t kTileElements = size_t(1) << 18;

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

} // namespace

double warmUpTimeUs(double operations) {
  return operations > kH200.manyOperations ? kH200.steadyUs : 0;
}

PlanTimer::PlanTimer(Cluster &cluster, int64_t rank, TimedPlans &plans, Barrier barrier)
    : cluster_(cluster), rank_(rank), plans_(plans), barrier_(std::move(barrier)) {}

double PlanTimer::warmUpTimeUs(llvm::ArrayRef<PlanMatmul> gemms) {
  double operations = 0;
  for (const PlanMatmul &gemm : gemms)
    operations += 2.0 * double(gemm.m) * double(gemm.n) * double(gemm.k);
  return device().sharesHostMemory() ? 0 : braid::warmUpTimeUs(operations);
}

Result<std::string> PlanTimer::fromRankZero(std::string mine) {
  std::vector<std::string> all =
      BRAID_TRY(transport().allGather(rank_ == 0 ? std::move(mine) : ""));
  return std::move(all.front());
}

/// By its bytes: ranks are on one host.
Result<double> PlanTimer::numberFromRankZero(double mine) {
  std::string text =
      BRAID_TRY(fromRankZero(std::string(reinterpret_cast<const char *>(&mine), sizeof(mine))));
  if (text.size() != sizeof(mine))
    return internalError("expected a number from rank 0");
  std::memcpy(&mine, text.data(), sizeof(mine));
  return mine;
}

// -- Operands. --

/// A tile from the host, and then what is there already, twice as much each time.
Status PlanTimer::fill(const Loan &loan) {
  const std::vector<char> tile =
      randomTile(loan.filledWith, kTileElements, 1 + static_cast<uint64_t>(rank_));
  char *memory = static_cast<char *>(loan.memory);
  int64_t filled = std::min(loan.bytes, static_cast<int64_t>(tile.size()));
  device().copy(0, {}, memory, tile.data(), filled);
  for (; filled < loan.bytes; filled *= 2)
    device().copy(0, {}, memory + filled, memory, std::min(filled, loan.bytes - filled));
  return device().synchronize(); // the tile has been read
}

Result<PlanTimer::Loan *> PlanTimer::borrow(std::deque<Loan> &loans, size_t slot, int64_t bytes) {
  loans.resize(std::max(loans.size(), slot + 1));
  Loan &loan = loans[slot];
  if (loan.memory && loan.bytes >= bytes)
    return &loan;
  void *memory = BRAID_TRY(device().allocate(ArenaKind::Private, bytes));
  loan = {memory, bytes, loan.filledWith};
  allocatedBytes_ += bytes;
  return &loan;
}

Result<void *> PlanTimer::borrowFilled(size_t slot, int64_t bytes, DType dtype) {
  const void *before = slot < inputs_.size() ? inputs_[slot].memory : nullptr;
  Loan *loan = BRAID_TRY(borrow(inputs_, slot, bytes));
  if (loan->memory == before && loan->filledWith == dtype)
    return loan->memory;
  loan->filledWith = dtype;
  BRAID_TRY(fill(*loan));
  return loan->memory;
}

Status PlanTimer::bindArguments(TimedPlan &timed, const Plan &plan) {
  const DType dtype = plan.matmuls.empty() ? DType::BF16 : plan.matmuls.front().dtype;
  for (size_t i = 0; i < plan.inputs.size(); ++i) {
    timed.inputs.push_back(BRAID_TRY(borrowFilled(i, plan.buffers[plan.inputs[i]].bytes, dtype)));
  }
  for (size_t i = 0; i < plan.outputs.size(); ++i) {
    Loan *loan = BRAID_TRY(borrow(outputs_, i, plan.buffers[plan.outputs[i]].bytes));
    timed.outputs.push_back(loan->memory);
  }
  return Status::ok();
}

// -- Runs. --

Status PlanTimer::meet() {
  if (!barrier_)
    return transport().allGather("").status();
  return meetAt(barrier_, device());
}

Result<RunTime> PlanTimer::once(TimedPlan &plan) {
  BRAID_TRY(meet());
  return timeRun(*plan.prepared, device(), plan.launchMode, plan.inputs, plan.outputs);
}

/// Warms up, and goes on until that took long enough. Returns the microseconds of a run.
Result<double> PlanTimer::warmUpRuns(TimedPlan &plan, const TimingEffort &effort) {
  auto runsFor = [&](double us) {
    return std::max(effort.warmUp, runsToWarmUp(effort.warmUpUs, us));
  };
  return warmUp(transport(), runsFor, [&]() -> Result<double> {
    Result<RunTime> time = once(plan);
    return time ? Result<double>(time->us) : time.status();
  });
}

Result<RunTime> PlanTimer::time(TimedPlan &plan, const TimingEffort &effort) {
  if (cluster_.hosted() == 1)
    cluster_.setPlans(*plan.plans);
  double us = BRAID_TRY(warmUpRuns(plan, effort));
  const double fitting = std::min(effort.budgetUs / std::max(us, 1.0), 1e6);
  const int64_t runs = std::clamp(static_cast<int64_t>(fitting), effort.least, effort.most);
  std::vector<double> times; // all, then what they took to issue: one exchange for both
  std::vector<double> issues;
  for (int64_t i = 0; i < runs; ++i) {
    RunTime time = BRAID_TRY(once(plan));
    times.push_back(time.us);
    issues.push_back(time.issueUs);
  }
  times.insert(times.end(), issues.begin(), issues.end());
  std::vector<double> most = BRAID_TRY(maximaOverRanks(transport(), times));
  return RunTime{median({most.begin(), most.begin() + runs}),
                 median({most.begin() + runs, most.end()})};
}

// -- Plans. --

Status PlanTimer::issueAs(TimedPlan &timed, LaunchMode launchMode) {
  timed.launchMode = launchMode;
  if (launchMode != LaunchMode::Graph)
    return Status::ok();
  return timed.prepared->capture(timed.inputs, timed.outputs);
}

Result<TimedPlan> PlanTimer::makeReady(std::vector<Plan> plans, LaunchMode launchMode,
                                       TransferMode transferMode) {
  plans_.push_back(std::move(plans));
  TimedPlan timed;
  timed.plans = &plans_.back();
  if (cluster_.hosted() == 1)
    cluster_.setPlans(*timed.plans);
  const Plan &plan = (*timed.plans)[static_cast<size_t>(rank_)];
  timed.prepared = BRAID_TRY(prepare(plan, device(), transport(), transferMode));
  allocatedBytes_ += plan.symmetricBytes + plan.deviceBytes;
  BRAID_TRY(bindArguments(timed, plan));
  BRAID_TRY(issueAs(timed, launchMode));
  return timed;
}

Result<std::vector<RunTime>> PlanTimer::time(std::vector<Plan> plans,
                                             llvm::ArrayRef<LaunchMode> launchModes,
                                             const TimingEffort &effort,
                                             TransferMode transferMode) {
  TimedPlan timed = BRAID_TRY(makeReady(std::move(plans), launchModes.front(), transferMode));
  std::vector<RunTime> times;
  for (LaunchMode launchMode : launchModes) {
    if (launchMode != timed.launchMode)
      BRAID_TRY(issueAs(timed, launchMode));
    times.push_back(BRAID_TRY(this->time(timed, effort)));
  }
  return times;
}

} // namespace braid
