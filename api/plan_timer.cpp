//===- api/plan_timer.cpp - times Plans on the ranks of a job ---------------------------------===//

#include "api/plan_timer.h"

#include "runtime/numeric.h"

#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <random>

namespace braid {
namespace {

using Clock = std::chrono::steady_clock;

double usSince(Clock::time_point start) {
  return std::chrono::duration<double, std::micro>(Clock::now() - start).count();
}

/// Short enough to be made in a moment, too long to repeat within the tiles of a product.
std::vector<char> randomTile(DType dtype, uint64_t seed) {
  constexpr size_t kElements = size_t(1) << 18;
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<float> uniform(-1, 1);
  std::vector<char> tile(kElements * static_cast<size_t>(sizeOf(dtype)));
  for (size_t i = 0; i < kElements; ++i) {
    const float value = uniform(random);
    withElement(dtype, [&](auto element) {
      element = narrow<decltype(element)>(value);
      std::memcpy(tile.data() + i * sizeof element, &element, sizeof element);
    });
  }
  return tile;
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

/// As many numbers as `maxima` holds.
Status takeMaxima(llvm::StringRef text, std::vector<double> &maxima) {
  llvm::SmallVector<llvm::StringRef, 16> fields;
  text.split(fields, ' ', -1, /*KeepEmpty=*/false);
  if (fields.size() != maxima.size())
    return Status(StatusCode::BadInput, fmt::format("expected {} times of each rank, got {}",
                                                    maxima.size(), fields.size()));
  for (size_t i = 0; i < fields.size(); ++i) {
    double value = 0;
    if (fields[i].getAsDouble(value))
      return Status(StatusCode::BadInput, "expected a time, got '" + fields[i].str() + "'");
    maxima[i] = std::max(maxima[i], value);
  }
  return Status::ok();
}

} // namespace

PlanTimer::PlanTimer(Cluster &cluster, int64_t rank, TimedPlans &plans,
                     std::function<bool()> barrier)
    : cluster_(cluster), rank_(rank), plans_(plans), barrier_(std::move(barrier)) {}

Result<std::string> PlanTimer::fromRankZero(std::string mine) {
  Result<std::vector<std::string>> all = transport().allGather(rank_ == 0 ? std::move(mine) : "");
  if (!all)
    return all.status();
  return std::move(all->front());
}

Result<std::vector<double>> PlanTimer::maxima(const std::vector<double> &mine) {
  std::string text;
  for (double value : mine)
    text += fmt::format("{:.3f} ", value);
  Result<std::vector<std::string>> all = transport().allGather(std::move(text));
  if (!all)
    return all.status();
  std::vector<double> maxima(mine.size(), 0);
  for (const std::string &each : *all)
    if (Status status = takeMaxima(each, maxima); !status.isOk())
      return status;
  return maxima;
}

// -- Operands. --

/// A tile from the host, and then what is there already, twice as much each time.
Status PlanTimer::fill(const Loan &loan) {
  const std::vector<char> tile = randomTile(loan.filledWith, 1 + static_cast<uint64_t>(rank_));
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
  Result<void *> memory = device().allocate(ArenaKind::Private, bytes);
  if (!memory)
    return memory.status();
  loan = {*memory, bytes, loan.filledWith};
  allocatedBytes_ += bytes;
  return &loan;
}

Result<void *> PlanTimer::borrowFilled(size_t slot, int64_t bytes, DType dtype) {
  const void *before = slot < inputs_.size() ? inputs_[slot].memory : nullptr;
  Result<Loan *> loan = borrow(inputs_, slot, bytes);
  if (!loan)
    return loan.status();
  if ((*loan)->memory == before && (*loan)->filledWith == dtype)
    return (*loan)->memory;
  (*loan)->filledWith = dtype;
  if (Status status = fill(**loan); !status.isOk())
    return status;
  return (*loan)->memory;
}

Result<PlanTimer::Arguments> PlanTimer::makeArguments(const Plan &plan) {
  const DType dtype = plan.matmuls.empty() ? DType::BF16 : plan.matmuls.front().dtype;
  Arguments arguments;
  for (size_t i = 0; i < plan.inputs.size(); ++i) {
    Result<void *> memory = borrowFilled(i, plan.buffers[plan.inputs[i]].bytes, dtype);
    if (!memory)
      return memory.status();
    arguments.inputs.push_back(*memory);
  }
  for (size_t i = 0; i < plan.outputs.size(); ++i) {
    Result<Loan *> loan = borrow(outputs_, i, plan.buffers[plan.outputs[i]].bytes);
    if (!loan)
      return loan.status();
    arguments.outputs.push_back((*loan)->memory);
  }
  return arguments;
}

// -- Runs. --

Status PlanTimer::meet() {
  if (!barrier_)
    return transport().allGather("").status();
  if (barrier_())
    return Status::ok();
  Status cause = device().synchronize();
  return cause.isOk() ? Status(StatusCode::PeerFailed, "the job has failed") : cause;
}

Result<RunTime> PlanTimer::once(Prepared &prepared, Arguments &arguments, Issuing issuing) {
  if (Status status = meet(); !status.isOk())
    return status;
  const Clock::time_point start = Clock::now();
  if (issuing == Issuing::Graph)
    prepared.replay();
  else
    prepared.run(arguments.inputs, arguments.outputs);
  RunTime time;
  time.issueUs = usSince(start);
  if (Status status = device().synchronize(); !status.isOk())
    return status;
  time.us = usSince(start);
  return time;
}

Result<RunTime> PlanTimer::repeat(Prepared &prepared, Arguments &arguments, Issuing issuing,
                                  const TimingEffort &effort) {
  double last = 0;
  for (int64_t i = 0; i < effort.warmUp; ++i) {
    Result<RunTime> time = once(prepared, arguments, issuing);
    if (!time)
      return time.status();
    last = time->us;
  }
  Result<std::vector<double>> longest = maxima({last});
  if (!longest)
    return longest.status();
  const double fitting = std::min(effort.budgetUs / std::max(longest->front(), 1.0), 1e6);
  const int64_t runs = std::clamp(static_cast<int64_t>(fitting), effort.least, effort.most);
  std::vector<double> times; // all, then what they took to issue: one exchange for both
  std::vector<double> issues;
  for (int64_t i = 0; i < runs; ++i) {
    Result<RunTime> time = once(prepared, arguments, issuing);
    if (!time)
      return time.status();
    times.push_back(time->us);
    issues.push_back(time->issueUs);
  }
  times.insert(times.end(), issues.begin(), issues.end());
  Result<std::vector<double>> most = maxima(times);
  if (!most)
    return most.status();
  return RunTime{median({most->begin(), most->begin() + runs}),
                 median({most->begin() + runs, most->end()})};
}

Result<std::vector<RunTime>> PlanTimer::time(std::vector<Plan> plans, llvm::ArrayRef<Issuing> ways,
                                             const TimingEffort &effort, TransferMeans means) {
  plans_.push_back(std::move(plans));
  const std::vector<Plan> &all = plans_.back();
  if (cluster_.hosted() == 1)
    cluster_.setPlans(all);
  const Plan &plan = all[static_cast<size_t>(rank_)];
  Result<std::unique_ptr<Prepared>> prepared = prepare(plan, device(), transport(), means);
  if (!prepared)
    return prepared.status();
  allocatedBytes_ += plan.symmetricBytes + plan.deviceBytes;
  Result<Arguments> arguments = makeArguments(plan);
  if (!arguments)
    return arguments.status();
  std::vector<RunTime> times;
  for (Issuing issuing : ways) {
    if (issuing == Issuing::Graph)
      if (Status status = (*prepared)->capture(arguments->inputs, arguments->outputs);
          !status.isOk())
        return status;
    Result<RunTime> time = repeat(**prepared, *arguments, issuing, effort);
    if (!time)
      return time.status();
    times.push_back(*time);
  }
  return times;
}

} // namespace braid
